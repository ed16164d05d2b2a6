#include "control/ves/message_costs_for_test.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/protocol/agent_view.h"
#include "control/protocol/state_parts.h"
#include "control/protocol/thread_time_for_test.h"
#include "control/subnet/fake_sa_for_test.h"
#include "control/subnet/path_resolver.h"
#include "control/ves/ves_protocol.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/forwarder/message_admission.h"
#include "vswitch/port/port_for_test.h"

namespace eoib {
namespace {

constexpr size_t kPayload = ControlMessage::kMaxSize;  // bytes of the member's messages
constexpr size_t kMessages = 240;                      // of a kind that needs no preparation
constexpr size_t kMacsOfVPort = 1000;                  // of our own
constexpr size_t kMostSlices = 1 << 20;                // after one message; more never end

FdbKey MacOf(size_t number) {
  return FdbKey(Vid(0), MacAddr::FromUint64(0x0200'0000'0000 + number));
}

AgentId IdOf(uint64_t number) {
  AgentId::Bytes id{};
  for (size_t i = 0; i < 8; ++i) id[id.size() - 1 - i] = static_cast<uint8_t>(number >> (8 * i));
  return AgentId(id);
}

}  // namespace

// An agent whose state is set by the messages that it sends.
struct Member {
  AgentId id;
  PeerAddress address;
  uint32_t incarnation = 1;
  uint32_t version = 0;

  VPortMessage Header(VPortMessage::Kind kind) const {
    VPortMessage message;
    message.kind = kind;
    message.agent = id;
    message.incarnation = incarnation;
    message.version = version;
    message.sender = address;
    return message;
  }
  // Makes the next version.
  VPortMessage Change(VPortMessage::Kind kind) {
    VPortMessage message = Header(kind);
    message.base = version;
    message.version = ++version;
    return message;
  }
  // A whole state: the address and a vPort.
  VPortMessage Introduction() {
    VPortMessage message = Change(VPortMessage::Kind::kAnnounce);
    message.base = 0;
    message.capabilities = AgentCapabilities();
    message.host = "member";
    message.addresses = {{address, true}};
    message.vports = {{1, "v1", {{Vid(0), Vid(0)}}}};
    return message;
  }
};

class CostMeter {
 public:
  CostMeter(const CostlyKind& kind, size_t macs) : macs_(macs) {
    SetThreadLogSink(&sink_);
    const AgentIdentity identity{IdOf(1), 1};
    VesProtocol::Dependencies dependencies{&fdb_,
                                           &directory_,
                                           &resolver_,
                                           [this](const PeerAddress&) { return &injected_; },
                                           [] {},
                                           &journal_,
                                           &clock_,
                                           &vlans_,
                                           kind.replicates ? &floods_ : nullptr};
    protocol_ = std::make_unique<VesProtocol>(identity, "h1", dependencies);
    if (kind.agent_has_macs) AddOwnMacs(macs);
    protocol_->SetAddresses({{GidOf(1), Qpn(0x48)}}, 4070);
    Hear(member.address);
    Hear(victim.address);
    Pass(absl::Seconds(2));
    Send(&member, member.Introduction());
    if (kind.member_has_macs) AnnounceMacs(&member, 0, macs, 1);
    Pass(absl::Seconds(2));
  }
  ~CostMeter() { SetThreadLogSink(nullptr); }

  // Costs count from now on, or do not count.
  void Start() { measures_ = true; }
  void Stop() { measures_ = false; }
  const MessageCost& cost() const { return cost_; }

