// TapFinder: finds TAPs by their alias, in all network namespaces of this process's user namespace:
// an operator may have renamed a TAP, or given it to a container, while no agent had it open.
#ifndef EOIB_VSWITCH_PORT_TAP_FINDER_H_
#define EOIB_VSWITCH_PORT_TAP_FINDER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/netdev.h"

namespace eoib {

// For the control thread. Entering other namespaces needs CAP_SYS_ADMIN; without it only this
// thread's own one is searched.
class TapFinder {
 public:
  explicit TapFinder(const Clock* clock) : clock_(clock) {}

  struct Found {
    int network_namespace;  // valid until the next call
    NetdevInfo info;
  };
  // Searches again if the last search is older than a second.
  absl::optional<Found> Find(const std::string& alias);
  // Those whose alias begins with `prefix`.
  std::vector<NetdevInfo> FindAll(const std::string& prefix);

 private:
  struct Namespace {
    UniqueFd fd;
    std::vector<NetdevInfo> taps;  // with an alias
  };

  void Search();

  const Clock* const clock_;
  absl::Time searched_ = absl::InfinitePast();
  std::vector<std::unique_ptr<Namespace>> namespaces_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_TAP_FINDER_H_
