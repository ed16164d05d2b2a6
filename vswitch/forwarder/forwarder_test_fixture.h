// ForwarderTest: forwarders on an in-process software subnet. The test polls them, moves their
// clock and plays control.
#ifndef EOIB_VSWITCH_FORWARDER_FORWARDER_TEST_FIXTURE_H_
#define EOIB_VSWITCH_FORWARDER_FORWARDER_TEST_FIXTURE_H_

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/sa_client.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"
#include "vswitch/forwarder/forwarder.h"
#include "vswitch/port/port_for_test.h"
#include "vswitch/wire/frame_for_test.h"
#include "vswitch/wire/mgid.h"

namespace eoib {

inline constexpr uint32_t kMtu = 4092;
inline VlanPolicy Access(uint16_t vid) {
  VlanPolicy policy;
  policy.access_vlan = Vid(vid);
  return policy;
}

inline VlanPolicy Trunk(std::initializer_list<uint16_t> vids, uint16_t native = 0) {
  VlanPolicy policy;
  policy.mode = PortMode::kTrunk;
  policy.trunk_vlans = VlanSet::None();
  for (uint16_t vid : vids) policy.trunk_vlans.Add(Vid(vid));
  policy.native_vlan = Vid(native);
  return policy;
}

// Runs a function once, after a stage: for example between a frame's lookup and its post.
class OnceAfter final : public StageProbe {
 public:
  OnceAfter(Stage stage, std::function<void()> then) : stage_(stage), then_(std::move(then)) {}
  void Passed(Stage stage) noexcept override {
    if (stage == stage_ && then_ != nullptr) std::exchange(then_, nullptr)();
  }

 private:
  const Stage stage_;
  std::function<void()> then_;
};

inline Bytes PayloadOf(const ControlMessage& message) {
  return {message.payload.begin(), message.payload.begin() + message.length};
}

// One agent's data path of one VES. The test plays control.
class Host {
 public:
  struct Options {
    PKey pkey{0x8001};
    VlanSet vlans = VlanSet::All();
    size_t fdb_limit = 1024;
    uint32_t mtu = kMtu;
    uint16_t group_fwd_mask = kDefaultGroupForwardMask;
    HeaderForm header_form = HeaderForm::kEoib;
    bool replicate = false;  // flood by a flood list; no group is joined
    size_t buffers = 1024;
    softhca::OutboundOptions outbound;
  };