  // The message arrives from `from`, and the clock goes on by the time in which a port may send it.
  // From now on the address answers Probes in the name of `from`.
  void Send(const Member* from, const VPortMessage& message, bool by_group = true) {
    speakers_.insert_or_assign(from->address, *from);
    SendBytes(from->address, EncodeVPortMessage(message), by_group);
    while (!answers_.empty()) {
      const VPortMessage answer = answers_.front();
      answers_.pop_front();
      SendBytes(answer.sender, EncodeVPortMessage(answer), /*by_group=*/false);
    }
  }
  void SendBytes(const PeerAddress& source, const std::vector<uint8_t>& payload, bool by_group) {
    message_.peer = source;
    message_.by_group = by_group;
    message_.length = static_cast<uint32_t>(payload.size());
    std::copy(payload.begin(), payload.end(), message_.payload.begin());
    const int tokens = MessageAdmission::TokensFor(payload.size());
    cost_.messages += measures_;
    cost_.tokens += measures_ ? tokens : 0;
    Slice([this] { protocol_->OnMessage(message_, {GidOf(1), Qpn(0x48)}); });
    RunDue();
    clock_.Advance(absl::Seconds(1) * tokens / MessageAdmission::kRate);
    RunDue();
  }
  // `from` answers no Probes while time passes, with the work that is due.
  void BeSilent(const Member& from, absl::Duration time) {
    speakers_.erase(from.address);
    for (const absl::Time end = clock_.Now() + time; clock_.Now() < end;) {
      clock_.Advance(absl::Milliseconds(10));
      RunDue();
    }
  }
  // Time passes without messages, and without costs.
  void Pass(absl::Duration time) {
    const bool measured = std::exchange(measures_, false);
    for (const absl::Time end = clock_.Now() + time; clock_.Now() < end;) {
      clock_.Advance(absl::Milliseconds(10));
      RunDue();
      client_.Run();
      resolver_.Run();
    }
    measures_ = measured;
  }
  // The worker hears the address for the first time.
  void Hear(const PeerAddress& peer) {
    Punt punt;
    punt.peer = peer;
    punt.vport = directory_.Intern(peer);
    punt.slid = Lid(0x100);
    resolver_.OnPunt(punt);
    client_.Run();
  }
  // `from` announces `count` MACs from `first` on, in as few messages as they fit.
  void AnnounceMacs(Member* from, size_t first, size_t count, uint32_t sequence,
                    uint16_t vports = 1) {
    constexpr size_t kEach = 120;
    for (size_t done = 0; done < count; done += kEach) {
      VPortMessage message = from->Change(VPortMessage::Kind::kAnnounce);
      for (size_t i = done; i < std::min(done + kEach, count); ++i) {
        message.macs.push_back(
            {MacOf(first + i), static_cast<uint16_t>(1 + i % vports), sequence, false});
      }
      Send(from, message);
    }
  }
  // Runs one slice, as a message's.
  template <typename Work>
  void Slice(Work work) {
    const absl::Duration before = ThreadTime();
    work();
    const absl::Duration used = ThreadTime() - before;
    ControlMessage sent;
    while (injected_.Pop(&sent)) NoteSent(sent);
    if (!measures_) return;
    ++cost_.slices;
    cost_.total += used;
    cost_.largest = std::max(cost_.largest, used);
  }
  void RunDue() {
    for (size_t i = 0; i < kMostSlices && protocol_->NextDeadline() <= clock_.Now(); ++i) {
      Slice([this] { protocol_->Run(true); });
    }
  }

  static Gid GidOf(uint64_t number) {
    return Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(number));
  }
  VesProtocol* protocol() { return protocol_.get(); }
  VPortDirectory* directory() { return &directory_; }
  size_t macs() const { return macs_; }
  uint64_t last_token() const { return last_token_; }  // of our last Request for a full state

  Member member{IdOf(0x70), {GidOf(2), Qpn(0x50)}};
  Member victim{IdOf(0x71), {GidOf(3), Qpn(0x60)}};

