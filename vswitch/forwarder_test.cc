// The data path, deterministic: forwarders on an in-process software subnet, polled by the test, with a clock that stands
// still.
#include "vswitch/forwarder.h"

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fdb/allocation_counter.h"
#include "fdb/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/fabric/sa_client.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#include "vswitch/fabric/softhca/subnet.h"
#include "vswitch/port/test_port.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Bytes = std::vector<uint8_t>;

constexpr uint32_t kMtu = 4092;
const MacAddr kA = MacAddr::FromUint64(0x02'00'00'00'00'0a);
const MacAddr kB = MacAddr::FromUint64(0x02'00'00'00'00'0b);
const MacAddr kC = MacAddr::FromUint64(0x02'00'00'00'00'0c);

// An Ethernet frame of a local experimental EtherType with `payload` bytes; tagged if vid >= 0.
Bytes MakeFrame(MacAddr to, MacAddr from, int vid = -1, size_t payload = 46, uint16_t ethertype = 0x88b6) {
  Bytes frame(kMacsSize);
  to.ToWire(&frame[0]);
  from.ToWire(&frame[6]);
  if (vid >= 0) {
    for (int byte : {0x81, 0x00, vid >> 8, vid & 0xff}) frame.push_back(static_cast<uint8_t>(byte));
  }
  frame.push_back(static_cast<uint8_t>(ethertype >> 8));
  frame.push_back(static_cast<uint8_t>(ethertype));
  for (size_t i = 0; i < payload; ++i) frame.push_back(static_cast<uint8_t>(i));
  return frame;
}

VlanPolicy Access(uint16_t vid) {
  VlanPolicy policy;
  policy.access_vlan = Vid(vid);
  return policy;
}

VlanPolicy Trunk(std::initializer_list<uint16_t> vids, uint16_t native = 0) {
  VlanPolicy policy;
  policy.mode = PortMode::kTrunk;
  policy.trunk_vlans = VlanSet::None();
  for (uint16_t vid : vids) policy.trunk_vlans.Add(Vid(vid));
  policy.native_vlan = Vid(native);
  return policy;
}

// One agent's data path of one VES, with control played by the test.
class Host {
 public:
  struct Options {
    PKey pkey{0x8001};
    VlanSet vlans = VlanSet::All();
    size_t fdb_limit = 1024;
    uint32_t mtu = kMtu;
  };

  Host(softhca::Subnet* subnet, const std::string& name, FakeClock* clock, const Options& options)
      : clock_(clock), fdb_({absl::Seconds(300), options.fdb_limit}, clock) {
    hca_ = softhca::OpenSoftHca(subnet->Connect(), name).value();
    pd_ = hca_->verbs().alloc_pd(hca_->context());
    handles_ = std::make_unique<AddressHandles>(hca_.get(), pd_);
    pool_ = BufferPool::Create(hca_.get(), pd_, 1024, kMtu).value();
    const Hca::PKeyIndex pkey = hca_->FindPKey(options.pkey).value();
    endpoint_ =
        UdEndpoint::Create(hca_.get(), pd_, pool_.get(), handles_.get(),
                           {.pkey_index = pkey.index, .qkey = QKey(0x80008001), .receive_depth = 256, .send_depth = 256})
            .value();
    const HcaPortInfo port = hca_->QueryPort().value();
    Forwarder::Options forwarder;
    forwarder.vlans = options.vlans;
    forwarder.flood_mgid = FloodMgid(options.pkey);
    forwarder.own = {port.gid, endpoint_->qpn()};
    forwarder.limited_member = !pkey.pkey.IsFullMember();
    forwarder_ = std::make_unique<Forwarder>(
        forwarder, Forwarder::Parts{pool_.get(), endpoint_.get(), &fdb_, &directory_, &punts_, &injected_, clock});
    forwarder_->SetMtu(options.mtu);
    flood_ah_ = JoinGroup(forwarder.flood_mgid, port, pkey.pkey);
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

  TestPort* AddPort(const std::string& name, const VlanPolicy& vlan = {}) {
    ports_.push_back(std::make_unique<TestPort>(name, MacAddr()));
    forwarder_->AddPort(ports_.back().get(), vlan);
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

  // Control's part: publishes the path to each peer that was punted. Returns whether there was any.
  bool ResolvePunts() {
    Punt punt;
    bool any = false;
    while (punts_.Pop(&punt)) {
      if (punt.kind != Punt::Kind::kNewPeer && punt.kind != Punt::Kind::kReaddressed) continue;
      directory_.SetAddressHandle(punt.vport, handles_->Get({punt.peer.gid, punt.slid.value(), punt.sl}, {}).value());
      injected_.Push(Injected{});
      any = true;
    }
    return any;
  }

  void ExpectConservation() {
    const ForwarderCounters& c = forwarder_->counters();
    EXPECT_EQ(c.frames_in.value(), c.from_ports.value() + c.from_fabric.value());
    EXPECT_EQ(c.frames_in.value(), c.forwarded.value() + c.DropSum(DropSide::kIngress));
    EXPECT_EQ(c.forwarded.value(), c.known_unicast.value() + c.flooded_unknown.value() + c.flooded_group.value());
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

  // Sends raw bytes as a UD payload to `qpn` through `ah`, past the forwarder.
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
  // Another group of the VES, of which this version knows nothing.
  AhIndex JoinOtherGroup(MacAddr dmac) {
    return JoinGroup(ToMgid({kDefaultMgidPrefix, PKey(0x8001), dmac, Vid(0)}), hca_->QueryPort().value(), PKey(0x8001));
  }
  void SendRawTo(const Host& other, const Bytes& payload) {
    const HcaPortInfo port = other.hca_->QueryPort().value();
    SendRaw(payload, handles_->Get({port.gid, port.lid.value(), Sl(0)}, {}).value(), other.endpoint_->qpn());
  }

  const ForwarderCounters& counters() const { return forwarder_->counters(); }
  uint64_t dropped(DropReason reason) const { return counters().drop(reason); }
  Forwarder* forwarder() { return forwarder_.get(); }
  Fdb* fdb() { return &fdb_; }
  InjectQueue* injected() { return &injected_; }

 private:
  // Joins, attaches, and returns the group's handle. The first to join creates the group.
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
      mask |= mcm::kQKey | mcm::kTrafficClass | mcm::kSl | mcm::kFlowLabel | mcm::kHopLimit | mcm::kScope | mcm::kMtu |
              mcm::kMtuSelector;
    }
    absl::optional<absl::StatusOr<McMemberRecord>> answer;
    sa.Join(record, mask, [&answer](absl::StatusOr<McMemberRecord> got) { answer = std::move(got); });
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
  InjectQueue injected_;
  std::vector<std::unique_ptr<TestPort>> ports_;
  std::unique_ptr<Forwarder> forwarder_;
  AhIndex flood_ah_ = AhIndex::None();
};

class ForwarderTest : public testing::Test {
 protected:
  ForwarderTest() : subnet_(SubnetOptions()) {}

  static softhca::Subnet::Options SubnetOptions() {
    softhca::Subnet::Options options;
    options.config = softhca::ParseSubnetConfig(
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

  // Until nothing moves any more.
  void Settle(bool resolve = true) {
    for (bool any = true; any;) {
      any = false;
      for (auto& host : hosts_) any |= host->Turn() | (resolve && host->ResolvePunts());
    }
  }

  void TearDown() override {
    for (auto& host : hosts_) host->ExpectConservation();
    hosts_.clear();
  }

  TestPort* RestartHost2(std::initializer_list<MacAddr> macs, TestPort** p1);

  static std::vector<Bytes> Frames(TestPort* port) {
    std::vector<Bytes> frames;
    for (const auto& sent : port->TakeTransmitted()) frames.push_back(sent.bytes);
    return frames;
  }

  FakeClock clock_;
  softhca::Subnet subnet_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

TEST_F(ForwarderTest, FirstFrameFloodsAndTheReplyDoesNot) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  Host* h3 = AddHost("h3");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  TestPort* p3 = h3->AddPort("p3");

  p1->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_THAT(Frames(p2), ElementsAre(MakeFrame(kB, kA)));
  EXPECT_THAT(Frames(p3), ElementsAre(MakeFrame(kB, kA)));
  EXPECT_EQ(h1->counters().flooded_unknown.value(), 1u);

  p2->Inject(MakeFrame(kA, kB));
  Settle();
  EXPECT_THAT(Frames(p1), ElementsAre(MakeFrame(kA, kB)));
  EXPECT_THAT(Frames(p3), IsEmpty());
  EXPECT_EQ(h2->counters().flooded_unknown.value(), 1u) << "to its ports, the frame that came";
  EXPECT_EQ(h2->counters().known_unicast.value(), 1u) << "to the fabric, the reply";
  EXPECT_EQ(h1->counters().known_unicast.value(), 1u);
}

TEST_F(ForwarderTest, AReplyWaitsForItsPathInsteadOfFlooding) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  p1->Inject(MakeFrame(kB, kA));
  Settle(/*resolve=*/false);
  p2->Inject(MakeFrame(kA, kB));
  Settle(/*resolve=*/false);
  EXPECT_THAT(Frames(p1), IsEmpty());
  EXPECT_TRUE(h2->forwarder()->HasHeldFrames());
  Settle();
  EXPECT_THAT(Frames(p1), ElementsAre(MakeFrame(kA, kB)));
  EXPECT_EQ(h2->counters().flooded_unknown.value(), 1u) << "the frame that came, and not the reply";
}

TEST_F(ForwarderTest, HeldFramesAreBoundedAndExpire) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  p1->Inject(MakeFrame(kB, kA));
  Settle(/*resolve=*/false);
  for (size_t i = 0; i < HeldFrames::kPerVPort + 3; ++i) p2->Inject(MakeFrame(kA, kB));
  Settle(/*resolve=*/false);
  EXPECT_EQ(h2->dropped(DropReason::kUnresolved), 3u);
  clock_.Advance(absl::Seconds(2));
  Settle(/*resolve=*/false);
  EXPECT_EQ(h2->dropped(DropReason::kUnresolved), HeldFrames::kPerVPort + 3);
  EXPECT_FALSE(h2->forwarder()->HasHeldFrames());
}

TEST_F(ForwarderTest, AnAgedOutAddressFloodsAgain) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  p1->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_EQ(h1->counters().flooded_unknown.value(), 0u);
  clock_.Advance(absl::Seconds(301));
  p1->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_EQ(h1->counters().flooded_unknown.value(), 1u);
}

TEST_F(ForwarderTest, EachReceiverGetsAFloodExactlyOnceAndItsSenderNever) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p1b = h1->AddPort("p1b");
  TestPort* p2 = h2->AddPort("p2");
  TestPort* p2b = h2->AddPort("p2b");
  const Bytes frame = MakeFrame(MacAddr::Broadcast(), kA);
  p1->Inject(frame);
  Settle();
  EXPECT_THAT(Frames(p1), IsEmpty());
  for (TestPort* port : {p1b, p2, p2b}) EXPECT_THAT(Frames(port), ElementsAre(frame)) << port->name();
  EXPECT_EQ(h1->dropped(DropReason::kOwnMulticast), 1u) << "the looped copy";
}

TEST_F(ForwarderTest, PartitionsDoNotMeet) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  Host* other = AddHost("h3", {.pkey = PKey(0x8002)});
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  TestPort* p3 = other->AddPort("p3");
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  p3->Inject(MakeFrame(MacAddr::Broadcast(), kC));
  Settle();
  EXPECT_THAT(Frames(p2), SizeIs(1));
  EXPECT_THAT(Frames(p3), IsEmpty());
  EXPECT_THAT(Frames(p1), IsEmpty());
  EXPECT_EQ(other->counters().from_fabric.value(), 1u) << "its own looped copy and nothing else";
}

TEST_F(ForwarderTest, LimitedMembersAreIsolatedAlsoOnOneHost) {
  Host* full = AddHost("f1", {.pkey = PKey(0x8003)});
  Host* l1 = AddHost("l1", {.pkey = PKey(0x8003)});
  Host* l2 = AddHost("l2", {.pkey = PKey(0x8003)});
  TestPort* pf = full->AddPort("pf");
  TestPort* p1 = l1->AddPort("p1");
  TestPort* p1b = l1->AddPort("p1b");
  TestPort* p2 = l2->AddPort("p2");
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  p1b->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  EXPECT_THAT(Frames(pf), SizeIs(2));
  for (TestPort* port : {p1, p1b, p2}) EXPECT_THAT(Frames(port), IsEmpty()) << port->name();
  p1->Inject(MakeFrame(kB, kA));  // known, and on the same host
  Settle();
  EXPECT_THAT(Frames(p1b), IsEmpty());
  EXPECT_EQ(l1->dropped(DropReason::kIsolated), 1u);
  pf->Inject(MakeFrame(kA, kC));
  Settle();
  EXPECT_THAT(Frames(p1), ElementsAre(MakeFrame(kA, kC)));
}

struct VlanRow {
  const char* description;
  VlanPolicy in, out;
  Bytes sent;
  absl::optional<Bytes> expected;
};

TEST_F(ForwarderTest, VlansAtThePorts) {
  const VlanRow rows[] = {
      {"access to access of one VLAN", Access(10), Access(10), MakeFrame(kB, kA), MakeFrame(kB, kA)},
      {"access to access of another VLAN", Access(10), Access(20), MakeFrame(kB, kA), absl::nullopt},
      {"access to trunk: tagged", Access(10), Trunk({10, 20}), MakeFrame(kB, kA), MakeFrame(kB, kA, 10)},
      {"trunk to access: untagged, padded as on the wire", Trunk({10}), Access(10), MakeFrame(kB, kA, 10), MakeFrame(kB, kA)},
      {"trunk to trunk", Trunk({10, 20}), Trunk({10, 20}), MakeFrame(kB, kA, 20), MakeFrame(kB, kA, 20)},
      {"trunk to a trunk without the VLAN", Trunk({10, 20}), Trunk({10}), MakeFrame(kB, kA, 20), absl::nullopt},
      {"native VLAN to access", Trunk({10, 20}, 10), Access(10), MakeFrame(kB, kA), MakeFrame(kB, kA)},
      {"access to native VLAN", Access(10), Trunk({10, 20}, 10), MakeFrame(kB, kA), MakeFrame(kB, kA)},
      {"untagged VLAN", Access(0), Access(0), MakeFrame(kB, kA), MakeFrame(kB, kA)},
      {"priority tag gets the access VLAN", Access(10), Trunk({10}), MakeFrame(kB, kA, 0), MakeFrame(kB, kA, 10)},
      {"tag of another VLAN at an access port", Access(10), Trunk({10, 20}), MakeFrame(kB, kA, 20), absl::nullopt},
      {"VLAN outside of the VES's set", Trunk({10, 99}), Trunk({10, 99}), MakeFrame(kB, kA, 99), absl::nullopt},
  };
  VlanSet vlans;
  vlans.AddRange(Vid(0), Vid(20));
  int number = 0;
  for (const VlanRow& row : rows) {
    SCOPED_TRACE(row.description);
    const std::string suffix = std::to_string(++number);
    Host* h1 = AddHost("in" + suffix, {.vlans = vlans});
    Host* h2 = AddHost("out" + suffix, {.vlans = vlans});
    TestPort* in = h1->AddPort("in", row.in);
    TestPort* local = h1->AddPort("local", row.out);
    TestPort* out = h2->AddPort("out", row.out);
    in->Inject(row.sent);
    Settle();
    if (row.expected.has_value()) {
      EXPECT_THAT(Frames(out), ElementsAre(*row.expected));
      EXPECT_THAT(Frames(local), ElementsAre(*row.expected));
    } else {
      EXPECT_THAT(Frames(out), IsEmpty());
      EXPECT_THAT(Frames(local), IsEmpty());
    }
    for (auto& host : hosts_) host->ExpectConservation();
    hosts_.clear();
  }
}

struct PortDropRow {
  const char* description;
  Bytes frame;
  DropReason reason;
};

TEST_F(ForwarderTest, WhatAPortMayNotSend) {
  Bytes qinq = MakeFrame(kB, kA, -1, 46, 0x88a8);
  qinq[14] = 0, qinq[15] = 5, qinq[16] = 0x88, qinq[17] = 0xb5;
  const PortDropRow rows[] = {
      {"control messages", MakeFrame(kB, kA, -1, 46, kEtherTypeControl), DropReason::kControlEthertype},
      {"control messages behind a tag", MakeFrame(kB, kA, 0, 46, kEtherTypeControl), DropReason::kControlEthertype},
      {"control messages behind a provider tag", qinq, DropReason::kControlEthertype},
      {"the alternative header's EtherType", MakeFrame(kB, kA, -1, 46, kEtherTypeAlternative), DropReason::kControlEthertype},
      {"pause", MakeFrame(MacAddr::FromUint64(0x0180c2000001), kA, -1, 46, 0x8808), DropReason::kLinkLocalControl},
      {"LACP", MakeFrame(MacAddr::FromUint64(0x0180c2000002), kA, -1, 46, 0x8809), DropReason::kLinkLocalControl},
      {"group source", MakeFrame(kB, MacAddr::FromUint64(0x010000000001)), DropReason::kBadSource},
      {"zero source", MakeFrame(kB, MacAddr()), DropReason::kBadSource},
      {"reserved VID", MakeFrame(kB, kA, 4095), DropReason::kReservedVid},
      {"runt", Bytes(13, 2), DropReason::kRunt},
      {"one byte above the VES MTU", MakeFrame(kB, kA, -1, kMtu + 1 - 14), DropReason::kTooLarge},
  };
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  for (const PortDropRow& row : rows) {
    SCOPED_TRACE(row.description);
    const uint64_t before = h1->dropped(row.reason);
    p1->Inject(row.frame);
    Settle();
    EXPECT_EQ(h1->dropped(row.reason), before + 1);
    EXPECT_THAT(Frames(p2), IsEmpty());
  }
  for (uint64_t passes : {0x0180c2000000, 0x0180c200000e}) {  // STP, LLDP
    p1->Inject(MakeFrame(MacAddr::FromUint64(passes), kA));
    Settle();
    EXPECT_THAT(Frames(p2), SizeIs(1));
  }
}

TEST_F(ForwarderTest, TheLargestFrameArrivesWholeAndItsTagMustFit) {
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1", Trunk({10}, 0));
  TestPort* access = h1->AddPort("access", Access(10));
  TestPort* p2 = AddHost("h2")->AddPort("p2", Trunk({0, 10}, 0));
  const Bytes largest = MakeFrame(kB, kA, 10, kMtu - 18);
  p1->Inject(largest);
  Settle();
  EXPECT_THAT(Frames(p2), ElementsAre(largest));
  access->Inject(MakeFrame(kB, kC, -1, kMtu - 14));
  Settle();
  EXPECT_THAT(Frames(p2), IsEmpty());
  EXPECT_EQ(h1->dropped(DropReason::kTooLarge), 1u);
}

TEST_F(ForwarderTest, ShortFramesArePaddedWithZeros) {
  TestPort* p1 = AddHost("h1")->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  p1->Inject(MakeFrame(kB, kA, -1, 4));
  Settle();
  Bytes padded = MakeFrame(kB, kA, -1, 4);
  padded.resize(kMinFrameSize, 0);
  EXPECT_THAT(Frames(p2), ElementsAre(padded));
}

struct WireDropRow {
  const char* description;
  uint32_t header;
  DropReason reason;
};

TEST_F(ForwarderTest, HeaderFieldsAtTheirExtremes) {
  const WireDropRow rows[] = {
      {"no signature", 0x00000000, DropReason::kNotEoib},
      {"signature 10", 0x80000000, DropReason::kNotEoib},
      {"version 3", 0xf0000000, DropReason::kBadVersion},
      {"more segments", 0xc0200000, DropReason::kSegment},
      {"last segment", 0xc01f0000, DropReason::kSegment},
      {"segment id alone", 0xc000ffff, DropReason::kSegment},
      {"extension", 0xc0800000, DropReason::kHeaderReserved},
      {"FCS present", 0xc0400000, DropReason::kHeaderReserved},
      {"reserved checksum status", 0xcc000000, DropReason::kHeaderReserved},
      {"all ones", 0xffffffff, DropReason::kBadVersion},
  };
  Host* peer = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p2 = h2->AddPort("p2");
  for (const WireDropRow& row : rows) {
    SCOPED_TRACE(row.description);
    Bytes datagram = {static_cast<uint8_t>(row.header >> 24), static_cast<uint8_t>(row.header >> 16),
                      static_cast<uint8_t>(row.header >> 8), static_cast<uint8_t>(row.header)};
    const Bytes frame = MakeFrame(kB, kA);
    datagram.insert(datagram.end(), frame.begin(), frame.end());
    const uint64_t before = h2->dropped(row.reason);
    peer->SendRawTo(*h2, datagram);
    Settle();
    EXPECT_EQ(h2->dropped(row.reason), before + 1);
    EXPECT_THAT(Frames(p2), IsEmpty());
  }
}

TEST_F(ForwarderTest, AFrameThroughAGroupThatIsNotItsVlansIsDropped) {
  Host* peer = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p2 = h2->AddPort("p2");
  const MacAddr group = MacAddr::FromUint64(0x0100'5e00'0001);
  const AhIndex ah = peer->JoinOtherGroup(group);
  h2->JoinOtherGroup(group);
  Bytes datagram = {0xc0, 0, 0, 0};
  const Bytes frame = MakeFrame(group, kA);
  datagram.insert(datagram.end(), frame.begin(), frame.end());
  peer->SendRaw(datagram, ah, Qpn(Qpn::kMulticast));
  Settle();
  EXPECT_EQ(h2->dropped(DropReason::kGroupMismatch), 1u);
  EXPECT_THAT(Frames(p2), IsEmpty());
}

TEST_F(ForwarderTest, AKnownAddressBehindAPortWithoutItsVlanIsNotReached) {
  TestPort* p1 = AddHost("h1")->AddPort("p1", Trunk({10, 20}));
  Host* h2 = AddHost("h2");
  TestPort* p2 = h2->AddPort("p2", Trunk({10}));
  ASSERT_TRUE(h2->fdb()->AddStatic(FdbKey(Vid(20), kB), h2->forwarder()->ports()[0].vport).ok());
  p1->Inject(MakeFrame(kB, kA, 20));
  Settle();
  EXPECT_EQ(h2->dropped(DropReason::kEgressVlan), 1u);
  EXPECT_THAT(Frames(p2), IsEmpty());
}

TEST_F(ForwarderTest, ControlMessagesOfAnUnknownKindStopAtTheSwitch) {
  Host* peer = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p2 = h2->AddPort("p2");
  Bytes datagram = {0xc0, 0, 0, 0};
  const Bytes frame = MakeFrame(kB, kA, -1, 46, kEtherTypeControl);
  datagram.insert(datagram.end(), frame.begin(), frame.end());
  peer->SendRawToGroup(datagram);
  Settle();
  EXPECT_EQ(h2->dropped(DropReason::kControlUnknown), 1u);
  EXPECT_THAT(Frames(p2), IsEmpty());
}

TEST_F(ForwarderTest, RandomDatagramsHurtNobodyAndADropAllocatesNothing) {
  Host* peer = AddHost("h1");
  Host* h2 = AddHost("h2");
  h2->AddPort("p2", Access(10))->SetDiscard(true);
  std::mt19937 random(20);
  size_t dropped = 0, forwarded = 0;
  for (int i = 0; i < 20000; ++i) {
    Bytes datagram(random() % (i % 16 == 0 ? 4096 : 120));
    for (uint8_t& byte : datagram) byte = static_cast<uint8_t>(random());
    // Half have a header that is right or nearly so, and half of these a tag that the port carries.
    if (i % 2 == 0 && datagram.size() >= kEoibHeaderSize) {
      datagram[0] = 0xc0 | (random() % 4 == 0 ? datagram[0] & 0x3f : 0);
      datagram[1] = datagram[2] = datagram[3] = 0;
      if (datagram.size() > 20 && random() % 8 != 0) datagram[10] &= 0xfe;
      if (datagram.size() > 20 && i % 4 == 0) datagram[16] = 0x81, datagram[17] = 0, datagram[18] = 0, datagram[19] = 10;
    }
    peer->SendRawTo(*h2, datagram);
    const uint64_t before = h2->counters().forwarded.value(), learned = h2->counters().learned.value();
    counting_allocations = true;
    allocations = 0;
    h2->Turn();
    counting_allocations = false;
    if (h2->counters().forwarded.value() != before)
      ++forwarded;
    else
      ++dropped;
    // A MAC seen for the first time takes its entry.
    if (h2->counters().learned.value() == learned) {
      ASSERT_EQ(allocations, 0u) << "datagram " << i;
    }
    Settle();
  }
  EXPECT_EQ(h2->counters().from_fabric.value(), 20000u);
  EXPECT_GT(dropped, 10000u);
  EXPECT_GT(forwarded, 1000u);
  for (DropReason reason : {DropReason::kNotEoib, DropReason::kBadVersion, DropReason::kHeaderReserved, DropReason::kRunt,
                            DropReason::kBadSource, DropReason::kNoEgress}) {
    EXPECT_GT(h2->dropped(reason), 0u) << Info(reason).label;
  }
}

struct SteadyRow {
  const char* description;
  Bytes frame;
  ChecksumRequest request;
};

Bytes PreparedUdp(ChecksumRequest* request);

// Whatever kind of frame: once its addresses are known, forwarding a batch of it allocates nothing, on either side.
TEST_F(ForwarderTest, KnownTrafficAllocatesNothingAndGoesInBatches) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1", Trunk({10, 20}, 10));
  h1->AddPort("p1b", Access(10))->SetDiscard(true);
  TestPort* p2 = h2->AddPort("p2", Access(10));
  h2->AddPort("p2b", Trunk({10, 20}))->SetDiscard(true);
  p2->SetDiscard(true);
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA, 20));
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  SteadyRow rows[] = {
      {"known unicast that gets a tag and loses it again", MakeFrame(kB, kA), {}},
      {"broadcast, to ports and the fabric", MakeFrame(MacAddr::Broadcast(), kA), {}},
      {"unknown unicast, tagged", MakeFrame(kC, kA, 20), {}},
      {"an unfinished checksum", {}, {}},
      {"too large", MakeFrame(kB, kA, -1, kMtu), {}},
  };
  rows[3].frame = PreparedUdp(&rows[3].request);
  for (const SteadyRow& row : rows) {
    SCOPED_TRACE(row.description);
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 64; ++i) p1->Inject(row.frame, row.request);
      const uint64_t before = h1->counters().frames_in.value();
      counting_allocations = round > 0;  // the first round may warm up a ring
      allocations = 0;
      h1->forwarder()->PollPort(0);
      h1->forwarder()->Housekeep();
      EXPECT_EQ(h1->counters().frames_in.value(), before + 64) << "one call forwards the batch";
      for (int turn = 0; turn < 3; ++turn) {
        for (Host* host : {h1, h2}) {
          host->forwarder()->PollFabric();
          host->forwarder()->Housekeep();
        }
      }
      counting_allocations = false;
      EXPECT_EQ(allocations, 0u);
      Settle();
    }
  }
}

