// HostRoutes: looks up the kernel's next hop for packets that it writes to the TUN, which a packet
// does not name. It caches the answer for 10 s, or until a route, rule, address or interface
// changes. (The kernel sends no event for routes of redirects.)
//
// One thread, in the TUN's network namespace; the event loop calls Run when fd() is readable.
#ifndef EOIB_GATEWAY_HOST_HOST_ROUTES_H_
#define EOIB_GATEWAY_HOST_HOST_ROUTES_H_

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gateway/host/ip_host.h"
#include "gateway/host/netlink.h"
#include "vswitch/base/clock.h"

namespace eoib::endpoint {

class HostRoutes final : public NextHops {
 public:
  static constexpr size_t kLimit = 4096;  // destinations in the cache; a full cache is cleared

  static absl::StatusOr<std::unique_ptr<HostRoutes>> Open(int interface_index, const Clock* clock);

  absl::optional<IpAddr> NextHop(const IpAddr& destination) override;

  int fd() const { return events_->fd(); }
  void Run();
  size_t size() const { return known_.size(); }

 private:
  struct Known {
    absl::optional<IpAddr> next_hop;
    absl::Time until;
  };

  HostRoutes(int index, const Clock* clock, std::unique_ptr<Netlink> requests,
             std::unique_ptr<Netlink> events)
      : index_(index), clock_(clock), requests_(std::move(requests)), events_(std::move(events)) {}
  absl::optional<IpAddr> QueryKernel(const IpAddr& destination);

  const int index_;
  const Clock* const clock_;
  const std::unique_ptr<Netlink> requests_;
  const std::unique_ptr<Netlink> events_;
  absl::flat_hash_map<IpAddr, Known> known_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_HOST_ROUTES_H_
