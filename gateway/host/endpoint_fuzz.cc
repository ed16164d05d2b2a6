// Fuzzes IpHost and DhcpSession with events from the link and from the kernel. The invariant: the
// host sends only well-formed packets, and claims only addresses that it has.
//
// The input is a list of events: a byte that selects the event, two bytes of length, the event's
// data.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "gateway/host/conservation_for_test.h"
#include "gateway/host/dhcp_session.h"
#include "gateway/host/endpoint_commands.h"
#include "gateway/host/ip_host.h"
#include "gateway/host/kernel_groups.h"
#include "vswitch/base/daemon/counter_text.h"

namespace eoib::endpoint {
namespace {

const IpoibAddress kOwn(Qpn(2),
                        Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x0253'494d'4942'0101)));
const IpoibAddress kPeer(Qpn(2), Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000,
                                                        Guid(0x0253'494d'4942'0001)));
constexpr uint32_t kMtu = 2044;
constexpr size_t kNeighbors = 8;

void Require(bool condition) {
  if (!condition) std::abort();
}

// Checks that each packet to the link is well-formed, and that its ARP and advertisements claim
// only addresses of this host.
class Link final : public ipoib::Interface {
 public:
  absl::optional<ipoib::LinkState> state() const override { return link_state; }
  void Send(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) override {
    Require(!to.IsZero() && !to.IsGroup());
    Check(type, payload);
  }
  void SendToGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpoibGroup& group,
                   bool) override {
    Require(ParseIpoibMgid(ToMgid(group)) == group);
    Check(type, payload);
  }
  bool Reaches(const IpoibGroup&) override { return true; }
  void Listen(const IpoibGroup& group) override {
    Require(ParseIpoibMgid(ToMgid(group)) == group && ++groups > 0);
  }
  void Unlisten(const IpoibGroup&) override { Require(groups-- > 0); }

  absl::optional<ipoib::LinkState> link_state;
  const Addresses* addresses = nullptr;
  int groups = 0;

 private:
  void Check(IpoibType type, absl::Span<const uint8_t> payload) {
    Require(link_state.has_value() && payload.size() <= kMtu);
    if (type == IpoibType::kArp) return CheckArp(payload);
    if (type == IpoibType::kIpv4) return Require(ParseIpv4Packet(payload).has_value());
    Require(type == IpoibType::kIpv6 && ParseIpv6Packet(payload).has_value());
    NdMessage message;
    if (ParseNeighborDiscovery(payload, &message) != NdVerdict::kGood) return;
    if (message.type != NdType::kNeighborAdvertisement) return;
    // Also accepts an address that is just becoming assigned.
    const IpAddr target(message.target);
    Require(addresses->IsAssigned(target) || addresses->IsTentative(target));
    Require(FindLinkAddress(message, NdOptionType::kTargetLinkAddress) == kOwn);
  }
  void CheckArp(absl::Span<const uint8_t> payload) {
    const auto arp = ParseIpoibArp(payload);
    Require(arp.has_value() && arp->sender == kOwn);
    const IpAddr sender(arp->sender_ip);
    Require(sender.IsUnspecified() || addresses->IsAssigned(sender) ||
            addresses->IsTentative(sender));
  }
};

class CheckedTun final : public Tun {
 public:
  EndpointDrop Write(absl::Span<const uint8_t> packet) override {
    const auto ipv4 = ParseIpv4Packet(packet);
    const auto ipv6 = ParseIpv6Packet(packet);
    Require((ipv4.has_value() && ipv4->bytes.size() == packet.size()) ||
            (ipv6.has_value() && ipv6->bytes.size() == packet.size()));
    NdMessage message;
    if (ParseNeighborDiscovery(packet, &message) == NdVerdict::kGood) {
      for (const NdOption option : message.options) {
        Require(option.type != NdOptionType::kSourceLinkAddress &&
                option.type != NdOptionType::kTargetLinkAddress);
      }
    }
    return EndpointDrop::kNone;
  }
  void SetLink(uint32_t) override {}
};

class Routes final : public NextHops {
 public:
  absl::optional<IpAddr> NextHop(const IpAddr& destination) override { return destination; }
};

class Kernel final : public KernelAddresses {
 public:
  absl::Status Add(const InterfaceAddress&, absl::Time) override { return absl::OkStatus(); }
  absl::Status Remove(const InterfaceAddress&) override { return absl::OkStatus(); }
};

class Player {
 public:
  Player() {
    link_.addresses = &host_.addresses();
    SetLink(true);
    for (const char* address : {"10.0.0.2/24", "fd00::2/64"}) {
      host_.addresses().Want(*InterfaceAddress::Parse(address), AddressOrigin::kOperator);
    }
  }

  // Takes one event from the front of `*input`.
  void Play(absl::Span<const uint8_t>* input) {
    const uint8_t event = (*input)[0];
    const size_t length =
        std::min<size_t>(size_t{(*input)[1]} << 8 | (*input)[2], input->size() - 3);
    std::vector<uint8_t> bytes(input->begin() + 3,
                               input->begin() + 3 + static_cast<ptrdiff_t>(length));
    input->remove_prefix(3 + length);
    Do(event, absl::MakeSpan(bytes));
    Require(host_.neighbors().size() <= kNeighbors);
    Require(static_cast<size_t>(link_.groups) <= Memberships::kLimit + 16);
  }
  void End() {
    CommandRegistry registry;
    RegisterHostCommands(
        &host_, [this] { return dhcp_.ToJson(clock_.Now()); }, &registry);
    Require(
        ipoib::BrokenLaws(ipoib::ParseNumbers(CountersText(StatsJson(host_))), HostLaws()).empty());
    for (const char* command : {"show", "neigh", "groups", "stats", "drops"})
      Require(registry.Run(command, {}).ok());
  }

 private:
  static constexpr IpoibType kTypes[] = {IpoibType::kIpv4, IpoibType::kArp, IpoibType::kRarp,
                                         IpoibType::kIpv6};

  void Do(uint8_t event, absl::Span<uint8_t> bytes) {
    switch (event & 7) {
      case 0:
      case 1:  // through a group
        return host_.OnPacket({kTypes[event >> 3 & 3], bytes,
                               (event & 0x20) != 0 ? absl::nullopt : absl::make_optional(kPeer),
                               (event & 1) != 0});
      case 2:
        return host_.FromTun(bytes);
      case 3:
        clock_.Advance(absl::Milliseconds(20) * (1 + (event >> 3)));
        host_.Tick();
        return dhcp_.client().Tick();
      case 4:
        return SetLink((event & 8) != 0);
      case 5: {
        const auto address =
            InterfaceAddress::Parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
        if (!address.ok()) return;
        if ((event & 8) != 0) return host_.addresses().OnKernelAdded(*address);
        return host_.addresses().OnKernelRemoved(address->address);
      }
      case 6: {
        const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return host_.memberships().SetKernelGroups(ParseKernelGroups(text, text, "ib0"));
      }
      default:
        return host_.addresses().OnTunUp();
    }
  }
  void SetLink(bool up) {
    link_.link_state =
        up ? absl::make_optional(ipoib::LinkState{kOwn, {PKey(0xffff)}, kMtu}) : absl::nullopt;
    host_.OnLinkState();
    dhcp_.OnLinkState();
  }
  uint64_t Random() { return random_ = random_ * 6364136223846793005u + 1442695040888963407u; }

  uint64_t random_ = 1;
  FakeClock clock_;
  Link link_;
  CheckedTun tun_;
  Routes routes_;
  Kernel kernel_;
  IpHost host_{{.neighbors = {.limit = kNeighbors}, .dhcp_server = true},
               {&clock_, &link_, &tun_, &routes_, &kernel_, [this] { return Random(); }}};
  // Its transaction id is always 0, so that a corpus can contain answers.
  DhcpSession dhcp_{Guid(1),
                    PKey(0xffff),
                    "",
                    &clock_,
                    [] { return uint64_t{0}; },
                    &host_,
                    [](absl::optional<Ipv4Addr>, Ipv4Addr) { return absl::OkStatus(); }};
};

}  // namespace
}  // namespace eoib::endpoint

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  eoib::endpoint::Player player;
  absl::Span<const uint8_t> input(data, size);
  while (input.size() >= 3) player.Play(&input);
  player.End();
  return 0;
}
