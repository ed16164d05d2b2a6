// The verbs of the software HCA: which datagrams are delivered, which are not and how they are counted, and what completes how.
#include "vswitch/fabric/softhca/soft_hca.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>

#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/wire/ib_headers.h"

namespace eoib::softhca {
namespace {

using Received = SoftNode::Received;

constexpr char kPartitions[] = R"(
[[partition]]
pkey = 0xffff
full = ["ALL"]

[[partition]]
pkey = 0x8001
full = ["full"]
limited = ["a", "limited"]
)";

const Gid kMgid = Gid::FromPrefixAndGuid(0xff12'e01b'ffff'ffff, Guid(0xffff'ffff'0000'0000));
const Gid kOtherMgid = Gid::FromPrefixAndGuid(0xff12'e01b'ffff'0100, Guid(0x5e00'0001'0000'0000));

class SoftHcaTest : public testing::Test {
 protected:
  static Subnet::Options Options() {
    Subnet::Options options;
    options.config = ParseSubnetConfig(kPartitions, "test").value();
    options.seed = 1;
    return options;
  }
  std::unique_ptr<Hca> Open(const std::string& name) {
    absl::StatusOr<std::unique_ptr<Hca>> hca = OpenSoftHca(subnet_.Connect(), name);
    EXPECT_TRUE(hca.ok()) << hca.status();
    return *std::move(hca);
  }

  Subnet subnet_{Options()};
};

// ---- Delivery.

