// Tests through libibverbs that the kernel module simib implements UD queue pairs as IBA specifies.
// A part of vm_simib_tests, and uses its subnet.
#include <infiniband/verbs.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "tests/lab/ib_subnet.h"
#include "tests/lab/process.h"

namespace eoib::lab {
namespace {

constexpr uint32_t kQKey = 0x11111111;
constexpr uint32_t kOwnQKey =
    0x80000000;  // high-order bit: use the sender QP's own Q_Key (IBA 10.2.5)
constexpr int kGrh = 40;
constexpr int kSlot = 8192;
constexpr int kSlots = 16;

// A UD queue pair in RTS, with a completion queue and memory of its own.
class Endpoint {
 public:
  explicit Endpoint(int adapter, uint16_t pkey = 0xffff, uint32_t qkey = kQKey)
      : adapter_(adapter), memory_(kSlot * kSlots) {
    context_ = Open(IbSubnet::Device(adapter));
    pd_ = ibv_alloc_pd(context_);
    channel_ = ibv_create_comp_channel(context_);
    cq_ = ibv_create_cq(context_, 2 * kSlots, nullptr, channel_, 0);
    mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    qp_ = CreateQp(0);
    if (mr_ == nullptr || qp_ == nullptr)
      DieErrno("make a queue pair on " + IbSubnet::Device(adapter));
    Modify(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, IndexOf(pkey), qkey);
    Modify(IBV_QPS_RTR, 0);
    Modify(IBV_QPS_RTS, IBV_QP_SQ_PSN);
  }
  ~Endpoint() {
    ibv_destroy_qp(qp_);
    ibv_dereg_mr(mr_);
    ibv_destroy_cq(cq_);
    ibv_destroy_comp_channel(channel_);
    ibv_dealloc_pd(pd_);
    ibv_close_device(context_);
  }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  ibv_qp* CreateQp(uint32_t inline_bytes) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = cq_;
    attributes.qp_type = IBV_QPT_UD;
    attributes.cap = {kSlots, kSlots, 1, 1, inline_bytes};
    return ibv_create_qp(pd_, &attributes);
  }

  void Modify(ibv_qp_state state, int mask, uint16_t pkey_index = 0, uint32_t qkey = 0) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    attributes.pkey_index = pkey_index;
    attributes.port_num = 1;
    attributes.qkey = qkey;
    const int error = ibv_modify_qp(qp_, &attributes, mask | IBV_QP_STATE);
    if (error != 0) Die("modify a queue pair: " + std::string(strerror(error)));
  }
  ibv_qp_state State() {
    ibv_qp_attr attributes;
    ibv_qp_init_attr unused;
    if (ibv_query_qp(qp_, &attributes, IBV_QP_STATE, &unused) != 0) Die("query a queue pair");
    return attributes.qp_state;
  }
  ibv_port_attr QueryPort() {
    ibv_port_attr attributes{};
    if (ibv_query_port(context_, 1, &attributes) != 0) DieErrno("query a port");
    return attributes;
  }
  ibv_gid Gid() {
    ibv_gid gid;
    if (ibv_query_gid(context_, 1, 0, &gid) != 0) DieErrno("query a GID");
    return gid;
  }

  // `slot` is the buffer's place in memory, and the wr_id.
  void PostReceive(int slot, uint32_t length = kSlot) {
    ibv_sge element = {Address(slot), length, mr_->lkey};
    ibv_recv_wr request{};
    request.wr_id = slot;
    request.sg_list = &element;
    request.num_sge = 1;
    ibv_recv_wr* bad;
    if (ibv_post_recv(qp_, &request, &bad) != 0) Die("post a receive");
  }
  const uint8_t* Slot(int slot) const { return memory_.data() + slot * kSlot; }