// An IPv4 UDP frame whose checksum is prepared, not finished: the field has the pseudo-header sum.
Bytes PreparedUdp(ChecksumRequest* request) {
  Bytes frame = MakeFrame(kB, kA, -1, 0, kEtherTypeIpv4);
  const uint8_t ip[] = {0x45, 0, 0, 60, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2};
  const uint8_t udp[] = {0x12, 0x34, 0x56, 0x78, 0, 40, 0, 0};
  frame.insert(frame.end(), std::begin(ip), std::end(ip));
  const uint16_t ip_sum = ~OnesComplementSum({&frame[14], 20});
  frame[24] = static_cast<uint8_t>(ip_sum >> 8), frame[25] = static_cast<uint8_t>(ip_sum);
  frame.insert(frame.end(), std::begin(udp), std::end(udp));
  for (int i = 0; i < 32; ++i) frame.push_back(static_cast<uint8_t>(i * 7));
  const uint16_t pseudo = OnesComplementSum({&frame[26], 8}, 17 + 40);
  frame[40] = static_cast<uint8_t>(pseudo >> 8), frame[41] = static_cast<uint8_t>(pseudo);
  *request = {true, 34, 6};
  return frame;
}

bool UdpSumVerifies(const Bytes& frame, size_t ip) {
  return OnesComplementSum({&frame[ip + 20], 40}, OnesComplementSum({&frame[ip + 12], 8}, 17 + 40)) == 0xffff;
}