 private:
  void AddOwnMacs(size_t count) {
    for (size_t i = 0; i * kMacsOfVPort < count; ++i) {
      VPort vport;
      vport.config.name = absl::StrCat("v", i);
      vport.index = static_cast<uint32_t>(i);
      for (size_t mac = i * kMacsOfVPort; mac < std::min((i + 1) * kMacsOfVPort, count); ++mac) {
        vport.config.static_macs.push_back(MacOf(mac).mac());
      }
      vport.port = std::make_unique<TestPort>(vport.config.name, MacAddr());
      protocol_->AddVPort(vport, directory_.AddLocal(vport.index));
    }
  }
  void NoteSent(const ControlMessage& message) {
    const auto sent = DecodeVPortMessage({message.payload.data(), message.length});
    if (!sent.ok()) return;
    if (sent->wants_full_state && sent->token != 0) last_token_ = sent->token;
    const absl::optional<PeerAddress> peer = directory_.Peer(message.vport);
    const auto speaker = peer ? speakers_.find(*peer) : speakers_.end();
    if (sent->kind != VPortMessage::Kind::kProbe || speaker == speakers_.end()) return;
    answers_.push_back(speaker->second.Header(VPortMessage::Kind::kAlive));
    answers_.back().token = sent->token;
  }

  const size_t macs_;
  const LogSink sink_ = [](int, absl::string_view) {};
  FakeClock clock_;
  FakeSa sa_;
  SaClient client_{&sa_, &clock_, {}};
  FakeHca hca_;
  AddressHandles handles_{&hca_, hca_.pd()};
  VPortDirectory directory_;
  Fdb fdb_{{.limit = 4 * AgentView::kMaxMacs}, &clock_};
  PathResolver resolver_{PathResolver::Source{.sa = &client_},
                         &handles_,
                         &directory_,
                         &clock_,
                         GidOf(1),
                         PKey(0x8001),
                         [] {}};
  VesJournal journal_{"blue", &fdb_, &directory_, &clock_,
                      [](VPortId) { return std::string("there"); }};
  const VlanSet vlans_ = VlanSet::All();
  InjectQueue injected_;
  FloodList floods_;
  ControlMessage message_;
  std::unique_ptr<VesProtocol> protocol_;
  MessageCost cost_;
  bool measures_ = false;
  uint64_t last_token_ = 0;
  std::map<PeerAddress, Member> speakers_;
  std::deque<VPortMessage> answers_;  // to Probes
};

namespace {

using Kind = VPortMessage::Kind;

void SendProbes(CostMeter* meter, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    VPortMessage probe = meter->member.Header(Kind::kProbe);
    probe.token = i;
    meter->Send(&meter->member, probe, /*by_group=*/false);
  }
}

void Probe(CostMeter* meter) {
  meter->Start();
  SendProbes(meter, kMessages);
}

void Malformed(CostMeter* meter) {
  meter->Start();
  for (size_t i = 0; i < kMessages; ++i) {
    VPortMessage message = meter->member.Header(Kind::kAnnounce);
    message.gone_vports.assign(960, 1);
    std::vector<uint8_t> bytes = EncodeVPortMessage(message);
    bytes[VPortMessage::kHeaderSize + 3] ^= 1;  // the length of the list
    meter->SendBytes(meter->member.address, bytes, true);
  }
}

// Ids of 960 vPorts that do not exist.
void WithdrawUnknownVPorts(CostMeter* meter) {
  meter->Start();
  for (size_t i = 0; i < kMessages; ++i) {
    VPortMessage withdraw = meter->member.Change(Kind::kWithdraw);
    for (uint16_t id = 2; id < 962; ++id) withdraw.gone_vports.push_back(id);
    meter->Send(&meter->member, withdraw);
  }
}

// One vPort with all MACs, which it then announces again.
void WithdrawVPort(CostMeter* meter) {
  meter->Start();
  for (int i = 0; i < 2; ++i) {
    VPortMessage withdraw = meter->member.Change(Kind::kWithdraw);
    withdraw.gone_vports = {1};
    meter->Send(&meter->member, withdraw);
    meter->AnnounceMacs(&meter->member, 0, meter->macs(), 1);
  }
}