  struct Options {
    bool grh = false;
    uint32_t qkey = kQKey;
    int flags = IBV_SEND_SIGNALED;
    uint32_t lkey = 0;  // 0: the right one
  };
  // Sends `payload` and returns the completion. Destroys the address handle while the request may
  // be in flight.
  ibv_wc Send(Endpoint& to, const std::string& payload, const Options& options) {
    ibv_ah_attr handle{};
    handle.dlid = IbSubnet::Lid(to.adapter_);
    handle.is_global = options.grh;
    handle.grh.dgid = to.Gid();
    handle.grh.hop_limit = 64;
    return SendTo(handle, to.qp_->qp_num, payload, options);
  }
  ibv_wc Send(Endpoint& to, const std::string& payload) { return Send(to, payload, Options()); }
  ibv_wc SendTo(ibv_ah_attr handle, uint32_t qpn, const std::string& payload,
                const Options& options) {
    handle.port_num = 1;
    std::memcpy(memory_.data(), payload.data(), payload.size());
    ibv_sge element = {Address(0), static_cast<uint32_t>(payload.size()),
                       options.lkey != 0 ? options.lkey : mr_->lkey};
    ibv_send_wr request{};
    request.wr_id = 77;
    request.sg_list = &element;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = options.flags;
    request.wr.ud.ah = ibv_create_ah(pd_, &handle);
    request.wr.ud.remote_qpn = qpn;
    request.wr.ud.remote_qkey = options.qkey;
    if (request.wr.ud.ah == nullptr) DieErrno("make an address handle");
    ibv_send_wr* bad;
    if (ibv_post_send(qp_, &request, &bad) != 0) Die("post a send");
    ibv_destroy_ah(request.wr.ud.ah);
    absl::optional<ibv_wc> completion;
    EventuallyTrue(kPatience, [&] { return (completion = Poll(IBV_WC_SEND)).has_value(); });
    if (!completion) Die("a send does not complete");
    return *completion;
  }

  // The next completion of that kind; keeps the others for later. A datagram is received before its
  // send completes.
  absl::optional<ibv_wc> Poll(ibv_wc_opcode opcode) {
    ibv_wc polled;
    while (ibv_poll_cq(cq_, 1, &polled) > 0) completions_.push_back(polled);
    for (auto completion = completions_.begin(); completion != completions_.end(); ++completion) {
      if ((completion->opcode & IBV_WC_RECV) != (opcode & IBV_WC_RECV)) continue;
      const ibv_wc found = *completion;
      completions_.erase(completion);
      return found;
    }
    return absl::nullopt;
  }
  absl::optional<ibv_wc> Receive() { return Poll(IBV_WC_RECV); }

  // The completion channel.
  void Arm(bool solicited_only) { ASSERT_EQ(ibv_req_notify_cq(cq_, solicited_only), 0); }
  bool HasEvent() {
    pollfd fd = {channel_->fd, POLLIN, 0};
    return poll(&fd, 1, 0) == 1;
  }
  void TakeEvent() {
    ibv_cq* cq;
    void* context;
    ASSERT_EQ(ibv_get_cq_event(channel_, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
  }

  ibv_qp* qp() { return qp_; }

 private:
  static ibv_context* Open(const std::string& device) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ibv_context* context = nullptr;
    for (int i = 0; i < count; ++i) {
      if (device == ibv_get_device_name(list[i])) context = ibv_open_device(list[i]);
    }
    ibv_free_device_list(list);
    if (context == nullptr) DieErrno("open " + device);
    return context;
  }
  uint16_t IndexOf(uint16_t pkey) const {
    for (const auto& [index, value] : IbSubnet::PKeys(adapter_)) {
      if ((value & 0x7fff) == (pkey & 0x7fff)) return static_cast<uint16_t>(index);
    }
    Die("no such P_Key on " + IbSubnet::Device(adapter_));
  }
  uint64_t Address(int slot) const {
    return reinterpret_cast<uint64_t>(memory_.data() + slot * kSlot);
  }

  const int adapter_;
  std::vector<uint8_t> memory_;
  std::vector<ibv_wc> completions_;
  ibv_context* context_;
  ibv_pd* pd_;
  ibv_comp_channel* channel_;
  ibv_cq* cq_;
  ibv_mr* mr_;
  ibv_qp* qp_;
};

TEST(SimibVerbs, DatagramByLidArrives) {
  Endpoint a(1), b(2);
  b.PostReceive(3);
  EXPECT_EQ(a.Send(b, "hello").status, IBV_WC_SUCCESS);
  const absl::optional<ibv_wc> got = b.Receive();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->wr_id, 3u);
  EXPECT_EQ(got->byte_len, kGrh + 5u);
  EXPECT_EQ(got->src_qp, a.qp()->qp_num);
  EXPECT_EQ(got->slid, IbSubnet::Lid(1));
  EXPECT_EQ(got->wc_flags & IBV_WC_GRH, 0u);
  EXPECT_EQ(std::memcmp(b.Slot(3) + kGrh, "hello", 5), 0);
}