TEST_F(ForwarderTest, AnUnfinishedChecksumTravelsAsVouchedForAndIsFinishedAtTheEnd) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1", Access(10));
  TestPort* trunk = h2->AddPort("trunk", Trunk({10}));
  TestPort* access = h2->AddPort("access", Access(10));
  ChecksumRequest request;
  const Bytes frame = PreparedUdp(&request);
  p1->Inject(frame, request);
  Settle();
  EXPECT_EQ(h1->counters().checksums_vouched.value(), 1u);
  const struct {
    TestPort* port;
    size_t ip;
  } rows[] = {{trunk, 18}, {access, 14}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.port->name());
    auto sent = row.port->TakeTransmitted();
    ASSERT_THAT(sent, SizeIs(1));
    EXPECT_EQ(sent[0].checksum, (ChecksumRequest{true, static_cast<uint16_t>(row.ip + 20), 6}));
    EXPECT_FALSE(UdpSumVerifies(sent[0].bytes, row.ip));
    CompleteChecksum(absl::MakeSpan(sent[0].bytes), sent[0].checksum);
    EXPECT_TRUE(UdpSumVerifies(sent[0].bytes, row.ip));
  }
}

TEST_F(ForwarderTest, AWrongChecksumIsDeliveredAsItIsAndNeverMarkedValid) {
  TestPort* p1 = AddHost("h1")->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  ChecksumRequest request;
  Bytes frame = PreparedUdp(&request);
  frame[40] = 0xba, frame[41] = 0xad;
  p1->Inject(frame);  // no request: the sender says that the sum is complete
  Settle();
  auto sent = p2->TakeTransmitted();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].bytes, frame);
  EXPECT_FALSE(sent[0].checksum.needed);
}

