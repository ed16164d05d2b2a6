// SoftNode: a program with one UD queue pair on a port of the software fabric, for tests: raw verbs
// without an endpoint.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_NODE_FOR_TEST_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_NODE_FOR_TEST_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "vswitch/base/eventually_for_test.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {

inline const Gid kMgid = Gid::FromPrefixAndGuid(0xff12'e01b'ffff'ffff, Guid(0xffff'ffff'0000'0000));

// A link to an in-process subnet that acts like a link to another process: rings are memory files.
class DescriptorLink final : public SubnetLink {
 public:
  explicit DescriptorLink(std::unique_ptr<SubnetLink> link) : link_(std::move(link)) {}
  absl::Status Register(const std::string& name, const PortResources& resources, PortUse use,
                        PortSink* sink) override {
    return link_->Register(name, resources, use, sink);
  }
  void Unregister() override { link_->Unregister(); }
  absl::Status SendMadTo(Lid destination, const Mad& mad) override {
    return link_->SendMadTo(destination, mad);
  }
  absl::Status OpenRing(uint64_t request, Lid destination, RingEnd end) override {
    return link_->OpenRing(request, destination, std::move(end));
  }
  void CloseRing(uint64_t ring) override { link_->CloseRing(ring); }

 private:
  const std::unique_ptr<SubnetLink> link_;
};

struct NodeOptions {
  uint16_t pkey_index = 0;
  uint32_t qkey = 0x1234;
  uint32_t receives = 64;
  uint32_t receive_size = 4096 + 40;
  uint32_t sends = 64;
  bool post_receives = true;
};

// A destination. The rest comes from the node.
struct Destination {
  uint16_t dlid = 0;
  Qpn qpn;
  uint32_t qkey = 0x1234;
  absl::optional<Gid> dgid;  // set: send with a GRH
  uint8_t sl = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint32_t flow_label = 0;
};

class SoftNode {
 public:
  explicit SoftNode(std::unique_ptr<Hca> hca, NodeOptions options = {})
      : hca_(std::move(hca)), options_(options) {
    channel_ = verbs().create_comp_channel(hca_->context());
    pd_ = verbs().alloc_pd(hca_->context());
    const auto depth = static_cast<int>(options.receives + options.sends);
    receive_cq_ = verbs().create_cq(hca_->context(), depth, nullptr, channel_, 0);
    send_cq_ = verbs().create_cq(hca_->context(), depth, nullptr, channel_, 0);
    memory_.resize(options.receives * options.receive_size + kSendArea);
    mr_ = verbs().reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    qp_ = MakeQp();
    if (options.post_receives) {
      for (uint32_t i = 0; i < options.receives; ++i) PostReceive(i);
    }
  }
  ~SoftNode() {
    while (!attached_.empty())
      EXPECT_EQ(Detach(attached_.back().first, attached_.back().second), 0);
    for (ibv_qp* qp : qps_) EXPECT_EQ(verbs().destroy_qp(qp), 0);
    EXPECT_EQ(verbs().dereg_mr(mr_), 0);
    EXPECT_EQ(verbs().destroy_cq(receive_cq_), 0);
    EXPECT_EQ(verbs().destroy_cq(send_cq_), 0);
    EXPECT_EQ(verbs().dealloc_pd(pd_), 0);
    EXPECT_EQ(verbs().destroy_comp_channel(channel_), 0);
  }

  const VerbsTable& verbs() const { return hca_->verbs(); }
  Hca& hca() { return *hca_; }
  SoftPort& port() const { return *SoftPortOf(*hca_); }
  PortConfig config() const { return port().config(); }
  SoftPortCounters counters() const { return port().counters(); }
  ibv_qp* qp() const { return qp_; }
  Qpn qpn() const { return Qpn(qp_->qp_num); }
  ibv_pd* pd() const { return pd_; }
  ibv_mr* mr() const { return mr_; }
  ibv_cq* receive_cq() const { return receive_cq_; }
  ibv_cq* send_cq() const { return send_cq_; }
  ibv_comp_channel* channel() const { return channel_; }