TEST_F(SoftHcaTest, ADatagramArrivesWithItsCompletion) {
  SoftNode a(Open("a")), b(Open("b"));
  Destination to = b.GlobalAddress();
  to.sl = 3;
  to.traffic_class = 0x12;
  to.flow_label = 0xabcde;
  to.hop_limit = 9;
  ASSERT_EQ(a.Send(to, "hello"), 0);
  const ibv_wc sent = a.PollSend();
  EXPECT_EQ(sent.wr_id, 1u);
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(sent.qp_num, a.qpn().value());

  const Received got = b.Receive();
  EXPECT_EQ(got.payload, "hello");
  EXPECT_EQ(got.wc.wr_id, 0u);
  EXPECT_EQ(got.wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(got.wc.byte_len, 45u);
  EXPECT_EQ(got.wc.qp_num, b.qpn().value());
  EXPECT_EQ(got.wc.src_qp, a.qpn().value());
  EXPECT_EQ(got.wc.slid, a.config().lid.value());
  EXPECT_EQ(got.wc.sl, 3);
  EXPECT_EQ(got.wc.wc_flags, static_cast<unsigned>(IBV_WC_GRH));

  GrhInfo grh;
  ASSERT_EQ(ParseGrh({reinterpret_cast<const uint8_t*>(got.grh.data()), 40}, &grh), DropReason::kNone);
  EXPECT_EQ(grh.sgid, a.config().gid);
  EXPECT_EQ(grh.dgid, b.config().gid);
  EXPECT_EQ(grh.traffic_class, 0x12);
  EXPECT_EQ(grh.flow_label, 0xabcdeu);
  EXPECT_EQ(grh.hop_limit, 9);
  EXPECT_EQ(grh.payload_length, 12 + 8 + 8 + 4) << "BTH, DETH, payload and pad, ICRC";
}

TEST_F(SoftHcaTest, WithoutAGrhTheFirst40BytesAreNotTouched) {
  SoftNode a(Open("a")), b(Open("b"));
  std::memset(b.buffer(0), 0x5a, 40);
  ASSERT_EQ(a.Send(b.Address(), "hello"), 0);
  const Received got = b.Receive();
  EXPECT_EQ(got.payload, "hello");
  EXPECT_EQ(got.wc.wc_flags, 0u);
  EXPECT_EQ(got.wc.byte_len, 45u);
  EXPECT_EQ(got.grh, std::string(40, 0x5a));
}

TEST_F(SoftHcaTest, ImmediateDataAndEmptyMessagesArrive) {
  SoftNode a(Open("a")), b(Open("b"));
  ibv_ah* ah = a.MakeAh(b.Address());
  ibv_send_wr request{}, *bad;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = htobe32(0xdecade);
  request.wr.ud = {ah, b.qpn().value(), 0x1234};
  ASSERT_EQ(ibv_post_send(a.qp(), &request, &bad), 0);
  const Received got = b.Receive();
  EXPECT_EQ(got.wc.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(got.wc.imm_data, htobe32(0xdecade));
  EXPECT_EQ(got.wc.byte_len, 40u);
  EXPECT_EQ(a.PollSend().wr_id, 0u) << "unsignaled: no completion";
  a.verbs().destroy_ah(ah);
}

TEST_F(SoftHcaTest, GathersAndScatters) {
  SoftNode a(Open("a")), b(Open("b"), {.post_receives = false});
  // 16 pieces of 1 to 16 bytes, one of them empty, into buffers that divide the GRH and the payload.
  std::string expected;
  ibv_sge sges[16];
  uint8_t* at = a.send_area();
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t length = i == 5 ? 0 : i + 1;
    std::memset(at, 'a' + static_cast<int>(i), length);
    expected.append(length, static_cast<char>('a' + i));
    sges[i] = {reinterpret_cast<uintptr_t>(at), length, length == 0 ? 0 : a.mr()->lkey};
    at += length + 3;
  }
  const uintptr_t base = reinterpret_cast<uintptr_t>(b.buffer(0));
  ibv_sge into[4] = {
      {base, 10, b.mr()->lkey}, {base + 10, 50, b.mr()->lkey}, {base + 60, 0, 0}, {base + 60, 200, b.mr()->lkey}};
  ibv_recv_wr receive{}, *bad_receive;
  receive.sg_list = into;
  receive.num_sge = 4;
  ASSERT_EQ(ibv_post_recv(b.qp(), &receive, &bad_receive), 0);

  ibv_ah* ah = a.MakeAh(b.GlobalAddress());
  ibv_send_wr request{}, *bad;
  request.opcode = IBV_WR_SEND;
  request.sg_list = sges;
  request.num_sge = 16;
  request.wr.ud = {ah, b.qpn().value(), 0x1234};
  ASSERT_EQ(ibv_post_send(a.qp(), &request, &bad), 0);
  EXPECT_EQ(b.Receive().payload, expected);
  a.verbs().destroy_ah(ah);
}

TEST_F(SoftHcaTest, InlineDataNeedsNoMemoryRegion) {
  SoftNode a(Open("a")), b(Open("b"));
  std::string payload(256, 'i');
  ibv_sge sge = {reinterpret_cast<uintptr_t>(payload.data()), 256, 0};
  ibv_ah* ah = a.MakeAh(b.Address());
  ibv_send_wr request{}, *bad;
  request.opcode = IBV_WR_SEND;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_INLINE;
  request.wr.ud = {ah, b.qpn().value(), 0x1234};
  ASSERT_EQ(ibv_post_send(a.qp(), &request, &bad), 0);
  EXPECT_EQ(b.Receive().payload, payload);
  sge.length = 257;
  EXPECT_EQ(ibv_post_send(a.qp(), &request, &bad), EINVAL) << "more than max_inline_data";
  a.verbs().destroy_ah(ah);
}

// One rule a row: what is changed about a datagram that would arrive, and which of the receiver's counters tells.
TEST_F(SoftHcaTest, DeliveryRules) {
  struct Row {
    const char* description;
    std::function<void(Destination*)> change;
    size_t length;
    uint64_t PortCounters::*drop;  // null: delivered
  };
  const auto nothing = [](Destination*) {};
  const Row kRows[] = {
      {"as it should be", nothing, 100, nullptr},
      {"of the MTU", nothing, 4096, nullptr},
      {"with a GRH", [&](Destination* to) { to->dgid = Gid(); }, 100, &PortCounters::rcv_bad_address},
      {"the sender's own Q_Key by the high-order bit", [](Destination* to) { to->qkey = 0x8000'0000; }, 100, nullptr},
      {"a wrong Q_Key", [](Destination* to) { to->qkey = 0x1235; }, 100, &PortCounters::rcv_qkey_violations},
      {"no such queue pair", [](Destination* to) { to->qpn = Qpn(2); }, 100, &PortCounters::rcv_no_qp},
      {"QPN 0xffffff to a unicast LID", [](Destination* to) { to->qpn = Qpn(0xffffff); }, 100, &PortCounters::rcv_no_qp},
  };
  SoftNode a(Open("a"));
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    SoftNode b(Open("b"));
    Destination to = b.Address();
    row.change(&to);
    ASSERT_EQ(a.Send(to, std::string(row.length, 'x')), 0);
    EXPECT_EQ(a.PollSend().status, IBV_WC_SUCCESS);
    if (row.drop == nullptr) {
      EXPECT_EQ(b.Receive().payload, std::string(row.length, 'x'));
      EXPECT_EQ(b.counters().rcv_delivered, 1u);
      continue;
    }
    EXPECT_TRUE(b.Counts(row.drop, 1));
    EXPECT_EQ(b.counters().rcv_packets, 1u);
    EXPECT_EQ(b.counters().rcv_delivered, 0u);
  }
}

TEST_F(SoftHcaTest, WithoutAPostedReceiveItIsDropped) {
  SoftNode a(Open("a")), b(Open("b"), {.post_receives = false});
  ASSERT_EQ(a.Send(b.Address(), "early"), 0);
  EXPECT_TRUE(b.Counts(&PortCounters::rcv_no_receive, 1));
  ASSERT_EQ(b.PostReceive(7), 0);
  ASSERT_EQ(a.Send(b.Address(), "late"), 0);
  const Received got = b.Receive();
  EXPECT_EQ(got.payload, "late");
  EXPECT_EQ(got.wc.wr_id, 7u);
}

TEST_F(SoftHcaTest, AReceiveIsMatchedWhenItIsPolledNotWhenItArrives) {
  SoftNode a(Open("a")), b(Open("b"), {.post_receives = false});
  ASSERT_EQ(a.Send(b.Address(), "patient"), 0);
  ASSERT_EQ(b.PostReceive(0), 0);
  EXPECT_EQ(b.Receive().payload, "patient");
}

TEST_F(SoftHcaTest, TooLongForItsReceiveIsDroppedAndTheReceiveKept) {
  SoftNode a(Open("a")), b(Open("b"), {.post_receives = false});
  ASSERT_EQ(b.PostReceive(b.qp(), 0, 40 + 10), 0);
  ASSERT_EQ(a.Send(b.Address(), std::string(11, 'x')), 0);
  EXPECT_TRUE(b.Counts(&PortCounters::rcv_too_long, 1));
  ASSERT_EQ(a.Send(b.Address(), std::string(10, 'x')), 0);
  EXPECT_EQ(b.Receive().payload.size(), 10u);
}

TEST_F(SoftHcaTest, AQueuePairReceivesFromRtrOn) {
  SoftNode a(Open("a")), b(Open("b"));
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(b.verbs().modify_qp(b.qp(), &attr, IBV_QP_STATE), 0);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = 0x1234;
  ASSERT_EQ(b.verbs().modify_qp(b.qp(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
  ASSERT_EQ(b.PostReceive(0), 0);
  ASSERT_EQ(a.Send(b.Address(), "init"), 0);
  EXPECT_TRUE(b.Counts(&PortCounters::rcv_no_qp, 1));
  attr.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(b.verbs().modify_qp(b.qp(), &attr, IBV_QP_STATE), 0);
  ASSERT_EQ(a.Send(b.Address(), "rtr"), 0);
  EXPECT_EQ(b.Receive().payload, "rtr");
}

// ---- Partitions.

TEST_F(SoftHcaTest, PartitionsAndMembership) {
  struct Row {
    const char* description;
    const char* source;
    const char* destination;
    uint16_t source_index, destination_index;  // 0: 0xffff, 1: partition 1
    bool delivered;
  };
  constexpr Row kRows[] = {
      {"full to limited", "full", "limited", 1, 1, true},       {"limited to full", "limited", "full", 1, 1, true},
      {"limited to limited", "a", "limited", 1, 1, false},      {"from another partition", "full", "limited", 0, 1, false},
      {"to another partition", "full", "limited", 1, 0, false},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    SoftNode source(Open(row.source), {.pkey_index = row.source_index});
    SoftNode destination(Open(row.destination), {.pkey_index = row.destination_index});
    ASSERT_EQ(source.Send(destination.Address(), "x"), 0);
    if (row.delivered) {
      EXPECT_EQ(destination.Receive().payload, "x");
    } else {
      EXPECT_TRUE(destination.Counts(&PortCounters::rcv_pkey_violations, 1));
    }
  }
}

TEST_F(SoftHcaTest, AWithdrawnPKeySendsAndReceivesNothing) {
  SoftNode full(Open("full"), {.pkey_index = 1}), limited(Open("limited"), {.pkey_index = 1});
  ASSERT_EQ(full.Send(limited.Address(), "1"), 0);
  EXPECT_EQ(limited.Receive().payload, "1");
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0x8001), "limited").ok());
  ASSERT_TRUE(Eventually([&] { return !limited.config().pkeys[1].IsValid(); }));
  ASSERT_EQ(full.Send(limited.Address(), "2"), 0);
  EXPECT_TRUE(limited.Counts(&PortCounters::rcv_pkey_violations, 1));
  ASSERT_EQ(limited.Send(full.Address(), "3"), 0);
  EXPECT_EQ(limited.PollSend().status, IBV_WC_SUCCESS) << "as with hardware, nobody hears of it";
  EXPECT_EQ(limited.counters().xmit_pkey_errors, 1u);
}

// ---- Loopback and multicast.

TEST_F(SoftHcaTest, UnicastLoopsBack) {
  SoftNode a(Open("a"), {.receives = 8});
  ASSERT_EQ(a.Send(a.GlobalAddress(), "self"), 0);
  EXPECT_EQ(a.Receive().payload, "self");
  ibv_qp* other = a.MakeQp();
  ASSERT_EQ(a.PostReceive(other, 1, 4136), 0);
  Destination to = a.Address();
  to.qpn = Qpn(other->qp_num);
  ASSERT_EQ(a.Send(to, "other"), 0);
  const Received got = a.Receive();
  EXPECT_EQ(got.payload, "other");
  EXPECT_EQ(got.wc.qp_num, other->qp_num);
  EXPECT_EQ(got.wc.slid, a.config().lid.value());
}

TEST_F(SoftHcaTest, MulticastReachesEveryAttachedQueuePairOfEveryMember) {
  SoftNode a(Open("a")), b(Open("b")), c(Open("c"));
  ibv_qp* second = b.MakeQp();
  const Mlid mlid = a.Join(kMgid);
  EXPECT_EQ(b.Join(kMgid), mlid);
  ASSERT_EQ(a.Attach(a.qp(), kMgid, mlid), 0);
  ASSERT_EQ(b.Attach(b.qp(), kMgid, mlid), 0);
  ASSERT_EQ(b.Attach(second, kMgid, mlid), 0);
  ASSERT_EQ(b.PostReceive(second, 1, 4136), 0);
  ASSERT_EQ(c.Attach(c.qp(), kMgid, mlid), 0) << "attached, but its port did not join";

  ASSERT_TRUE(Eventually([&] { return subnet_.Groups().at(0).members.size() == 2; }));
  const Destination group = {mlid.value(), Qpn(Qpn::kMulticast), 0x1234, kMgid};
  ASSERT_EQ(a.Send(group, "all"), 0);
  EXPECT_EQ(a.Receive().payload, "all") << "the sender's own copy";
  EXPECT_THAT((std::vector<uint32_t>{b.Receive().wc.qp_num, b.Receive().wc.qp_num}),
              testing::UnorderedElementsAre(b.qpn().value(), second->qp_num));
  EXPECT_EQ(b.counters().rcv_packets, 1u) << "one packet a port";
  EXPECT_EQ(a.counters().xmit_packets, 1u);

  // A sender need not be a member.
  ASSERT_EQ(c.Send(group, "from outside"), 0);
  const Received got = a.Receive();
  EXPECT_EQ(got.payload, "from outside");
  GrhInfo grh;
  ASSERT_EQ(ParseGrh({reinterpret_cast<const uint8_t*>(got.grh.data()), 40}, &grh), DropReason::kNone);
  EXPECT_EQ(grh.dgid, kMgid);
  EXPECT_EQ(grh.sgid, c.config().gid);
  EXPECT_EQ(c.counters().rcv_packets, 0u);
}

TEST_F(SoftHcaTest, MulticastRules) {
  SoftNode a(Open("a")), b(Open("b"));
  const Mlid mlid = b.Join(kMgid);
  ASSERT_EQ(b.Attach(b.qp(), kMgid, mlid), 0);
  struct Row {
    const char* description;
    Destination to;
    uint64_t PortCounters::*drop;
  };
  const Row kRows[] = {
      {"a GID that nobody is attached to", {mlid.value(), Qpn(0xffffff), 0x1234, kOtherMgid}, &PortCounters::rcv_no_qp},
      {"without a GRH", {mlid.value(), Qpn(0xffffff), 0x1234, absl::nullopt}, &PortCounters::rcv_bad_address},
      {"to the number of a queue pair", {mlid.value(), b.qpn(), 0x1234, kMgid}, &PortCounters::rcv_bad_address},
      {"with a wrong Q_Key", {mlid.value(), Qpn(0xffffff), 0x9999, kMgid}, &PortCounters::rcv_qkey_violations},
  };
  uint64_t bad_address = 0;
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    ASSERT_EQ(a.Send(row.to, "x"), 0);
    bad_address += row.drop == &PortCounters::rcv_bad_address ? 1 : 0;
    EXPECT_TRUE(b.Counts(row.drop, row.drop == &PortCounters::rcv_bad_address ? bad_address : 1));
  }
  EXPECT_EQ(b.Detach(b.qp(), kMgid), 0);
  EXPECT_EQ(b.Detach(b.qp(), kMgid), EINVAL) << "not attached";
  EXPECT_EQ(b.Attach(b.qp(), kMgid, mlid), 0);
  EXPECT_EQ(b.Attach(b.qp(), kMgid, mlid), 0) << "again is no error";
  EXPECT_EQ(b.verbs().destroy_qp(b.qp()), EBUSY) << "while attached, as the kernel says";
}

// ---- Completions.

TEST_F(SoftHcaTest, SendErrorsStopTheSendQueueUntilItIsBroughtBack) {
  struct Row {
    const char* description;
    uint32_t length;
    uint32_t key_change;
    ibv_wc_status status;
  };
  constexpr Row kRows[] = {
      {"longer than the MTU", 4097, 0, IBV_WC_LOC_LEN_ERR},
      {"a key of no region", 10, 1, IBV_WC_LOC_PROT_ERR},
      {"beyond the region", 1u << 20, 0, IBV_WC_LOC_PROT_ERR},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    SoftNode a(Open("a")), b(Open("b"));
    ibv_ah* ah = a.MakeAh(b.Address());
    ibv_sge sge = {reinterpret_cast<uintptr_t>(a.send_area()), row.length, a.mr()->lkey ^ row.key_change};
    ibv_send_wr request{}, *bad;
    request.opcode = IBV_WR_SEND;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.wr_id = 1;
    request.wr.ud = {ah, b.qpn().value(), 0x1234};
    ASSERT_EQ(ibv_post_send(a.qp(), &request, &bad), 0);
    EXPECT_EQ(a.PollSend().status, row.status) << "completes though it is not signaled";
    EXPECT_EQ(a.qp()->state, IBV_QPS_SQE);
    ASSERT_EQ(a.Send(b.Address(), "flushed"), 0);
    EXPECT_EQ(a.PollSend().status, IBV_WC_WR_FLUSH_ERR);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(a.verbs().modify_qp(a.qp(), &attr, IBV_QP_STATE), 0);
    ASSERT_EQ(a.Send(b.Address(), "again"), 0);
    EXPECT_EQ(b.Receive().payload, "again");
    a.verbs().destroy_ah(ah);
  }
}

TEST_F(SoftHcaTest, TheSendQueueIsFreedByPollingOnly) {
  SoftNode a(Open("a"), {.sends = 4}), b(Open("b"));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(a.Send(b.Address(), "x", 0), 0);
  ASSERT_EQ(a.Send(b.Address(), "x"), 0);
  EXPECT_EQ(a.Send(b.Address(), "x"), ENOMEM);
  EXPECT_EQ(a.PollSend().wr_id, 4u) << "the signaled one frees those before it";
  for (int i = 0; i < 4; ++i) EXPECT_EQ(a.Send(b.Address(), "x", 0), 0);
  EXPECT_EQ(a.Send(b.Address(), "x", 0), ENOMEM) << "unsignaled ones alone fill it for ever, as on hardware";
}

TEST_F(SoftHcaTest, ReceivesAreFlushedInError) {
  SoftNode a(Open("a"), {.receives = 3});
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(a.verbs().modify_qp(a.qp(), &attr, IBV_QP_STATE), 0);
  for (uint64_t i = 0; i < 3; ++i) {
    const absl::optional<Received> got = a.Poll();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->wc.wr_id, i);
    EXPECT_EQ(got->wc.status, IBV_WC_WR_FLUSH_ERR);
  }
  ASSERT_EQ(a.Send(a.Address(), "x"), 0);
  EXPECT_EQ(a.PollSend().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(SoftHcaTest, AReceiveIntoReadOnlyMemoryFails) {
  SoftNode a(Open("a")), b(Open("b"), {.post_receives = false});
  ibv_mr* mr = b.verbs().reg_mr(b.pd(), b.buffer(0), 4136, 0);
  ibv_sge sge = {reinterpret_cast<uintptr_t>(b.buffer(0)), 4136, mr->lkey};
  ibv_recv_wr receive{}, *bad;
  receive.sg_list = &sge;
  receive.num_sge = 1;
  ASSERT_EQ(ibv_post_recv(b.qp(), &receive, &bad), 0);
  ASSERT_EQ(a.Send(b.Address(), "x"), 0);
  EXPECT_EQ(b.Receive().wc.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(b.qp()->state, IBV_QPS_ERR);
  EXPECT_EQ(b.verbs().dereg_mr(mr), 0);
}

TEST_F(SoftHcaTest, WhatTheVerbsRefuse) {
  SoftNode a(Open("a"), {.receives = 2});
  const VerbsTable& verbs = a.verbs();
  ibv_qp_init_attr init{};
  init.send_cq = a.send_cq();
  init.recv_cq = a.receive_cq();
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  errno = 0;
  EXPECT_EQ(verbs.create_qp(a.pd(), &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init.qp_type = IBV_QPT_UD;
  init.cap.max_send_sge = 1000;
  EXPECT_EQ(verbs.create_qp(a.pd(), &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.cap = {4, 4, 1, 1, 0};
  ibv_qp* qp = verbs.create_qp(a.pd(), &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_GE(init.cap.max_inline_data, 256u);

  ibv_sge sge = {reinterpret_cast<uintptr_t>(a.buffer(0)), 64, a.mr()->lkey};
  ibv_recv_wr receive{}, *bad_receive;
  receive.sg_list = &sge;
  receive.num_sge = 1;
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad_receive), EINVAL) << "in RESET";
  EXPECT_EQ(bad_receive, &receive);
  EXPECT_EQ(a.Send(qp, a.Address(), "x"), EINVAL) << "before RTS";

  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(verbs.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), EINVAL) << "RESET to RTS";
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  EXPECT_EQ(verbs.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL) << "without P_Key index and Q_Key";
  attr.pkey_index = 99;
  EXPECT_EQ(verbs.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY), EINVAL)
      << "no such index";
  EXPECT_EQ(a.PostReceive(0), ENOMEM) << "two are posted";
  EXPECT_EQ(verbs.dealloc_pd(a.pd()), EBUSY);
  EXPECT_EQ(verbs.destroy_cq(a.send_cq()), EBUSY);
  EXPECT_EQ(verbs.destroy_comp_channel(a.channel()), EBUSY);
  EXPECT_EQ(verbs.destroy_qp(qp), 0);

  ibv_gid unicast{};
  EXPECT_EQ(verbs.attach_mcast(a.qp(), &unicast, 0xc000), EINVAL);
  ibv_ah_attr ah{};
  ah.dlid = 1;
  EXPECT_EQ(verbs.create_ah(a.pd(), &ah), nullptr) << "port 0";
}

TEST_F(SoftHcaTest, ADestroyedQueuePairLeavesNoCompletions) {
  SoftNode a(Open("a")), b(Open("b"));
  ibv_qp* other = a.MakeQp();
  ASSERT_EQ(a.Send(other, b.Address(), "1"), 0);
  ASSERT_EQ(a.Send(b.Address(), "2"), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(a.verbs().modify_qp(other, &attr, IBV_QP_STATE), 0);
  EXPECT_EQ(a.PollSend().qp_num, a.qpn().value());
  EXPECT_EQ(a.PollSend().wr_id, 0u);
}

TEST_F(SoftHcaTest, AReplyFindsItsWay) {
  SoftNode a(Open("a")), b(Open("b"));
  ASSERT_EQ(a.Send(b.GlobalAddress(), "ping"), 0);
  Received got = b.Receive();
  ibv_ah_attr attr;
  ASSERT_EQ(b.verbs().init_ah_from_wc(b.hca().context(), 1, &got.wc, reinterpret_cast<ibv_grh*>(b.buffer(got.wc.wr_id)), &attr),
            0);
  EXPECT_EQ(attr.dlid, a.config().lid.value());
  EXPECT_EQ(attr.is_global, 1);
  EXPECT_EQ(Gid::FromWire(attr.grh.dgid.raw), a.config().gid);
  got.wc.wc_flags = 0;
  ASSERT_EQ(b.verbs().init_ah_from_wc(b.hca().context(), 1, &got.wc, nullptr, &attr), 0);
  EXPECT_EQ(attr.is_global, 0);
}

// ---- Events.

bool IsReadable(int fd, int milliseconds = 0) {
  pollfd ready = {fd, POLLIN, 0};
  return poll(&ready, 1, milliseconds) == 1;
}

// Takes and acknowledges an event, or errno.
int TakeEvent(SoftNode* node) {
  fcntl(node->channel()->fd, F_SETFL, O_NONBLOCK);
  ibv_cq* cq;
  void* context;
  if (node->verbs().get_cq_event(node->channel(), &cq, &context) != 0) return errno;
  node->verbs().ack_cq_events(cq, 1);
  return 0;
}

TEST_F(SoftHcaTest, AnArmedQueueRaisesOneEvent) {
  SoftNode a(Open("a")), b(Open("b"));
  ASSERT_EQ(a.Send(b.Address(), "before"), 0);
  b.Receive();
  EXPECT_FALSE(IsReadable(b.channel()->fd)) << "not armed";
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq(), 0), 0);
  EXPECT_FALSE(IsReadable(b.channel()->fd));
  EXPECT_EQ(TakeEvent(&b), EAGAIN);
  ASSERT_EQ(a.Send(b.Address(), "1"), 0);
  EXPECT_TRUE(IsReadable(b.channel()->fd, 10'000));
  EXPECT_EQ(TakeEvent(&b), 0);
  EXPECT_EQ(TakeEvent(&b), EAGAIN);
  EXPECT_FALSE(IsReadable(b.channel()->fd));
  ASSERT_EQ(a.Send(b.Address(), "2"), 0);
  EXPECT_FALSE(IsReadable(b.channel()->fd, 20)) << "one event for one arming";
  EXPECT_EQ(b.Receive().payload, "1");
  EXPECT_EQ(b.Receive().payload, "2");
}

TEST_F(SoftHcaTest, OnlySolicitedWakes) {
  SoftNode a(Open("a")), b(Open("b"));
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq(), 1), 0);
  ASSERT_EQ(a.Send(b.Address(), "plain"), 0);
  EXPECT_EQ(TakeEvent(&b), EAGAIN);
  ASSERT_EQ(a.Send(b.Address(), "solicited", IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
  EXPECT_TRUE(IsReadable(b.channel()->fd, 10'000)) << "a drop or a plain one in between does not use up the doorbell";
  EXPECT_EQ(TakeEvent(&b), 0);
  EXPECT_EQ(b.Receive().payload, "plain");
  EXPECT_EQ(b.Receive().payload, "solicited");
}

TEST_F(SoftHcaTest, WhatIsDroppedDoesNotUseUpTheEvent) {
  SoftNode a(Open("a")), b(Open("b"));
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq(), 0), 0);
  Destination wrong = b.Address();
  wrong.qkey = 1;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(a.Send(wrong, "dropped"), 0);
    EXPECT_TRUE(IsReadable(b.channel()->fd, 10'000));
    EXPECT_EQ(TakeEvent(&b), EAGAIN);
    EXPECT_FALSE(IsReadable(b.channel()->fd));
  }
  ASSERT_EQ(a.Send(b.Address(), "good"), 0);
  EXPECT_TRUE(IsReadable(b.channel()->fd, 10'000));
  EXPECT_EQ(TakeEvent(&b), 0);
}

// Two queue pairs of a port, each with its own channel: whoever takes what arrived wakes the other for its part.
TEST_F(SoftHcaTest, EachChannelHearsOfItsOwn) {
  SoftNode a(Open("a"));
  std::unique_ptr<Hca> hca = Open("b");
  Hca* shared = hca.get();
  SoftNode b(std::move(hca));
  const VerbsTable& verbs = b.verbs();
  ibv_comp_channel* channel = verbs.create_comp_channel(shared->context());
  ibv_cq* cq = verbs.create_cq(shared->context(), 8, &a, channel, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_UD;
  ibv_qp* qp = verbs.create_qp(b.pd(), &init);
  ASSERT_EQ(b.BringUp(qp), 0);
  ASSERT_EQ(b.PostReceive(qp, 60, 4136), 0);

  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq(), 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  Destination to = b.Address();
  to.qpn = Qpn(qp->qp_num);
  ASSERT_EQ(a.Send(to, "for the other"), 0);
  EXPECT_TRUE(IsReadable(b.channel()->fd, 10'000)) << "they share the doorbell";
  EXPECT_EQ(TakeEvent(&b), EAGAIN) << "but this one has nothing";
  EXPECT_TRUE(IsReadable(channel->fd, 10'000));
  ibv_cq* ready;
  void* context;
  ASSERT_EQ(verbs.get_cq_event(channel, &ready, &context), 0);
  EXPECT_EQ(ready, cq);
  EXPECT_EQ(context, &a);
  ASSERT_EQ(a.Send(b.Address(), "for this"), 0);
  EXPECT_TRUE(IsReadable(b.channel()->fd, 10'000)) << "still armed";
  EXPECT_EQ(TakeEvent(&b), 0);
  verbs.ack_cq_events(cq, 1);
  EXPECT_EQ(verbs.destroy_qp(qp), 0);
  EXPECT_EQ(verbs.destroy_cq(cq), 0);
  EXPECT_EQ(verbs.destroy_comp_channel(channel), 0);
}

// The datagrams of a busy queue pair wait in the ring until it has receives again, however often another queue is polled
// meanwhile.
TEST_F(SoftHcaTest, PollingAnIdleQueueDoesNotRunABusyOneOutOfReceives) {
  SoftNode a(Open("a"), {.sends = 512}), b(Open("b"), {.receives = 64});
  ibv_cq* idle = b.verbs().create_cq(b.hca().context(), 8, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = idle;
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_UD;
  ibv_qp* qp = b.verbs().create_qp(b.pd(), &init);
  ASSERT_EQ(b.BringUp(qp), 0);

  constexpr int kDatagrams = 200;
  for (int i = 0; i < kDatagrams; ++i) ASSERT_EQ(a.Send(b.Address(), "busy"), 0);
  ibv_wc completions[64];
  int received = 0;
  for (int turn = 0; turn < kDatagrams && received < kDatagrams; ++turn) {
    EXPECT_EQ(ibv_poll_cq(idle, 64, completions), 0);
    const int got = ibv_poll_cq(b.receive_cq(), 64, completions);
    for (int i = 0; i < got; ++i) ASSERT_EQ(b.PostReceive(static_cast<uint32_t>(completions[i].wr_id)), 0);
    received += got;
  }
  EXPECT_EQ(received, kDatagrams);
  EXPECT_EQ(b.counters().rcv_no_receive, 0u);
  EXPECT_EQ(b.verbs().destroy_qp(qp), 0);
  EXPECT_EQ(b.verbs().destroy_cq(idle), 0);
}

// Poll, arm, poll once more, sleep: no arrival is slept through, whenever it comes.
TEST_F(SoftHcaTest, NoWakeUpIsLost) {
  constexpr int kMessages = 3000;
  SoftNode a(Open("a")), b(Open("b"));
  std::thread receiver([&b] {
    for (int got = 0; got < kMessages;) {
      const absl::optional<Received> received = b.Poll();
      if (received.has_value()) {
        ASSERT_EQ(received->payload, std::to_string(got));
        ++got;
        ASSERT_EQ(b.PostReceive(received->wc.wr_id), 0);
        continue;
      }
      ASSERT_EQ(ibv_req_notify_cq(b.receive_cq(), 0), 0);
      if (const absl::optional<Received> late = b.Poll()) {
        ASSERT_EQ(late->payload, std::to_string(got));
        ++got;
        ASSERT_EQ(b.PostReceive(late->wc.wr_id), 0);
        continue;
      }
      ASSERT_TRUE(IsReadable(b.channel()->fd, 20'000)) << "slept through message " << got;
      TakeEvent(&b);
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(a.Send(b.Address(), std::to_string(i)), 0);
    a.PollSend();
    // Waiting for each now and then makes the receiver go to sleep; else it lags behind and finds some at once.
    if (i % 3 == 0) continue;
    ASSERT_TRUE(Eventually([&] { return b.counters().rcv_delivered >= static_cast<uint64_t>(i); }));
  }
  receiver.join();
  EXPECT_EQ(b.counters().rcv_delivered, static_cast<uint64_t>(kMessages));
}

// ---- Queries, asynchronous events, capture.

TEST_F(SoftHcaTest, QueriesShowWhatTheSubnetConfigured) {
  SoftNode a(Open("a"));
  const PortConfig config = a.config();
  const absl::StatusOr<HcaPortInfo> info = a.hca().QueryPort();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(info->active);
  EXPECT_FALSE(info->ethernet_link_layer);
  EXPECT_EQ(info->lid, config.lid);
  EXPECT_EQ(info->gid, config.gid);
  EXPECT_EQ(info->mtu, 5);
  EXPECT_EQ(info->rate, config.rate);
  EXPECT_EQ(a.hca().FindPKey(PKey(0x8001))->index, 1);
  EXPECT_EQ(a.hca().FindPKey(PKey(0x8001))->pkey, PKey(0x0001)) << "a is a limited member";
  EXPECT_FALSE(a.hca().FindPKey(PKey(0x8002)).ok());
  EXPECT_EQ(a.hca().name(), "soft:a");

  // Through the inline verbs, which look into the context.
  ibv_port_attr port;
  ASSERT_EQ(verbs_get_ctx_op(a.hca().context(), query_port)->query_port(a.hca().context(), 1, &port, sizeof(port)), 0);
  EXPECT_EQ(port.lid, config.lid.value());
  ibv_device_attr_ex device;
  ASSERT_EQ(verbs_get_ctx_op(a.hca().context(), query_device_ex)
                ->query_device_ex(a.hca().context(), nullptr, &device, sizeof(device)),
            0);
  EXPECT_EQ(be64toh(device.orig_attr.node_guid), config.node_guid.value());
  EXPECT_EQ(verbs_get_ctx_op(a.hca().context(), create_qp_ex), nullptr) << "what is missing is null, for EOPNOTSUPP";

  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(a.verbs().query_qp(a.qp(), &attr, IBV_QP_QKEY, &init), 0);
  EXPECT_EQ(attr.qkey, 0x1234u);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(init.cap.max_send_wr, 64u);
}

TEST_F(SoftHcaTest, APortHasOneOwner) {
  SoftNode a(Open("a"));
  const absl::StatusOr<std::unique_ptr<Hca>> second = OpenSoftHca(subnet_.Connect(), "a");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists) << second.status();
}

TEST_F(SoftHcaTest, ASecondProcessMayQueryAPort) {
  SoftNode a(Open("a"));
  AddDevice("eoib7", "a", [this]() -> absl::StatusOr<std::unique_ptr<SubnetLink>> { return subnet_.Connect(); });
  const VerbsTable& verbs = SoftVerbsTable();
  int count = 0;
  ibv_device** list = verbs.get_device_list(&count);
  ASSERT_GE(count, 1);
  EXPECT_EQ(list[count], nullptr);
  EXPECT_STREQ(verbs.get_device_name(list[count - 1]), "eoib7");
  ibv_context* context = verbs.open_device(list[count - 1]);
  verbs.free_device_list(list);
  ASSERT_NE(context, nullptr);
  ibv_port_attr port;
  ASSERT_EQ(verbs.query_port(context, 1, &port), 0);
  EXPECT_EQ(port.lid, a.config().lid.value());
  ibv_pd* pd = verbs.alloc_pd(context);
  ibv_cq* cq = verbs.create_cq(context, 4, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_UD;
  EXPECT_EQ(verbs.create_qp(pd, &init), nullptr);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(verbs.destroy_cq(cq), 0);
  EXPECT_EQ(verbs.dealloc_pd(pd), 0);
  EXPECT_EQ(verbs.close_device(context), 0);
}

TEST_F(SoftHcaTest, ChangesOfThePortAreEvents) {
  SoftNode a(Open("a"));
  ibv_context* context = a.hca().context();
  fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
  ibv_async_event event;
  EXPECT_EQ(a.verbs().get_async_event(context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  struct Row {
    const char* description;
    std::function<absl::Status()> change;
    ibv_event_type type;
  };
  const Row kRows[] = {
      {"link down", [&] { return subnet_.SetLink("a", false); }, IBV_EVENT_PORT_ERR},
      {"link up", [&] { return subnet_.SetLink("a", true); }, IBV_EVENT_PORT_ACTIVE},
      {"LID", [&] { return subnet_.SetLid("a", Lid(77)); }, IBV_EVENT_LID_CHANGE},
      {"P_Keys", [&] { return subnet_.RemoveFromPartition(PKey(0x8001), "a"); }, IBV_EVENT_PKEY_CHANGE},
      {"SM", [&] { return subnet_.MoveSm(Lid(99)); }, IBV_EVENT_SM_CHANGE},
      {"reregister", [&] { return subnet_.Reregister("a"); }, IBV_EVENT_CLIENT_REREGISTER},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    ASSERT_TRUE(row.change().ok());
    ASSERT_TRUE(IsReadable(context->async_fd, 10'000));
    ASSERT_EQ(a.verbs().get_async_event(context, &event), 0);
    EXPECT_EQ(event.event_type, row.type);
    EXPECT_EQ(event.element.port_num, 1);
    a.verbs().ack_async_event(&event);
    EXPECT_FALSE(IsReadable(context->async_fd));
  }
}

TEST_F(SoftHcaTest, ACaptureHasThePacketsOfBothDirections) {
  SoftNode a(Open("a")), b(Open("b"));
  const std::string path = testing::TempDir() + "/soft_hca_test.erf";
  ASSERT_TRUE(a.hca().StartCapture(path).ok());
  ASSERT_EQ(a.Send(b.GlobalAddress(), "from a"), 0);
  ASSERT_EQ(b.Receive().payload, "from a");
  ASSERT_EQ(b.Send(a.GlobalAddress(), "to a"), 0);
  ASSERT_EQ(a.Receive().payload, "to a");
  ASSERT_EQ(a.Send(b.Address(), "no GRH"), 0);
  ASSERT_EQ(a.Send(a.GlobalAddress(), "loop"), 0);
  ASSERT_EQ(a.Receive().payload, "loop");
  ASSERT_TRUE(a.hca().StopCapture().ok());
  ASSERT_EQ(a.Send(b.GlobalAddress(), "after"), 0);

  std::string file;
  FILE* stream = std::fopen(path.c_str(), "re");
  ASSERT_NE(stream, nullptr);
  char block[65536];
  file.assign(block, std::fread(block, 1, sizeof(block), stream));
  std::fclose(stream);
  std::remove(path.c_str());
  // pcap header 24 bytes; each packet a record header of 16 and an ERF header; the packet's end is its record's.
  std::vector<std::string> packets;
  constexpr size_t kErfHeader = 16;
  for (size_t at = 24; at < file.size();) {
    uint32_t length;
    std::memcpy(&length, &file[at + 8], sizeof(length));
    const auto* erf = reinterpret_cast<const uint8_t*>(&file[at + 16]);
    const size_t wire_length = static_cast<size_t>(erf[14] << 8 | erf[15]);
    packets.emplace_back(file, at + 16 + kErfHeader, wire_length);
    at += 16 + length;
  }
  ASSERT_EQ(packets.size(), 4u) << "the loopback once, and nothing after the end";
  const SoftNode* const sources[] = {&a, &b, nullptr, &a};
  const char* const payloads[] = {"from a", "to a", "no GRH", "loop"};
  for (size_t i = 0; i < packets.size(); ++i) {
    SCOPED_TRACE(payloads[i]);
    UdView view;
    const auto* bytes = reinterpret_cast<const uint8_t*>(packets[i].data());
    const DropReason parsed = ParseUdPacket({bytes, packets[i].size()}, &view);
    if (sources[i] == nullptr) {
      EXPECT_EQ(parsed, DropReason::kNoGrh);
      EXPECT_EQ(packets[i].size(), 8 + 12 + 8 + 6 + 2 + 4 + 2u) << "LRH, BTH, DETH, payload, pad, ICRC, VCRC";
      continue;
    }
    ASSERT_EQ(parsed, DropReason::kNone) << "headers, lengths and CRCs are right";
    EXPECT_EQ(std::string(view.payload.begin(), view.payload.end()), payloads[i]);
    EXPECT_EQ(view.packet.slid, sources[i]->config().lid);
    EXPECT_EQ(view.packet.sgid, sources[i]->config().gid);
    EXPECT_EQ(view.packet.source_qpn, sources[i]->qpn());
    EXPECT_EQ(view.packet.pkey, PKey(0xffff));
    EXPECT_EQ(view.packet.qkey, QKey(0x1234));
  }
}

}  // namespace
}  // namespace eoib::softhca