  Host(softhca::Subnet* subnet, const std::string& name, const Clock* clock, const Options& options)
      : clock_(clock), fdb_({absl::Seconds(300), options.fdb_limit}, clock) {
    softhca::SoftPort::Options port_options;
    port_options.outbound = options.outbound;
    hca_ = softhca::OpenSoftHca(subnet->Connect(), name, port_options).value();
    pd_ = hca_->verbs().alloc_pd(hca_->context());
    handles_ = std::make_unique<AddressHandles>(hca_.get(), pd_);
    pool_ = BufferPool::Create(hca_.get(), pd_, options.buffers, kMtu).value();
    const Hca::PKeyIndex pkey = hca_->FindPKey(options.pkey).value();
    endpoint_ = UdEndpoint::Create(hca_.get(), pd_, pool_.get(), handles_.get(),
                                   {.pkey_index = pkey.index,
                                    .qkey = QKey(0x80008001),
                                    .receive_depth = 256,
                                    .send_depth = 256})
                    .value();
    const HcaPortInfo port = hca_->QueryPort().value();
    Forwarder::Options forwarder;
    forwarder.vlans = options.vlans;
    forwarder.group_fwd_mask = options.group_fwd_mask;
    forwarder.header_form = options.header_form;
    forwarder.flood_mgid = FloodMgid(options.pkey);
    forwarder.message_source = MacAddr::FromUint64(0x02'00'00'00'00'ee);
    if (options.replicate) forwarder.floods = &floods_;
    forwarder_ = std::make_unique<Forwarder>(
        forwarder,
        Forwarder::Dependencies{pool_.get(), &fdb_, &directory_, &punts_, &messages_, &injected_,
                                clock},
        Forwarder::Uplink{
            endpoint_.get(), {port.gid, endpoint_->qpn()}, !pkey.pkey.IsFullMember()});
    forwarder_->SetMtu(options.mtu);
    if (!options.replicate) flood_ah_ = JoinGroup(forwarder.flood_mgid, port, pkey.pkey);
    forwarder_->SetFloodHandle(flood_ah_);
    endpoint_->Refill();
  }

  ~Host() {
    forwarder_.reset();
    endpoint_.reset();
    pool_.reset();
    handles_.reset();
    hca_->verbs().dealloc_pd(pd_);
  }

  TestPort* AddPort(const std::string& name, const VlanPolicy& vlan = {},
                    MacAddr pinned = MacAddr()) {
    ports_.push_back(std::make_unique<TestPort>(name, pinned));
    forwarder_->AddPort(ports_.back().get(), vlan, pinned);
    return ports_.back().get();
  }

  // One turn of the worker. Returns whether anything happened.
  bool Turn() {
    bool any = false;
    for (uint32_t i = 0; i < ports_.size(); ++i) any |= forwarder_->PollPort(i);
    any |= forwarder_->PollFabric();
    any |= forwarder_->PollInjected();
    forwarder_->Housekeep();
    return any;
  }

  // Plays control: publishes the path to each punted peer. Returns whether there was any.
  bool ResolvePunts() {
    bool any = false;
    for (Punt::Kind kind : {Punt::Kind::kNewPeer, Punt::Kind::kReaddressed}) {
      for (const Punt& punt : TakePunts(kind)) {
        directory_.SetPath(punt.vport, punt.peer.gid,
                           handles_->Get({punt.peer.gid, punt.slid.value(), punt.sl}, {}).value(),
                           punt.slid);
        injected_.RetryHeld();
        any = true;
      }
    }
    return any;
  }
  // The punts of a kind since the last call.
  std::vector<Punt> TakePunts(Punt::Kind kind) {
    for (Punt punt; punts_.Pop(&punt);) punted_.push_back(punt);
    std::vector<Punt> taken;
    std::copy_if(punted_.begin(), punted_.end(), std::back_inserter(taken),
                 [kind](const Punt& p) { return p.kind == kind; });
    punted_.erase(std::remove_if(punted_.begin(), punted_.end(),
                                 [kind](const Punt& p) { return p.kind == kind; }),
                  punted_.end());
    return taken;
  }
  // The messages that the worker handed over since the last call.
  std::vector<ControlMessage> TakeMessages() {
    std::vector<ControlMessage> messages;
    for (ControlMessage message; messages_.Pop(&message);) messages.push_back(message);
    return messages;
  }
  // Whether the worker has woken control since the last call.
  bool TakeWakeup() {
    pollfd woken{punts_.fd(), POLLIN, 0};
    const bool any = poll(&woken, 1, 0) == 1;
    punts_.Clear();
    return any;
  }
  // Plays control: sends a message to `vport`, or, if that is None, to the group. False if the
  // queue is full.
  bool SendMessage(VPortId vport, const Bytes& payload) {
    ControlMessage message;
    message.vport = vport;
    message.length = static_cast<uint32_t>(payload.size());
    std::copy(payload.begin(), payload.end(), message.payload.begin());
    return injected_.Push(message);
  }

  // Plays control: replaces the path to `other` and removes the former handle.
  void ReplacePathTo(const Host& other) {
    const HcaPortInfo port = other.hca_->QueryPort().value();
    const VPortId vport = directory_.Find({port.gid, other.endpoint_->qpn()});
    const AhIndex before = directory_.Get(vport).ah;
    handles_->Renew();
    directory_.SetPath(vport, port.gid,
                       handles_->Get({port.gid, port.lid.value(), Sl(0)}, {}).value(), port.lid);
    handles_->Put(before);
    handles_->Reap();
  }

  // Plays control: announces one peer at all of `hosts`, and sets its paths if `resolve`. Returns
  // its vPort.
  VPortId AggregateOf(const std::vector<const Host*>& hosts, bool resolve = true) {
    std::vector<VPortAddress> addresses;
    for (const Host* host : hosts) addresses.push_back({.peer = host->address()});
    const VPortId vport = directory_.Intern(addresses[0].peer);
    EXPECT_TRUE(directory_.Announce(vport, addresses, {}));
    for (const Host* host : hosts) {
      if (resolve) SetPathTo(*host, vport);
    }
    return vport;
  }
  // Plays control: `other` announces itself.
  VPortId Know(const Host& other) { return AggregateOf({&other}); }
  // With `tell` it also asks the worker to retry held frames.
  void SetPathTo(const Host& other, VPortId vport, bool tell = true) {
    const HcaPortInfo port = other.hca_->QueryPort().value();
    directory_.SetPath(vport, port.gid,
                       handles_->Get({port.gid, port.lid.value(), Sl(0)}, {}).value(), port.lid);
    if (tell) injected_.RetryHeld();
  }
  // Removes the handle that SetPathTo published.
  void ForgetPathTo(const Host& other) {
    const HcaPortInfo port = other.hca_->QueryPort().value();
    const AhIndex ah = handles_->Get({port.gid, port.lid.value(), Sl(0)}, {}).value();
    for (int user = 0; user < 2; ++user) handles_->Put(ah);
    handles_->Reap();
  }

  void ExpectConservation() {
    const ForwarderCounters& c = forwarder_->counters();
    EXPECT_EQ(c.frames_in.value(),
              c.from_ports.value() + c.from_fabric.value() + c.from_control.value());
    EXPECT_EQ(c.frames_in.value(), c.forwarded.value() + c.DropSum(DropSide::kIngress));
    EXPECT_EQ(c.forwarded.value(), c.known_unicast.value() + c.flooded_unknown.value() +
                                       c.flooded_group.value() + c.messages_sent.value());
    EXPECT_EQ(c.egress_copies.value(), c.transmitted.value() + c.DropSum(DropSide::kEgress));
    size_t buffers = 0;
    for (size_t state = 0; state < static_cast<size_t>(BufferPool::State::kCount); ++state) {
      buffers += pool_->count(static_cast<BufferPool::State>(state));
    }
    EXPECT_EQ(buffers, pool_->size());
    EXPECT_EQ(pool_->count(BufferPool::State::kBatch), 0u) << "a buffer leaked out of a batch";
    EXPECT_EQ(pool_->count(BufferPool::State::kHeld), 0u);
    EXPECT_EQ(pool_->count(BufferPool::State::kInFlight), 0u);
  }

  // Sends raw bytes as a UD payload to `qpn` through `ah`, bypassing the forwarder.
  void SendRaw(const Bytes& payload, AhIndex ah, Qpn qpn) {
    const BufferId buffer = pool_->Allocate();
    uint8_t* bytes = pool_->Frame(buffer) - kEoibHeaderSize;
    std::copy(payload.begin(), payload.end(), bytes);
    const SendRequest request{buffer, bytes, static_cast<uint32_t>(payload.size()), ah, qpn};
    DropReason result;
    ASSERT_EQ(endpoint_->Send({&request, 1}, {&result, 1}), 1u);
    size_t failed = 0;
    endpoint_->ReapSends(&failed);
    ASSERT_EQ(failed, 0u);
  }
  void SendRawToGroup(const Bytes& payload) { SendRaw(payload, flood_ah_, Qpn(Qpn::kMulticast)); }
  // Joins another group of the VES, which this version does not use.
  AhIndex JoinOtherGroup(MacAddr dmac) {
    std::array<uint8_t, Gid::kSize> mgid = FloodMgid(PKey(0x8001)).gid().bytes();
    dmac.ToWire(&mgid[6]);
    return JoinGroup(Mgid(Gid(mgid)), hca_->QueryPort().value(), PKey(0x8001));
  }
  void SendRawTo(const Host& other, const Bytes& payload) {
    const HcaPortInfo port = other.hca_->QueryPort().value();
    SendRaw(payload, handles_->Get({port.gid, port.lid.value(), Sl(0)}, {}).value(),
            other.endpoint_->qpn());
  }

  // The UD payloads that arrived, bypassing the forwarder.
  std::vector<Bytes> ReceiveRaw() {
    std::array<Datagram, 64> datagrams;
    std::vector<Bytes> payloads;
    const size_t received = endpoint_->Receive(absl::MakeSpan(datagrams));
    for (size_t i = 0; i < received; ++i) {
      const uint8_t* payload = pool_->Frame(datagrams[i].buffer) - kEoibHeaderSize;
      payloads.emplace_back(payload, payload + datagrams[i].length);
      pool_->Free(datagrams[i].buffer);
    }
    return payloads;
  }

  PeerAddress address() const { return {hca_->QueryPort().value().gid, endpoint_->qpn()}; }
  const ForwarderCounters& counters() const { return forwarder_->counters(); }
  uint64_t dropped(DropReason reason) const { return counters().drop(reason); }
  Forwarder* forwarder() { return forwarder_.get(); }
  Fdb* fdb() { return &fdb_; }
  VPortDirectory* directory() { return &directory_; }
  InjectQueue* injected() { return &injected_; }
  FloodList* floods() { return &floods_; }
  BufferPool* pool() { return pool_.get(); }
  VPortId local_vport(size_t port) const { return forwarder_->ports()[port].vport; }
  // Where the FDB says `mac` is.
  VPortId Behind(MacAddr mac) const {
    const FdbKey key(Vid(0), mac);
    VPortId behind = VPortId::None();
    fdb_.Find({&key, 1}, {&behind, 1});
    return behind;
  }

 private:
  // Joins and attaches to the group, and returns its handle. The first to join creates the group.
  AhIndex JoinGroup(const Mgid& mgid, const HcaPortInfo& port, PKey pkey) {
    SaClient sa(hca_->mads(), clock_, {});
    McMemberRecord record;
    record.mgid = mgid;
    record.port_gid = port.gid;
    record.qkey = QKey(0x80008001);
    record.mtu = port.mtu;
    record.rate = port.rate;
    record.pkey = pkey;
    record.scope = 2;
    record.join_state = kFullMember;
    uint64_t mask = mcm::kMgid | mcm::kPortGid | mcm::kJoinState | mcm::kPKey;
    if (pkey.IsFullMember()) {
      mask |= mcm::kQKey | mcm::kTrafficClass | mcm::kSl | mcm::kFlowLabel | mcm::kHopLimit |
              mcm::kScope | mcm::kMtu | mcm::kMtuSelector;
    }
    absl::optional<absl::StatusOr<McMemberRecord>> answer;
    sa.Join(record, mask,
            [&answer](absl::StatusOr<McMemberRecord> got) { answer = std::move(got); });
    while (!answer.has_value()) sa.Run();
    EXPECT_TRUE(answer->ok()) << answer->status();
    const McMemberRecord& group = **answer;
    EXPECT_TRUE(endpoint_->Attach(group.mgid, group.mlid).ok());
    return handles_->Get({group.mgid.gid(), group.mlid.value(), group.sl}, {}).value();
  }

  const Clock* const clock_;
  std::unique_ptr<Hca> hca_;
  ibv_pd* pd_ = nullptr;
  std::unique_ptr<AddressHandles> handles_;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<UdEndpoint> endpoint_;
  Fdb fdb_;
  VPortDirectory directory_;
  PuntQueue punts_;
  std::vector<Punt> punted_;  // those that were popped and not taken
  ReceivedMessages messages_;
  InjectQueue injected_;
  FloodList floods_;
  std::vector<std::unique_ptr<TestPort>> ports_;
  std::unique_ptr<Forwarder> forwarder_;
  AhIndex flood_ah_ = AhIndex::None();
};

class ForwarderTest : public testing::Test {
 protected:
  ForwarderTest() : subnet_(SubnetOptions()) {}

