// Software HCA: which datagrams are delivered, with which completion, and how the others are
// counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "vswitch/fabric/sa_client.h"
#include "vswitch/fabric/softhca/soft_hca_test_fixture.h"
#include "vswitch/wire/ib/ib_headers_for_test.h"

namespace eoib::softhca {
namespace {

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
  ASSERT_EQ(ParseGrh({reinterpret_cast<const uint8_t*>(got.grh.data()), 40}, &grh),
            DropReason::kNone);
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
  // 16 pieces of 1 to 16 bytes, one of them empty, into buffers that divide the GRH and the
  // payload.
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
  ibv_sge into[4] = {{base, 10, b.mr()->lkey},
                     {base + 10, 50, b.mr()->lkey},
                     {base + 60, 0, 0},
                     {base + 60, 200, b.mr()->lkey}};
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

// One rule in each row: the change to a datagram that would arrive, and the counter that the
// receiver increments.
TEST_F(SoftHcaTest, DeliveryRules) {
  struct Row {
    const char* description;
    std::function<void(Destination*)> change;
    size_t length;
    uint64_t SoftPortCounters::*drop;  // null: delivered
  };
  const auto nothing = [](Destination*) {};
  const Row kRows[] = {
      {"as it should be", nothing, 100, nullptr},
      {"as long as the MTU", nothing, 4096, nullptr},
      {"with a GRH", [&](Destination* to) { to->dgid = Gid(); }, 100,
       &SoftPortCounters::rcv_bad_address},
      {"the sender's own Q_Key by the high-order bit",
       [](Destination* to) { to->qkey = 0x8000'0000; }, 100, nullptr},
      {"a wrong Q_Key", [](Destination* to) { to->qkey = 0x1235; }, 100,
       &SoftPortCounters::rcv_qkey_violations},
      {"no such queue pair", [](Destination* to) { to->qpn = Qpn(2); }, 100,
       &SoftPortCounters::rcv_no_qp},
      {"QPN 0xffffff to a unicast LID", [](Destination* to) { to->qpn = Qpn(0xffffff); }, 100,
       &SoftPortCounters::rcv_no_qp},
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
  EXPECT_TRUE(b.Counts(&SoftPortCounters::rcv_no_receive, 1));
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
  EXPECT_TRUE(b.Counts(&SoftPortCounters::rcv_too_long, 1));
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
  ASSERT_EQ(b.verbs().modify_qp(b.qp(), &attr,
                                IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            0);
  ASSERT_EQ(b.PostReceive(0), 0);
  ASSERT_EQ(a.Send(b.Address(), "init"), 0);
  EXPECT_TRUE(b.Counts(&SoftPortCounters::rcv_no_qp, 1));
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
      {"full to limited", "full", "limited", 1, 1, true},
      {"limited to full", "limited", "full", 1, 1, true},
      {"limited to limited", "a", "limited", 1, 1, false},
      {"from another partition", "full", "limited", 0, 1, false},
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
      EXPECT_TRUE(destination.Counts(&SoftPortCounters::rcv_pkey_violations, 1));
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
  EXPECT_TRUE(limited.Counts(&SoftPortCounters::rcv_pkey_violations, 1));
  ASSERT_EQ(limited.Send(full.Address(), "3"), 0);
  EXPECT_EQ(limited.PollSend().status, IBV_WC_SUCCESS) << "as with hardware, no error is reported";
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
  ASSERT_EQ(ParseGrh({reinterpret_cast<const uint8_t*>(got.grh.data()), 40}, &grh),
            DropReason::kNone);
  EXPECT_EQ(grh.dgid, kMgid);
  EXPECT_EQ(grh.sgid, c.config().gid);
  EXPECT_EQ(c.counters().rcv_packets, 0u);
}

// Joins through the SA, as programs do. Returns the group's MLID.
Mlid JoinAs(SoftNode* node, uint8_t join_state) {
  const MonotonicClock clock;
  SaClient sa(node->hca().mads(), &clock, {});
  McMemberRecord record;
  record.mgid = Mgid(kMgid);
  record.port_gid = node->config().gid;
  record.join_state = join_state;
  absl::optional<absl::StatusOr<McMemberRecord>> answer;
  sa.Join(record, mcm::kMgid | mcm::kPortGid | mcm::kJoinState,
          [&answer](absl::StatusOr<McMemberRecord> group) { answer = std::move(group); });
  EXPECT_TRUE(Eventually([&] {
    sa.Run();
    return answer.has_value();
  }));
  EXPECT_TRUE((*answer).ok()) << (*answer).status();
  EXPECT_EQ((**answer).join_state & join_state, join_state);
  return (**answer).mlid;
}

// IBA 1.4 §15.2.5.17: join state 4. The same program receives once it is also a non-member (2).
TEST_F(SoftHcaTest, ASendOnlyNonMemberReachesTheMembersAndReceivesNothing) {
  SoftNode member(Open("a")), other(Open("b")), sender(Open("c"));
  const Mlid mlid = member.Join(kMgid);
  EXPECT_EQ(other.Join(kMgid), mlid);
  EXPECT_EQ(JoinAs(&sender, kSendOnlyNonMember), mlid);
  for (SoftNode* node : {&member, &other, &sender})
    ASSERT_EQ(node->Attach(node->qp(), kMgid, mlid), 0);
  const Destination group = {mlid.value(), Qpn(Qpn::kMulticast), 0x1234, kMgid};
  ASSERT_EQ(sender.Send(group, "to members"), 0);
  EXPECT_EQ(member.Receive().payload, "to members");
  EXPECT_EQ(other.Receive().payload, "to members");

  // Datagrams from one port to another arrive in order.
  ASSERT_EQ(member.Send(group, "not for all"), 0);
  ASSERT_EQ(member.Send(sender.Address(), "for you"), 0);
  EXPECT_EQ(other.Receive().payload, "not for all");
  EXPECT_EQ(sender.Receive().payload, "for you");
  EXPECT_EQ(sender.counters().rcv_packets, 1u) << "its own copy neither";

  EXPECT_EQ(JoinAs(&sender, kNonMember), mlid);
  ASSERT_EQ(member.Send(group, "for all"), 0);
  EXPECT_EQ(sender.Receive().payload, "for all");
}

TEST_F(SoftHcaTest, MulticastRules) {
  SoftNode a(Open("a")), b(Open("b"));
  const Mlid mlid = b.Join(kMgid);
  ASSERT_EQ(b.Attach(b.qp(), kMgid, mlid), 0);
  struct Row {
    const char* description;
    Destination to;
    uint64_t SoftPortCounters::*drop;
  };
  const Row kRows[] = {
      {"a GID to which no queue pair is attached",
       {mlid.value(), Qpn(0xffffff), 0x1234, kOtherMgid},
       &SoftPortCounters::rcv_no_qp},
      {"without a GRH",
       {mlid.value(), Qpn(0xffffff), 0x1234, absl::nullopt},
       &SoftPortCounters::rcv_bad_address},
      {"to the number of a queue pair",
       {mlid.value(), b.qpn(), 0x1234, kMgid},
       &SoftPortCounters::rcv_bad_address},
      {"with a wrong Q_Key",
       {mlid.value(), Qpn(0xffffff), 0x9999, kMgid},
       &SoftPortCounters::rcv_qkey_violations},
  };
  uint64_t bad_address = 0;
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    ASSERT_EQ(a.Send(row.to, "x"), 0);
    bad_address += row.drop == &SoftPortCounters::rcv_bad_address ? 1 : 0;
    EXPECT_TRUE(
        b.Counts(row.drop, row.drop == &SoftPortCounters::rcv_bad_address ? bad_address : 1));
  }
  EXPECT_EQ(b.Detach(b.qp(), kMgid), 0);
  EXPECT_EQ(b.Detach(b.qp(), kMgid), EINVAL) << "not attached";
  EXPECT_EQ(b.Attach(b.qp(), kMgid, mlid), 0);
  EXPECT_EQ(b.Attach(b.qp(), kMgid, mlid), 0) << "again is no error";
  EXPECT_EQ(b.verbs().destroy_qp(b.qp()), EBUSY) << "while attached, as the kernel says";
}

}  // namespace
}  // namespace eoib::softhca