TEST_F(ForwarderTest, AChecksumRequestThatIsNotTcpOrUdpIsFinishedBeforeTheFabric) {
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  p1->Inject(MakeFrame(kB, kA), ChecksumRequest{true, 20, 4});
  Settle();
  auto sent = p2->TakeTransmitted();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_FALSE(sent[0].checksum.needed);
  EXPECT_NE(sent[0].bytes, MakeFrame(kB, kA));
  EXPECT_EQ(h1->counters().checksums_vouched.value(), 0u);
}

TEST_F(ForwarderTest, AMacThatMovesIsFollowed) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  Host* h3 = AddHost("h3");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  TestPort* p3 = h3->AddPort("p3");
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  p2->Inject(MakeFrame(kA, kB));
  Settle();
  p3->Inject(MakeFrame(MacAddr::Broadcast(), kA));  // A is on host 3 now
  Settle();
  Frames(p1), Frames(p2), Frames(p3);
  p2->Inject(MakeFrame(kA, kB));
  p1->Inject(MakeFrame(kA, kC));  // its former host, too, sends it away
  Settle();
  EXPECT_THAT(Frames(p3), SizeIs(2));
  EXPECT_THAT(Frames(p1), IsEmpty());
  EXPECT_EQ(h1->counters().moved.value(), 1u);
  EXPECT_EQ(h2->counters().moved.value(), 1u);
}