  static softhca::Subnet::Options SubnetOptions() {
    softhca::Subnet::Options options;
    options.config =
        softhca::ParseSubnetConfig(
            "[[partition]]\npkey = 0x8001\nfull = [\"ALL\"]\n"
            "[[partition]]\npkey = 0x8002\nfull = [\"ALL\"]\n"
            "[[partition]]\npkey = 0x8003\nfull = [\"f1\"]\nlimited = [\"l1\", \"l2\"]\n",
            "test")
            .value();
    return options;
  }

  Host* AddHost(const std::string& name, const Host::Options& options = {}) {
    hosts_.push_back(std::make_unique<Host>(&subnet_, name, &clock_, options));
    return hosts_.back().get();
  }

  // Runs all hosts until none has work.
  void Settle(bool resolve = true) {
    for (bool any = true; any;) {
      any = false;
      for (auto& host : hosts_) {
        any |= host->Turn();
        if (resolve) any |= host->ResolvePunts();
      }
    }
  }

  void TearDown() override {
    for (auto& host : hosts_) host->ExpectConservation();
    hosts_.clear();
  }

  // Ends the host that was added last, and starts it again, with another queue pair.
  Host* RestartLastHost(const std::string& name) {
    hosts_.back()->ExpectConservation();
    hosts_.pop_back();
    return AddHost(name);
  }

  static std::vector<Bytes> Frames(TestPort* port) {
    std::vector<Bytes> frames;
    for (const auto& sent : port->TakeTransmitted()) frames.push_back(sent.bytes);
    return frames;
  }

  FakeClock clock_;
  softhca::Subnet subnet_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_FORWARDER_TEST_FIXTURE_H_
