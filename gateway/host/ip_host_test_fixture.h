// The fixture of IpHost's tests: a host with a fake link, TUN, routes and kernel. Test only.
#ifndef EOIB_GATEWAY_HOST_IP_HOST_TEST_FIXTURE_H_
#define EOIB_GATEWAY_HOST_IP_HOST_TEST_FIXTURE_H_

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gateway/host/addresses_for_test.h"
#include "gateway/host/conservation_for_test.h"
#include "gateway/host/endpoint_commands.h"
#include "gateway/host/fake_interface_for_test.h"
#include "gateway/host/ip_host.h"
#include "gtest/gtest.h"
#include "vswitch/base/daemon/counter_text.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib::endpoint {

// Two adapters, as in golden_ipoib_for_test.h.
inline const IpoibAddress kOwn(Qpn(2), Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000,
                                                              Guid(0x0253'494d'4942'0101)));
inline const IpoibAddress kPeer(Qpn(2), Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000,
                                                               Guid(0x0253'494d'4942'0001)));
inline constexpr IpoibLink kLink{PKey(0xffff), MulticastScope::LinkLocal()};
inline constexpr char kOwnLinkLocal[] = "fe80::253:494d:4942:101";

class FakeTun final : public Tun {
 public:
  EndpointDrop Write(absl::Span<const uint8_t> packet) override {
    written.emplace_back(packet.begin(), packet.end());
    return refusal;
  }
  EndpointDrop WriteInBatch(absl::Span<const uint8_t> packet) override {
    ++batched;
    return Write(packet);
  }
  bool Continue(absl::Span<const uint8_t> packet, bool checksums_ok) override {
    if (!continues) return false;
    continued_ok.push_back(checksums_ok);
    written.emplace_back(packet.begin(), packet.end());
    return true;
  }
  size_t Flush(EndpointDrop* reason) override {
    *reason = EndpointDrop::kTunFull;
    return std::exchange(lost, 0);
  }
  void SetLink(uint32_t link_mtu) override { mtu = link_mtu; }
  std::vector<Bytes> Take() { return std::exchange(written, {}); }

  std::vector<Bytes> written;
  EndpointDrop refusal = EndpointDrop::kNone;
  uint32_t mtu = 0;
  size_t batched = 0;              // packets for WriteInBatch
  bool continues = false;          // Continue takes each packet
  std::vector<bool> continued_ok;  // whether their checksums were known to be right
  size_t lost = 0;                 // to report at the next Flush
};

// All destinations are on the link, except those in `routes`.
class FakeRoutes final : public NextHops {
 public:
  absl::optional<IpAddr> NextHop(const IpAddr& destination) override {
    const auto found = routes.find(destination);
    return found == routes.end() ? absl::optional<IpAddr>(destination) : found->second;
  }
  std::map<IpAddr, absl::optional<IpAddr>> routes;
};

class FakeKernel final : public KernelAddresses {
 public:
  absl::Status Add(const InterfaceAddress& address, absl::Time until) override {
    if (!refusal.ok()) return refusal;
    addresses.insert(address.ToString());
    ends[address.ToString()] = until;
    return absl::OkStatus();
  }
  absl::Status Remove(const InterfaceAddress& address) override {
    addresses.erase(address.ToString());
    return absl::OkStatus();
  }
  std::set<std::string> addresses;
  std::map<std::string, absl::Time> ends;
  absl::Status refusal;
};

class IpHostTestFixture : public testing::Test {
 protected:
  explicit IpHostTestFixture(IpHost::Options options = {}) : host_(options, Context()) {}

  void TearDown() override {
    ipoib::Numbers numbers = ipoib::ParseNumbers(CountersText(StatsJson(host_)));
    numbers["link.requested"] = link_.requested();
    std::vector<std::string> laws = HostLaws();
    laws.push_back("link.requested = to_link + said");
    EXPECT_EQ(ipoib::BrokenLaws(numbers, laws), "");
  }

  IpHost::Context Context() {
    return {&clock_, &link_, &tun_, &routes_, &kernel_, [this] { return random_(); }};
  }

  void LinkUp(const IpoibAddress& own = kOwn) {
    link_.SetState(ipoib::LinkState{own, kLink, 2044});
    host_.OnLinkState();
  }
  void LinkDown() {
    link_.SetState(absl::nullopt);
    host_.OnLinkState();
  }
  void Run(absl::Duration time) {
    const absl::Time end = clock_.Now() + time;
    while (host_.Next() <= end) {
      if (host_.Next() > clock_.Now()) clock_.Advance(host_.Next() - clock_.Now());
      host_.Tick();
    }
    clock_.Advance(end - clock_.Now());
  }
  // Brings the link up and assigns the addresses; clears the recorded packets.
  void Assign(const std::vector<const char*>& addresses) {
    LinkUp();
    for (const char* address : addresses)
      host_.addresses().Want(*InterfaceAddress::Parse(address), AddressOrigin::kOperator);
    Run(absl::Seconds(10));
    link_.Take();
  }
  void Receive(IpoibType type, Bytes payload, bool group = false,
               absl::optional<IpoibAddress> from = kPeer) {
    host_.OnPacket({type, absl::MakeSpan(payload), from, group});
  }
  // A datagram, from the IPoIB header on.
  void ReceiveDatagram(Bytes datagram, bool group = false,
                       absl::optional<IpoibAddress> from = kPeer) {
    const auto type = DecodeIpoibHeader(datagram);
    ASSERT_TRUE(type.has_value());
    datagram.erase(datagram.begin(), datagram.begin() + kIpoibHeaderSize);
    Receive(*type, std::move(datagram), group, from);
  }
  uint64_t Dropped(EndpointDrop reason) const { return host_.counters().drops[reason]; }

  FakeClock clock_;
  FakeInterface link_;
  FakeTun tun_;
  FakeRoutes routes_;
  FakeKernel kernel_;
  std::mt19937_64 random_{SeedForTest()};
  IpHost host_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_IP_HOST_TEST_FIXTURE_H_