// h2 speaks for B and C, then restarts, and its new incarnation speaks for `macs`, one by one. Returns its port, and leaves
// h1's port in *p1.
TestPort* ForwarderTest::RestartHost2(std::initializer_list<MacAddr> macs, TestPort** p1) {
  *p1 = AddHost("h1")->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kC));
  Settle();
  hosts_[1]->ExpectConservation();
  hosts_.pop_back();
  p2 = AddHost("h2")->AddPort("p2");
  for (MacAddr mac : macs) {
    p2->Inject(MakeFrame(MacAddr::Broadcast(), mac));
    Settle();
  }
  return p2;
}

TEST_F(ForwarderTest, AnAgentThatRestartsIsFollowedWithAllMacsBehindIt) {
  const MacAddr stranger = MacAddr::FromUint64(0x0200000000ee);
  const struct {
    const char* description;
    std::initializer_list<MacAddr> macs;
  } rows[] = {{"a MAC that was known speaks first", {kB}}, {"it speaks after one that was not", {stranger, kB}}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.description);
    TestPort* p1;
    TestPort* p2 = RestartHost2(row.macs, &p1);
    p1->Inject(MakeFrame(kC, kA));  // to a MAC that has not spoken since
    Settle();
    EXPECT_THAT(Frames(p2), ElementsAre(MakeFrame(kC, kA)));
    EXPECT_EQ(hosts_[0]->counters().flooded_unknown.value(), 0u);
    EXPECT_EQ(hosts_[0]->counters().readdressed_peers.value(), 1u);
    for (auto& host : hosts_) host->ExpectConservation();
    hosts_.clear();
  }
}