// IBA 8.3.
TEST(SimibVerbs, DatagramWithGrhArrives) {
  Endpoint a(1), b(2);
  b.PostReceive(0);
  a.Send(b, "hello", {.grh = true});
  const absl::optional<ibv_wc> got = b.Receive();
  ASSERT_TRUE(got.has_value());
  EXPECT_NE(got->wc_flags & IBV_WC_GRH, 0u);
  ibv_grh grh;
  std::memcpy(&grh, b.Slot(0), kGrh);
  EXPECT_EQ(be32toh(grh.version_tclass_flow) >> 28, 6u);
  EXPECT_EQ(grh.next_hdr, 0x1b);
  EXPECT_EQ(be16toh(grh.paylen), 12 + 8 + 8 + 4);  // BTH, DETH, the payload with its padding, ICRC
  EXPECT_EQ(grh.hop_limit, 64);
  const ibv_gid from = a.Gid(), to = b.Gid();
  EXPECT_EQ(std::memcmp(&grh.sgid, &from, sizeof(from)), 0);
  EXPECT_EQ(std::memcmp(&grh.dgid, &to, sizeof(to)), 0);
}

// IBA 9.6.1.4.
TEST(SimibVerbs, WrongQKeyIsDroppedAndCounted) {
  Endpoint a(1), b(2);
  b.PostReceive(0);
  const uint32_t before = b.QueryPort().qkey_viol_cntr;
  EXPECT_EQ(a.Send(b, "hello", {.qkey = 0x2222}).status, IBV_WC_SUCCESS);
  EXPECT_FALSE(b.Receive().has_value());
  EXPECT_EQ(b.QueryPort().qkey_viol_cntr, before + 1);
}

TEST(SimibVerbs, HighOrderBitSelectsTheSendersOwnQKey) {
  Endpoint a(1, 0xffff, 0x8000abcd), b(2, 0xffff, 0x8000abcd), stranger(1);
  b.PostReceive(0);
  stranger.Send(b, "hello", {.qkey = 0x8000abcd});
  EXPECT_FALSE(b.Receive().has_value());
  a.Send(b, "hello", {.qkey = kOwnQKey});
  EXPECT_TRUE(b.Receive().has_value());
}

// IBA 10.9.3.
TEST(SimibVerbs, LimitedMembersAreIsolatedFromEachOther) {
  Endpoint full(0, 0x8002), limited(1, 0x8002), other(2, 0x8002);
  full.PostReceive(0);
  other.PostReceive(0);
  const uint32_t before = other.QueryPort().bad_pkey_cntr;
  limited.Send(other, "hello");
  EXPECT_FALSE(other.Receive().has_value());
  EXPECT_EQ(other.QueryPort().bad_pkey_cntr, before + 1);
  limited.Send(full, "hello");
  EXPECT_TRUE(full.Receive().has_value());
  full.Send(other, "hello");
  EXPECT_TRUE(other.Receive().has_value());
}

TEST(SimibVerbs, OtherPartitionIsNotReceived) {
  Endpoint blue(1, 0x8001), red(0, 0x8002);
  red.PostReceive(0);
  blue.Send(red, "hello");
  EXPECT_FALSE(red.Receive().has_value());
}

TEST(SimibVerbs, DatagramWithoutPostedReceiveIsLost) {
  Endpoint a(1), b(2);
  const uint64_t before = IbSubnet::Drops(2)["no_receive"];
  a.Send(b, "lost");
  b.PostReceive(0);
  EXPECT_FALSE(b.Receive().has_value());
  EXPECT_EQ(IbSubnet::Drops(2)["no_receive"], before + 1);
}

TEST(SimibVerbs, TooShortReceiveStaysPosted) {
  Endpoint a(1), b(2);
  b.PostReceive(4, kGrh + 5);
  a.Send(b, "longer");
  EXPECT_FALSE(b.Receive().has_value());
  EXPECT_EQ(b.State(), IBV_QPS_RTS);
  a.Send(b, "short");
  const absl::optional<ibv_wc> got = b.Receive();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->wr_id, 4u);
}

