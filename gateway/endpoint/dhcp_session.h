// DhcpSession: what a lease (DhcpClient) means for this host: its address among the others, with duplicate address detection
// and TUN; its router as the default route; names for `show`.
//
// One thread. The host and the kernel's side stay the caller's.
#ifndef EOIB_GATEWAY_ENDPOINT_DHCP_SESSION_H_
#define EOIB_GATEWAY_ENDPOINT_DHCP_SESSION_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "gateway/endpoint/dhcp_client.h"
#include "gateway/endpoint/ip_host.h"

namespace eoib::endpoint {

class DhcpSession final : public DhcpClient::Owner {
 public:
  // The default route of the kernel, by the TUN, for packets from `source`; nothing: none.
  using SetRouter = std::function<absl::Status(absl::optional<Ipv4Addr> router, Ipv4Addr source)>;

  // Sees the host's packets from now on. The client identifier is made of `port`, the DUID, and `pkey`, the
  // IAID: which of the interfaces of the port (RFC 4361 §6.1). Both stay when the queue pair changes.
  DhcpSession(Guid port, PKey pkey, std::string host_name, const Clock* clock, std::function<uint64_t()> random, IpHost* host,
              SetRouter set_router);

  // The link has changed.
  void OnLinkState();
  // The TUN is up again: with `down` the kernel forgot its routes.
  void OnTunUp() { RestoreRouter(); }
  DhcpClient& client() { return client_; }
  const DhcpClient& client() const { return client_; }
  std::string Show(absl::Time now) const;

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

#endif  // EOIB_GATEWAY_ENDPOINT_DHCP_SESSION_H_