TEST_F(ForwarderTest, APeerThatMovesToAnotherLidIsReported) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  ASSERT_TRUE(subnet_.SetLid("h2", Lid(0x77)).ok());
  clock_.Advance(absl::Seconds(2));
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  p1->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_THAT(Frames(p2), ElementsAre(MakeFrame(kB, kA))) << "along the new path";
}

struct HopRow {
  const char* description;
  VlanPolicy in, out;
  int outer;  // tag in front of one of VLAN 20
  absl::optional<int> arrives;
};

// No stack of tags carries a frame into a VLAN that its port does not carry.
TEST_F(ForwarderTest, NoVlanHopping) {
  const HopRow rows[] = {
      {"the access VLAN's own tag in front", Access(10), Trunk({10, 20}, 10), 10, absl::nullopt},
      {"a priority tag in front", Access(10), Trunk({10, 20}, 10), 0, absl::nullopt},
      {"from a trunk, to one whose native VLAN it is: the tag stays", Trunk({10}), Trunk({10, 20}, 10), 10, 10},
  };
  int number = 0;
  for (const HopRow& row : rows) {
    SCOPED_TRACE(row.description);
    const std::string suffix = std::to_string(++number);
    TestPort* in = AddHost("in" + suffix)->AddPort("in", row.in);
    TestPort* out = AddHost("out" + suffix)->AddPort("out", row.out);
    Bytes frame = MakeFrame(MacAddr::Broadcast(), kA, 20);
    const uint8_t outer[] = {0x81, 0, static_cast<uint8_t>(row.outer >> 8), static_cast<uint8_t>(row.outer)};
    frame.insert(frame.begin() + kMacsSize, std::begin(outer), std::end(outer));
    in->Inject(frame);
    Settle();
    if (row.arrives.has_value()) {
      EXPECT_THAT(Frames(out), ElementsAre(frame));
    } else {
      EXPECT_THAT(Frames(out), IsEmpty());
    }
    for (auto& host : hosts_) host->ExpectConservation();
    hosts_.clear();
  }
}