// IBA 10.3.1.5: the send queue stops, and what follows is flushed until it is set to RTS again.
TEST(SimibVerbs, MessageLongerThanMtuStopsSendQueue) {
  Endpoint a(1), b(2);
  b.PostReceive(0);
  EXPECT_EQ(a.Send(b, std::string(4097, 'x')).status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_SQE);
  EXPECT_EQ(a.Send(b, "after it").status, IBV_WC_WR_FLUSH_ERR);
  a.Modify(IBV_QPS_RTS, 0);
  EXPECT_EQ(a.Send(b, std::string(4096, 'x'), {.flags = IBV_SEND_SIGNALED}).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(b.Receive().has_value());
}

TEST(SimibVerbs, WrongLkeyIsProtectionError) {
  Endpoint a(1), b(2);
  EXPECT_EQ(a.Send(b, "hello", {.lkey = 0x7fffffff}).status, IBV_WC_LOC_PROT_ERR);
}

// IBA 10.3.1.6.
TEST(SimibVerbs, ErrorStateFlushesReceives) {
  Endpoint b(2);
  b.PostReceive(1);
  b.Modify(IBV_QPS_ERR, 0);
  b.PostReceive(2);
  for (uint64_t slot : {1, 2}) {
    const absl::optional<ibv_wc> got = b.Receive();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->wr_id, slot);
    EXPECT_EQ(got->status, IBV_WC_WR_FLUSH_ERR);
  }
}

TEST(SimibVerbs, InlineDataIsRefused) {
  Endpoint a(1);
  EXPECT_EQ(a.CreateQp(64), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(SimibVerbs, OnlySolicitedSendsRaiseSolicitedEvents) {
  Endpoint a(1), b(2);
  b.PostReceive(0);
  b.PostReceive(1);
  b.PostReceive(2);
  b.Arm(true);
  a.Send(b, "quiet");
  EXPECT_FALSE(b.HasEvent());
  a.Send(b, "loud", {.flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED});
  ASSERT_TRUE(b.HasEvent());
  b.TakeEvent();
  a.Send(b, "not armed", {.flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED});
  EXPECT_FALSE(b.HasEvent());
}

// The MLID of IPoIB's broadcast group, which every port has joined (RFC 4391 §4).
uint16_t BroadcastMlid() {
  const RunResult result =
      RunOnMachine({"saquery", "MCMemberRecord", "--mgid", "ff12:401b:ffff::ffff:ffff"});
  // "mlid....................0xc000"
  const std::vector<std::string> parts =
      absl::StrSplit(result.out, absl::ByAnyChar(".\n\t "), absl::SkipEmpty());
  const auto name = std::find(parts.begin(), parts.end(), "mlid");
  uint32_t mlid = 0;
  if (name == parts.end() || name + 1 == parts.end() || !absl::SimpleHexAtoi(name[1], &mlid)) {
    Die("no broadcast group: " + result.ToString());
  }
  return static_cast<uint16_t>(mlid);
}

// IBA 10.5.2: all attached queue pairs receive a multicast, also on the sender's adapter, including
// the sender itself.
TEST(SimibVerbs, MulticastReachesAttachedQueuePairs) {
  Endpoint a(1), neighbour(1), b(2), c(3), deaf(2);
  ibv_ah_attr group{};
  group.is_global = 1;
  const uint8_t mgid[16] = {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0,    0,
                            0,    0,    0,    0,    0xff, 0xff, 0xff, 0xff};
  std::memcpy(group.grh.dgid.raw, mgid, sizeof(mgid));
  group.dlid = BroadcastMlid();
  for (Endpoint* member : {&a, &neighbour, &b, &c}) {
    member->PostReceive(1);
    ASSERT_EQ(ibv_attach_mcast(member->qp(), &group.grh.dgid, group.dlid), 0);
  }
  deaf.PostReceive(1);
  EXPECT_EQ(a.SendTo(group, 0xffffff, "to all", {}).status, IBV_WC_SUCCESS);
  for (Endpoint* member : {&a, &neighbour, &b, &c}) {
    const absl::optional<ibv_wc> got = member->Receive();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->src_qp, a.qp()->qp_num);
    EXPECT_NE(got->wc_flags & IBV_WC_GRH, 0u);
    EXPECT_EQ(std::memcmp(member->Slot(1) + kGrh, "to all", 6), 0);
    EXPECT_FALSE(member->Receive().has_value());
  }
  EXPECT_FALSE(deaf.Receive().has_value());

  b.PostReceive(2);
  ASSERT_EQ(ibv_detach_mcast(b.qp(), &group.grh.dgid, group.dlid), 0);
  a.SendTo(group, 0xffffff, "to fewer", {});
  EXPECT_FALSE(b.Receive().has_value());
}

}  // namespace
}  // namespace eoib::lab
