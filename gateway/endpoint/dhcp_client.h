// DhcpClient: has an IPv4 address of the link leased from a DHCP server (RFC 2131), as IPoIB hosts do (RFC 4390): hardware type
// 32 and no hardware address in its messages, a client identifier that does not change with the queue pair (RFC 4361), and
// answers by broadcast.
//
//     init --discover--> selecting --offer, request--> requesting --ack--> checking --free--> bound --T1--> renewing --T2-->
//     rebinding
//                                                                            | |
//                                                            taken: decline, 10 s later init              the lease ends: init
//
// An address that is leased is used when duplicate address detection has found it free (§2.2). After the link was down the
// lease is confirmed by all servers at once, as in rebinding: the link may be another (§4.4.2 has a state for it, init-reboot;
// the message differs in that an address is in use, which here it is).
//
// Deliberate divergence: the first message is repeated after 1 s, not 4 (§4.1), doubled each time up to 64 s: there are no slow
// links in InfiniBand, and a gateway in between may have come up a moment ago.
//
// Knows neither TUN nor Interface; sends and hears IPv4 packets. One thread. The Owner's methods are called from within its
// own, last, and may call everything here.
#ifndef EOIB_GATEWAY_ENDPOINT_DHCP_CLIENT_H_
#define EOIB_GATEWAY_ENDPOINT_DHCP_CLIENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/clock.h"
#include "gateway/endpoint/interface_address.h"
#include "vswitch/wire/dhcp4.h"
#include "vswitch/wire/dhcp4_writer.h"
#include "vswitch/wire/ip_addr.h"
#include "vswitch/wire/ip_packet.h"

namespace eoib::endpoint {

enum class DhcpState : uint8_t { kInit, kSelecting, kRequesting, kChecking, kBound, kRenewing, kRebinding, kStopped };
const char* ToString(DhcpState state);

struct DhcpLease {
  InterfaceAddress address;
  Ipv4Addr server;
  std::vector<Ipv4Addr> routers;
  std::vector<Ipv4Addr> name_servers;
  std::string domain;
  absl::Duration length;             // infinite: for ever
  absl::Time renew, rebind, expiry;  // T1, T2 and the end (§4.4.5)
};

class DhcpClient {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void SendDhcp(absl::Span<const uint8_t> packet) = 0;  // a whole IPv4 packet
    // The lease's address is to be checked, and used if it is free. Answer with OnAddressFree or OnAddressTaken.
    virtual void CheckAddress(const DhcpLease& lease) = 0;
    // The lease is in use, for the first time or with something new in it.
    virtual void OnLease(const DhcpLease& lease) = 0;
    // There is no lease any more, or the address was somebody's.
    virtual void OnLeaseEnd(const DhcpLease& lease) = 0;
  };

  // `client_identifier`: DhcpClientIdentifier. `random` is uniform over all numbers. The rest stays the caller's.
  DhcpClient(std::vector<uint8_t> client_identifier, std::string host_name, const Clock* clock,
             std::function<uint64_t()> random, Owner* owner);
  DhcpClient(const DhcpClient&) = delete;
  DhcpClient& operator=(const DhcpClient&) = delete;

  void OnLinkUp();
  void OnLinkDown();
  // A packet from the link. True if it was to a DHCP client: there is only one here.
  bool OnPacket(const Ipv4Packet& packet);
  void OnAddressFree(Ipv4Addr address);
  void OnAddressTaken(Ipv4Addr address);
  // Gives the lease back (§4.4.6), and does nothing more.
  void Stop();

  void Tick();
  absl::Time Next() const { return timer_; }

  DhcpState state() const { return state_; }
  // In use, or being checked.
  const absl::optional<DhcpLease>& lease() const { return lease_; }

 private:
  void Enter(DhcpState state);
  void StartOver(absl::Duration wait);
  void Discover();
  void Request();
  void EndAndStartOver();
  void TickLease();
  void Renew();
  void Decline();
  void Confirm(DhcpState state);
  void EndLease();
  absl::Duration Backoff();
  absl::Time RenewalRetry(absl::Time next_state) const;
  absl::Time NotTooSoon(absl::Time renewal) const;
  bool IsForUs(const DhcpMessage& message) const;
  void OnOffer(const DhcpMessage& offer);
  void OnAck(const DhcpMessage& ack);
  void OnNak();
  absl::optional<DhcpLease> ReadLease(const DhcpMessage& ack) const;

  struct Where {
    Ipv4Addr source;
    Ipv4Addr destination = Ipv4Addr::Broadcast();
  };
  // Begins with what all messages have; `add` adds what this one has.
  void Send(DhcpMessageType type, Ipv4Addr client, const Where& where, absl::FunctionRef<void(DhcpWriter*)> add);

  const std::vector<uint8_t> identifier_;
  const std::string host_name_;
  const Clock* const clock_;
  const std::function<uint64_t()> random_;
  Owner* const owner_;
  DhcpState state_ = DhcpState::kInit;
  bool link_up_ = false;
  absl::Time timer_ = absl::InfiniteFuture();
  uint32_t transaction_ = 0;
  absl::Time began_;  // to look for an address: `secs`
  absl::Time asked_;  // with the request that an ack answers: leases count from there
  int tries_ = 0;
  Ipv4Addr offered_, server_;
  absl::optional<DhcpLease> lease_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_DHCP_CLIENT_H_