  // Makes another queue pair on the same completion queues, ready to send.
  ibv_qp* MakeQp() {
    ibv_qp_init_attr init{};
    init.send_cq = send_cq_;
    init.recv_cq = receive_cq_;
    init.cap = {options_.sends, options_.receives, 16, 4, 256};
    init.qp_type = IBV_QPT_UD;
    ibv_qp* qp = verbs().create_qp(pd_, &init);
    EXPECT_NE(qp, nullptr);
    qps_.push_back(qp);
    EXPECT_EQ(BringUp(qp), 0);
    return qp;
  }
  int BringUp(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.pkey_index = options_.pkey_index;
    attr.qkey = options_.qkey;
    if (int e = verbs().modify_qp(qp, &attr,
                                  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
        e != 0)
      return e;
    attr.qp_state = IBV_QPS_RTR;
    if (int e = verbs().modify_qp(qp, &attr, IBV_QP_STATE); e != 0) return e;
    attr.qp_state = IBV_QPS_RTS;
    return verbs().modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
  }

  uint8_t* buffer(uint64_t index) { return &memory_[index * options_.receive_size]; }
  uint8_t* send_area() { return &memory_[options_.receives * options_.receive_size]; }

  int PostReceive(uint64_t index) { return PostReceive(qp_, index, options_.receive_size); }
  int PostReceive(ibv_qp* qp, uint64_t index, uint32_t size) {
    ibv_sge sge = {reinterpret_cast<uintptr_t>(buffer(index)), size, mr_->lkey};
    ibv_recv_wr request{};
    request.wr_id = index;
    request.sg_list = &sge;
    request.num_sge = 1;
    ibv_recv_wr* bad;
    return ibv_post_recv(qp, &request, &bad);
  }

  ibv_ah* MakeAh(const Destination& to) {
    ibv_ah_attr attr{};
    attr.dlid = to.dlid;
    attr.port_num = 1;
    attr.sl = to.sl;
    if (to.dgid.has_value()) {
      attr.is_global = 1;
      to.dgid->ToWire(attr.grh.dgid.raw);
      attr.grh.traffic_class = to.traffic_class;
      attr.grh.hop_limit = to.hop_limit;
      attr.grh.flow_label = to.flow_label;
    }
    return verbs().create_ah(pd_, &attr);
  }

  // Posts one signaled send of `payload` and returns the errno value.
  int Send(const Destination& to, const std::string& payload, unsigned flags = IBV_SEND_SIGNALED) {
    return Send(qp_, to, payload, flags);
  }
  int Send(ibv_qp* qp, const Destination& to, const std::string& payload,
           unsigned flags = IBV_SEND_SIGNALED) {
    EXPECT_LE(payload.size(), kSendArea);
    std::memcpy(send_area(), payload.data(), payload.size());
    ibv_sge sge = {reinterpret_cast<uintptr_t>(send_area()), static_cast<uint32_t>(payload.size()),
                   mr_->lkey};
    ibv_ah* ah = MakeAh(to);
    ibv_send_wr request{};
    request.wr_id = ++sent_;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = flags;
    request.wr.ud.ah = ah;
    request.wr.ud.remote_qpn = to.qpn.value();
    request.wr.ud.remote_qkey = to.qkey;
    ibv_send_wr* bad;
    const int error = ibv_post_send(qp, &request, &bad);
    verbs().destroy_ah(ah);
    return error;
  }

  // Returns the next send completion; *wc.wr_id is 0 if there is none.
  ibv_wc PollSend() {
    ibv_wc wc{};
    ibv_poll_cq(send_cq_, 1, &wc);
    return wc;
  }

  struct Received {
    ibv_wc wc;
    std::string payload;
    std::string grh;
  };
  absl::optional<Received> Poll() {
    Received received{};
    if (ibv_poll_cq(receive_cq_, 1, &received.wc) != 1) return absl::nullopt;
    if (received.wc.status != IBV_WC_SUCCESS) return received;
    const char* bytes = reinterpret_cast<const char*>(buffer(received.wc.wr_id));
    received.grh.assign(bytes, 40);
    received.payload.assign(bytes + 40, received.wc.byte_len - 40);
    return received;
  }
  // Returns the next datagram; fails the test if none arrives.
  Received Receive() {
    absl::optional<Received> received;
    EXPECT_TRUE(Eventually([&] { return (received = Poll()).has_value(); })) << "nothing arrived";
    return received.value_or(Received{});
  }
  // Returns true once `counter` is `count`. Polls, since only polling takes records from rings.
  bool Counts(uint64_t SoftPortCounters::*counter, uint64_t count) {
    return Eventually([&] {
      EXPECT_FALSE(Poll().has_value()) << "delivered";
      return counters().*counter == count;
    });
  }

  int Attach(ibv_qp* qp, const Gid& mgid, Mlid mlid = Mlid()) {
    ibv_gid gid;
    mgid.ToWire(gid.raw);
    if (std::find(attached_.begin(), attached_.end(), std::make_pair(qp, mgid)) ==
        attached_.end()) {
      attached_.emplace_back(qp, mgid);
    }
    return verbs().attach_mcast(qp, &gid, mlid.value());
  }
  int Detach(ibv_qp* qp, const Gid& mgid) {
    ibv_gid gid;
    mgid.ToWire(gid.raw);
    attached_.erase(std::remove(attached_.begin(), attached_.end(), std::make_pair(qp, mgid)),
                    attached_.end());
    return verbs().detach_mcast(qp, &gid, 0);
  }

  // Joins or creates a group with P_Key index 0. Returns its MLID.
  Mlid Join(const Gid& mgid, PKey pkey = PKey(0xffff)) {
    McMemberRecord record;
    record.mgid = Mgid(mgid);
    record.port_gid = config().gid;
    record.qkey = QKey(options_.qkey);
    record.pkey = pkey;
    record.join_state = kFullMember;
    Mad mad{};
    SaHeader header;
    header.method = MadMethod::kSet;
    header.attribute = SaAttribute::kMcMemberRecord;
    header.tid = ++sent_;
    header.component_mask = mcm::kMgid | mcm::kPortGid | mcm::kQKey | mcm::kPKey | mcm::kJoinState |
                            mcm::kSl | mcm::kFlowLabel | mcm::kTrafficClass;
    EncodeSaHeader(header, &mad);
    EncodeMcMemberRecord(record, SaRecord(&mad));
    EXPECT_TRUE(hca_->mads()->Send(mad).ok());
    std::vector<uint8_t> answer;
    EXPECT_TRUE(Eventually([&] { return hca_->mads()->Receive(&answer); }));
    EXPECT_EQ(DecodeSaHeader(answer).value().status, 0);
    return DecodeMcMemberRecord(SaRecord(answer)).value().mlid;
  }

  // The address of this node's queue pair.
  Destination Address() const {
    return {config().lid.value(), qpn(), options_.qkey, absl::nullopt};
  }
  Destination GlobalAddress() const {
    return {config().lid.value(), qpn(), options_.qkey, config().gid};
  }

 private:
  static constexpr size_t kSendArea = 8192;

  const std::unique_ptr<Hca> hca_;
  const NodeOptions options_;
  ibv_comp_channel* channel_;
  ibv_pd* pd_;
  ibv_cq* receive_cq_;
  ibv_cq* send_cq_;
  std::vector<uint8_t> memory_;
  ibv_mr* mr_;
  ibv_qp* qp_ = nullptr;
  std::vector<ibv_qp*> qps_;
  std::vector<std::pair<ibv_qp*, Gid>> attached_;
  uint64_t sent_ = 0;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_NODE_FOR_TEST_H_
