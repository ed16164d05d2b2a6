// DhcpSession: applies the lease of a DhcpClient to this host: the address goes through duplicate
// address detection to the TUN, the first router becomes the default route, name servers are only
// shown.
//
// One thread. The host outlives it.
#ifndef EOIB_GATEWAY_HOST_DHCP_SESSION_H_
#define EOIB_GATEWAY_HOST_DHCP_SESSION_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "gateway/host/dhcp_client.h"
#include "gateway/host/ip_host.h"
#include "vswitch/base/daemon/answer.h"

namespace eoib::endpoint {

class DhcpSession final : public DhcpClient::Owner {
 public:
  // Sets the kernel's default route through the TUN, with the preferred source address `source`;
  // absent: removes it.
  using SetRouter = std::function<absl::Status(absl::optional<Ipv4Addr> router, Ipv4Addr source)>;

  // Intercepts the host's packets from now on. The client identifier has `port` as its DUID, and
  // `pkey` as the IAID of the port's interface (RFC 4361 §6.1). Neither changes with the queue
  // pair.
  DhcpSession(Guid port, PKey pkey, std::string host_name, const Clock* clock,
              std::function<uint64_t()> random, IpHost* host, SetRouter set_router);

  // The host's link_state() has changed.
  void OnLinkState();
  // The TUN is up again: the kernel removed its routes when it went down.
  void OnTunUp() { RestoreRouter(); }
  DhcpClient& client() { return client_; }
  const DhcpClient& client() const { return client_; }
  Json ToJson(absl::Time now) const;  // for the operator

  // DhcpClient::Owner.
  void SendDhcp(absl::Span<const uint8_t> packet) override;
  void CheckAddress(const DhcpLease& lease) override;
  void OnLease(const DhcpLease& lease) override;
  void OnLeaseEnd(const DhcpLease& lease) override;

 private:
  void OnAddressChange(const IpAddr& address);
  void UseRouter(absl::optional<Ipv4Addr> router, const DhcpLease& lease);
  void RestoreRouter();

  IpHost* const host_;
  const SetRouter set_router_;
  absl::optional<Ipv4Addr> router_;
  DhcpClient client_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_DHCP_SESSION_H_