void WithdrawManyVPorts(CostMeter* meter) {
  meter->AnnounceMacs(&meter->member, 0, meter->macs(), 1, 960);
  meter->Start();
  for (int i = 0; i < 2; ++i) {
    VPortMessage withdraw = meter->member.Change(Kind::kWithdraw);
    for (uint16_t id = 1; id <= 960; ++id) withdraw.gone_vports.push_back(id);
    meter->Send(&meter->member, withdraw);
    meter->AnnounceMacs(&meter->member, 0, meter->macs(), 1, 960);
  }
}

void WithdrawMacs(CostMeter* meter) {
  meter->Start();
  for (size_t first = 0; first < meter->macs() / 2; first += 240) {
    VPortMessage withdraw = meter->member.Change(Kind::kWithdraw);
    for (size_t i = first; i < first + 240; ++i) withdraw.gone_macs.push_back(MacOf(i));
    meter->Send(&meter->member, withdraw);
  }
}

void Leave(CostMeter* meter) {
  meter->Start();
  for (int i = 0; i < 2; ++i) {
    VPortMessage leave = meter->member.Header(Kind::kWithdraw);
    leave.leaves = true;
    meter->Send(&meter->member, leave);
    meter->BeSilent(meter->member, absl::Milliseconds(400));
    meter->Send(&meter->member, meter->member.Introduction());
    meter->AnnounceMacs(&meter->member, 0, meter->macs(), 1);
  }
}

// Probes from two queue pairs of the port in turn.
void TwoQueuePairs(CostMeter* meter) {
  Member other = meter->member;
  other.address.qpn = Qpn(0x51);
  meter->Hear(other.address);
  meter->Start();
  for (size_t i = 0; i < kMessages; ++i) {
    const Member& from = i % 2 == 0 ? other : meter->member;
    meter->Send(&from, from.Header(Kind::kProbe), /*by_group=*/false);
  }
}

void Incarnations(CostMeter* meter) {
  meter->Start();
  for (size_t i = 0; i < kMessages; ++i) {
    ++meter->member.incarnation;
    meter->Send(&meter->member, meter->member.Header(Kind::kAnnounce));
  }
}

// A state from version 0 with one MAC replaces all; then all MACs are announced again.
void AnnounceFromZero(CostMeter* meter) {
  meter->Start();
  for (int i = 0; i < 2; ++i) {
    VPortMessage announce = meter->member.Introduction();
    announce.macs = {{MacOf(0), 1, 1, false}};
    meter->Send(&meter->member, announce);
    meter->AnnounceMacs(&meter->member, 0, meter->macs(), 1);
  }
}

// The agent is lost, as after unanswered probes, and speaks again.
void Flips(CostMeter* meter) {
  meter->Start();
  for (int i = 0; i < 5; ++i) {
    meter->Slice([meter] {
      meter->protocol()->NoteUnreachable(meter->protocol()->VPortOf(meter->member.id));
    });
    meter->RunDue();
    SendProbes(meter, 1);
  }
}

// Full states in parts, in random order. Each has other MACs than the one before.
void Parts(CostMeter* meter) {
  std::mt19937_64 random;
  meter->Start();
  for (int round = 1; round <= 2; ++round) {
    ++meter->member.version;
    meter->Send(&meter->member, meter->member.Header(Kind::kAnnounce));
    meter->Pass(absl::Milliseconds(150));
    VPortMessage state;
    state.addresses = {{meter->member.address, true}};
    for (size_t i = 0; i < meter->macs(); ++i) {
      state.macs.push_back({MacOf(static_cast<size_t>(round) * meter->macs() + i), 1, 1, false});
    }
    AgentView view;
    view.Apply(state);
    std::vector<VPortMessage> parts;
    for (StateRange rest = StateRange::Whole(); parts.empty() || rest.first != 0;
         rest.first = parts.back().ranges[0].last + 1) {
      VPortMessage header = meter->member.Header(Kind::kReply);
      header.token = meter->last_token();
      parts.push_back(CutPart(view, rest, header, kPayload));
    }
    std::shuffle(parts.begin(), parts.end(), random);
    for (const VPortMessage& part : parts) meter->Send(&meter->member, part, /*by_group=*/false);
  }
}

