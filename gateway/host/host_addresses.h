// HostAddresses: the addresses of the TUN in the kernel, over rtnetlink. It tells Addresses of
// changes, and adds and removes addresses for it.
//
// One thread, in the TUN's network namespace; the event loop calls Run when fd() is readable.
// Addresses outlives it.
#ifndef EOIB_GATEWAY_HOST_HOST_ADDRESSES_H_
#define EOIB_GATEWAY_HOST_HOST_ADDRESSES_H_

#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gateway/host/addresses.h"
#include "gateway/host/interface_address.h"
#include "gateway/host/netlink.h"
#include "vswitch/base/clock.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::endpoint {

class HostAddresses final : public KernelAddresses {
 public:
  // For the interface with this index. The clock outlives it.
  static absl::StatusOr<std::unique_ptr<HostAddresses>> Open(int interface_index,
                                                             const Clock* clock);

  // Tells `addresses` of all present addresses, and from now on of changes.
  absl::Status Start(Addresses* addresses);
  int fd() const { return events_->fd(); }
  void Run();
  // `callback` runs when the TUN is up again, after Addresses::OnTunUp.
  void OnTunUp(std::function<void()> callback) { on_tun_up_ = std::move(callback); }

  // KernelAddresses.
  absl::Status Add(const InterfaceAddress& address, absl::Time until) override;
  absl::Status Remove(const InterfaceAddress& address) override;

  // Sets the IPv4 default route of protocol `dhcp` via `gateway`. It replaces only a route set so
  // before, because its metric is this interface's own (1024 + index); so it also ranks behind a
  // default route without a metric. The kernel removes it together with `source`, an address of the
  // interface.
  absl::Status SetDefaultRoute(Ipv4Addr gateway, Ipv4Addr source);
  absl::Status RemoveDefaultRoute(Ipv4Addr gateway);
  // Removes all such routes of this interface, also those of former processes.
  absl::Status RemoveDefaultRoutes();

 private:
  struct DefaultRoute {
    Ipv4Addr gateway;
    absl::optional<Ipv4Addr> source;
    uint32_t metric = 0;
  };

  HostAddresses(int index, const Clock* clock, std::unique_ptr<Netlink> requests,
                std::unique_ptr<Netlink> events)
      : index_(index), clock_(clock), requests_(std::move(requests)), events_(std::move(events)) {}

  uint32_t OwnMetric() const;
  void PutInterfaceAddress(const InterfaceAddress& address, NetlinkRequest* request) const;
  absl::Status ChangeDefaultRoute(uint16_t type, uint16_t flags, const DefaultRoute& route,
                                  absl::string_view what);
  absl::Status Compare();
  void OnMessage(const nlmsghdr* message);
  void OnAddress(const nlmsghdr* message);
  void OnLink(const nlmsghdr* message);
  void OnGone(const InterfaceAddress& address);

  const int index_;
  const Clock* const clock_;
  const std::unique_ptr<Netlink> requests_;
  const std::unique_ptr<Netlink> events_;
  Addresses* addresses_ = nullptr;
  // Addresses that were told or added here. IPv4 may have an address several times, with different
  // prefix lengths.
  std::set<InterfaceAddress> known_;
  bool up_ = true;
  std::function<void()> on_tun_up_ = [] {};
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_HOST_ADDRESSES_H_
