// TapSet: the TAPs of a process: finds those of former processes, and deletes those that are no
// longer wanted together.
#ifndef EOIB_VSWITCH_PORT_TAP_SET_H_
#define EOIB_VSWITCH_PORT_TAP_SET_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/tap_finder.h"

namespace eoib {

class TapPort;

// For the control thread.
class TapSet {
 public:
  explicit TapSet(const Clock* clock);
  TapSet(const TapSet&) = delete;
  TapSet& operator=(const TapSet&) = delete;

  TapFinder* finder() { return &finder_; }

  // The port's netdev is to be deleted, by the next call of DeleteUnwanted. The port may be
  // destroyed before that.
  absl::Status Discard(const TapPort& port);
  // Deletes them in one request for each network namespace, for the reason that DeleteNetdevs
  // gives.
  absl::Status DeleteUnwanted();
  bool HasUnwanted() const { return !sockets_.empty(); }

 private:
  TapFinder finder_;
  // Of the unwanted netdevs; random, so that no other program uses it.
  const uint32_t group_;
  std::vector<UniqueFd> sockets_;  // netlink sockets in the namespaces of unwanted netdevs
  bool has_own_ = false;           // the first one is of this thread's namespace
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_TAP_SET_H_