void AnnounceNew(CostMeter* meter) {
  meter->Start();
  meter->AnnounceMacs(&meter->member, 0, meter->macs(), 1);
}

void AnnounceChanged(CostMeter* meter) {
  meter->Start();
  meter->AnnounceMacs(&meter->member, 0, meter->macs(), 2);
}

void RequestFullState(CostMeter* meter) {
  meter->Start();
  for (size_t i = 0; i < kMessages; ++i) {
    VPortMessage request = meter->member.Header(Kind::kRequest);
    request.wants_full_state = true;
    request.token = i + 1;
    meter->Send(&meter->member, request, /*by_group=*/false);
  }
}

// 240 MACs, which we have, or have not.
void RequestMacs(CostMeter* meter, size_t first) {
  meter->Start();
  for (size_t i = 0; i < kMessages; ++i) {
    VPortMessage request = meter->member.Header(Kind::kRequest);
    for (size_t mac = 0; mac < 240; ++mac)
      request.wanted_macs.push_back(MacOf(first + (i * 240 + mac) % meter->macs()));
    meter->Send(&meter->member, request, /*by_group=*/false);
  }
}
void RequestOurMacs(CostMeter* meter) { RequestMacs(meter, 0); }
void RequestOtherMacs(CostMeter* meter) { RequestMacs(meter, 2 * meter->macs()); }

void ReplyGone(CostMeter* meter) {
  meter->Start();
  for (size_t i = 0; i < kMessages; ++i) {
    VPortMessage reply = meter->member.Header(Kind::kReply);
    for (size_t mac = 0; mac < 240; ++mac)
      reply.gone_macs.push_back(MacOf((i * 240 + mac) % meter->macs()));
    meter->Send(&meter->member, reply, /*by_group=*/false);
  }
}

void ReplyHas(CostMeter* meter) {
  meter->Start();
  for (size_t i = 0; i < kMessages; ++i) {
    VPortMessage reply = meter->member.Header(Kind::kReply);
    for (size_t mac = 0; mac < 120; ++mac)
      reply.macs.push_back({MacOf((i * 120 + mac) % meter->macs()), 1, 1, false});
    meter->Send(&meter->member, reply, /*by_group=*/false);
  }
}

// All MACs of another agent.
void Displace(CostMeter* meter) {
  meter->Send(&meter->victim, meter->victim.Introduction());
  meter->AnnounceMacs(&meter->victim, 0, meter->macs(), 1);
  meter->Start();
  meter->AnnounceMacs(&meter->member, 0, meter->macs(), 2);
  VPortMessage withdraw = meter->member.Change(Kind::kWithdraw);
  withdraw.gone_vports = {1};
  meter->Send(&meter->member, withdraw);
}

// All our MACs.
void DisplaceOurs(CostMeter* meter) {
  meter->Start();
  meter->AnnounceMacs(&meter->member, 0, meter->macs(), 5);
}

// 4,096 vPorts with 200 ranges of VLANs each, of which each message changes one.
void VPorts(CostMeter* meter) {
  const auto announce = [meter](size_t id, const std::string& name) {
    VPortMessage message = meter->member.Change(Kind::kAnnounce);
    AnnouncedVPort vport{static_cast<uint16_t>(id), name, {}};
    for (uint16_t range = 0; range < 200; ++range) {
      vport.vlans.push_back(
          {Vid(static_cast<uint16_t>(2 * range + 1)), Vid(static_cast<uint16_t>(2 * range + 1))});
    }
    message.vports = {vport};
    meter->Send(&meter->member, message);
  };
  const size_t vports = AgentView::kMaxVPorts * meter->macs() / AgentView::kMaxMacs;
  for (size_t id = 0; id < vports; ++id) announce(id, "a");
  meter->Start();
  for (size_t i = 0; i < 100; ++i) announce(i % vports, "b");
}