TEST_F(ForwarderTest, AFullFdbRefusesNewAddressesAndStillDelivers) {
  Host* h1 = AddHost("h1", {.fdb_limit = 4});
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  for (uint64_t i = 1; i <= 10; ++i) p1->Inject(MakeFrame(kB, MacAddr::FromUint64(0x020000000100 + i)));
  Settle();
  EXPECT_THAT(Frames(p2), SizeIs(10));
  EXPECT_EQ(h1->fdb()->size(), 4u);
  EXPECT_EQ(h1->counters().learn_limited.value(), 6u);
}

TEST_F(ForwarderTest, AStaticEntryIsNotDisplaced) {
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p1b = h1->AddPort("p1b");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  ASSERT_TRUE(h1->fdb()->AddStatic(FdbKey(Vid(0), kA), h1->forwarder()->ports()[0].vport).ok());
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kA));  // a claim from elsewhere
  Settle();
  Frames(p1);
  p1b->Inject(MakeFrame(kA, kB));
  Settle();
  EXPECT_THAT(Frames(p1), ElementsAre(MakeFrame(kA, kB)));
  EXPECT_THAT(Frames(p2), IsEmpty());
}

TEST_F(ForwarderTest, WithoutTheGroupFloodsAreCountedAndLocalPortsStillTalk) {
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p1b = h1->AddPort("p1b");
  h1->forwarder()->SetFloodHandle(AhIndex::None());
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  Settle();
  EXPECT_THAT(Frames(p1b), SizeIs(1));
  EXPECT_EQ(h1->dropped(DropReason::kFabricDown), 1u);
}

TEST_F(ForwarderTest, AnInjectedFrameGoesTheWayOfThePortsFrames) {
  Host* h1 = AddHost("h1");
  h1->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  Injected message;
  message.kind = Injected::Kind::kFrame;
  const Bytes frame = MakeFrame(MacAddr::Broadcast(), kA);
  message.length = static_cast<uint32_t>(frame.size());
  std::copy(frame.begin(), frame.end(), message.frame.begin());
  ASSERT_TRUE(h1->injected()->Push(message));
  Settle();
  EXPECT_THAT(Frames(p2), ElementsAre(frame));
}

}  // namespace
}  // namespace eoib
