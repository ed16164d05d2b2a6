// DhcpClient: leases an IPv4 address from a DHCP server (RFC 2131), as an IPoIB host does (RFC
// 4390).
//
//     init --discover--> selecting --offer, request--> requesting --ack--> checking --free--> bound
//     --T1--> renewing --T2--> rebinding
//                                                                            | |
//                                                            taken: decline, 10 s later init the
//                                                            lease ends: init
//
// It sends and receives IPv4 packets, and knows neither TUN nor Interface. One thread. It calls the
// Owner last in its own methods; the Owner may call any function here.
#ifndef EOIB_GATEWAY_HOST_DHCP_CLIENT_H_
#define EOIB_GATEWAY_HOST_DHCP_CLIENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gateway/host/dhcp_lease.h"
#include "vswitch/base/clock.h"
#include "vswitch/wire/ip/dhcp4.h"
#include "vswitch/wire/ip/dhcp4_writer.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ip_packet.h"

namespace eoib::endpoint {

enum class DhcpState : uint8_t {
  kInit,
  kSelecting,
  kRequesting,
  kChecking,
  kBound,
  kRenewing,
  kRebinding,
  kStopped
};
const char* ToString(DhcpState state);

class DhcpClient {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void SendDhcp(absl::Span<const uint8_t> packet) = 0;  // a whole IPv4 packet
    // Start duplicate address detection for the lease's address; answer with OnAddressFree or
    // OnAddressTaken.
    virtual void CheckAddress(const DhcpLease& lease) = 0;
    // The lease is in use: it is new, or was renewed.
    virtual void OnLease(const DhcpLease& lease) = 0;
    // The lease has ended, or its address was a duplicate.
    virtual void OnLeaseEnd(const DhcpLease& lease) = 0;
  };

  // `client_identifier`: see DhcpClientIdentifier. `random` is uniform over all 64-bit numbers. The
  // pointers outlive it.
  DhcpClient(std::vector<uint8_t> client_identifier, std::string host_name, const Clock* clock,
             std::function<uint64_t()> random, Owner* owner);
  DhcpClient(const DhcpClient&) = delete;
  DhcpClient& operator=(const DhcpClient&) = delete;

  void OnLinkUp();
  void OnLinkDown();
  // Takes a packet from the link. True if it was for a DHCP client, of which this is the only one.
  bool OnPacket(const Ipv4Packet& packet);
  void OnAddressFree(Ipv4Addr address);
  void OnAddressTaken(Ipv4Addr address);
  // Releases the lease (§4.4.6) and stops the client.
  void Stop();

  void Tick();
  absl::Time Next() const { return timer_; }

  DhcpState state() const { return state_; }
  // The lease that is in use or being checked.
  const absl::optional<DhcpLease>& lease() const { return lease_; }

 private:
  void Enter(DhcpState state);
  void StartOver(absl::Duration wait);
  void Discover();
  void Request();
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

  struct Where {
    Ipv4Addr source;
    Ipv4Addr destination = Ipv4Addr::Broadcast();
  };
  // Sends a message with the common fields and options; `add` adds the others.
  void Send(DhcpMessageType type, Ipv4Addr client, const Where& where,
            absl::FunctionRef<void(DhcpWriter*)> add);

  const std::vector<uint8_t> identifier_;
  const std::string host_name_;
  const Clock* const clock_;
  const std::function<uint64_t()> random_;
  Owner* const owner_;
  DhcpState state_ = DhcpState::kInit;
  bool link_up_ = false;
  absl::Time timer_ = absl::InfiniteFuture();
  uint32_t transaction_ = 0;
  absl::Time began_;  // start of the exchange, for `secs`
  // When the last DHCPREQUEST was sent: a lease counts from then (§4.4.1)
  absl::Time requested_at_;
  int tries_ = 0;
  Ipv4Addr offered_, server_;
  absl::optional<DhcpLease> lease_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_DHCP_CLIENT_H_