// A new agent with each message, from its own queue pair.
void Newcomers(CostMeter* meter) {
  meter->Start();
  for (size_t i = 0; i < kMessages; ++i) {
    const Member made_up{IdOf(0x1000 + i),
                         {CostMeter::GidOf(2), Qpn(static_cast<uint32_t>(0x1000 + i))}};
    meter->Send(&made_up, made_up.Header(Kind::kAnnounce));
  }
}

// The same while 4,096 agents are known, so that each newcomer takes the place of another one.
void NewcomersAmongMany(CostMeter* meter) {
  for (uint64_t port = 0; port < 256; ++port) {
    for (uint64_t i = 0; i < 16; ++i) {
      const Member made_up{IdOf(0x10000 + port * 16 + i),
                           {CostMeter::GidOf(port + 2), Qpn(static_cast<uint32_t>(0x100 + i))}};
      meter->Send(&made_up, made_up.Header(Kind::kAnnounce));
    }
  }
  Newcomers(meter);
}

// Probes while 256 questions about MACs are open: claims of another agent's MACs that jump.
void Questions(CostMeter* meter) {
  meter->Send(&meter->victim, meter->victim.Introduction());
  meter->AnnounceMacs(&meter->victim, 0, 360, 1);
  meter->AnnounceMacs(&meter->member, 0, 360, 5000);
  meter->Start();
  SendProbes(meter, 200);
}
// The same when nothing was answered.
void Unanswered(CostMeter* meter) {
  Questions(meter);
  meter->Pass(absl::Seconds(1));
  SendProbes(meter, kMessages);
}

constexpr CostlyKind kKinds[] = {
    {.name = "probe", .send = Probe, .member_has_macs = true},
    {.name = "malformed", .send = Malformed},
    {.name = "withdraw_unknown_vports", .send = WithdrawUnknownVPorts, .member_has_macs = true},
    {.name = "withdraw_vport", .send = WithdrawVPort, .member_has_macs = true},
    {.name = "withdraw_many_vports", .send = WithdrawManyVPorts},
    {.name = "withdraw_macs", .send = WithdrawMacs, .member_has_macs = true},
    {.name = "leave", .send = Leave, .member_has_macs = true},
    {.name = "two_queue_pairs", .send = TwoQueuePairs, .member_has_macs = true},
    {.name = "incarnations", .send = Incarnations, .member_has_macs = true},
    {.name = "announce_from_zero", .send = AnnounceFromZero, .member_has_macs = true},
    {.name = "flips", .send = Flips, .member_has_macs = true, .is_paid = false},
    {.name = "parts", .send = Parts, .member_has_macs = true},
    {.name = "announce_new", .send = AnnounceNew},
    {.name = "announce_changed", .send = AnnounceChanged, .member_has_macs = true},
    {.name = "request_full_state", .send = RequestFullState, .agent_has_macs = true},
    {.name = "request_our_macs", .send = RequestOurMacs, .agent_has_macs = true},
    {.name = "request_other_macs", .send = RequestOtherMacs},
    {.name = "reply_gone", .send = ReplyGone, .member_has_macs = true},
    {.name = "reply_has", .send = ReplyHas, .member_has_macs = true},
    {.name = "displace", .send = Displace},
    {.name = "displace_ours", .send = DisplaceOurs, .agent_has_macs = true},
    {.name = "vports", .send = VPorts},
    {.name = "vports_replicate", .send = VPorts, .replicates = true},
    {.name = "newcomers", .send = Newcomers},
    {.name = "newcomers_among_4096", .send = NewcomersAmongMany},
    {.name = "questions", .send = Questions},
    {.name = "unanswered", .send = Unanswered},
};

}  // namespace

absl::Span<const CostlyKind> CostlyKinds() { return kKinds; }

MessageCost Measure(const CostlyKind& kind, size_t macs) {
  CostMeter meter(kind, macs);
  kind.send(&meter);
  return meter.cost();
}

}  // namespace eoib
