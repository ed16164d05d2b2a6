#include "vswitch/port/tap_set.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <random>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "vswitch/port/netdev.h"
#include "vswitch/port/tap_port.h"

namespace eoib {
namespace {

// Operators use small numbers.
uint32_t AnyGroup() {
  std::random_device random;
  return std::uniform_int_distribution<uint32_t>(1u << 30, (1u << 31) - 1)(random);
}

}  // namespace

TapSet::TapSet(const Clock* clock) : finder_(clock), group_(AnyGroup()) {}

absl::Status TapSet::Discard(const TapPort& port) {
  absl::optional<std::string> name = port.NameHere();
  const bool is_here = name.has_value();
  if (!is_here) name = port.NameAnywhere();
  if (!name.has_value()) return absl::OkStatus();  // it was deleted
  if (!is_here || !std::exchange(has_own_, true)) {
    absl::StatusOr<UniqueFd> socket = port.NetlinkBesideNetdev();
    if (!socket.ok()) return socket.status();
    sockets_.insert(is_here ? sockets_.begin() : sockets_.end(), *std::move(socket));
  }
  const int error = ChangeNetdev(is_here ? sockets_.front().get() : sockets_.back().get(), *name,
                                 {.group = group_});
  return error == 0 ? absl::OkStatus()
                    : absl::ErrnoToStatus(error, absl::StrCat("mark TAP ", absl::CHexEscape(*name),
                                                              " for deletion"));
}

absl::Status TapSet::DeleteUnwanted() {
  absl::Status status;
  for (const UniqueFd& socket : std::exchange(sockets_, {})) {
    const int error = DeleteNetdevs(socket.get(), group_);
    if (error != 0) status.Update(absl::ErrnoToStatus(error, "delete the TAPs of removed vPorts"));
  }
  has_own_ = false;
  return status;
}

}  // namespace eoib
