#include "vswitch/port/tap_set.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "absl/types/optional.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/tap_port.h"

namespace eoib {
namespace {

// A request of rtnetlink(7): a group of netdevs, and the name of one.
struct GroupRequest {
  nlmsghdr header = {};
  ifinfomsg link = {};
  rtattr group_attribute = {RTA_LENGTH(sizeof(uint32_t)), IFLA_GROUP};
  uint32_t group;
  rtattr name_attribute = {RTA_LENGTH(IFNAMSIZ), IFLA_IFNAME};
  char name[IFNAMSIZ] = {};
};
static_assert(offsetof(GroupRequest, name_attribute) == 40 && sizeof(GroupRequest) == 60, "attributes without holes");

// Sends the first `length` bytes of a request. Returns an errno value, or 0.
int Request(int netlink, uint16_t type, size_t length, GroupRequest request) {
  request.header.nlmsg_type = type;
  request.header.nlmsg_len = static_cast<uint32_t>(length);
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  if (send(netlink, &request, length, 0) < 0) return errno;
  struct {
    nlmsghdr header;
    nlmsgerr error;
    char request[sizeof(GroupRequest)];
  } answer = {};
  if (recv(netlink, &answer, sizeof(answer), 0) < 0) return errno;
  return -answer.error.error;
}

bool AddToGroup(int netlink, uint32_t group, const std::string& name) {
  GroupRequest request{.group = group};
  std::memcpy(request.name, name.data(), name.size());
  return Request(netlink, RTM_SETLINK, sizeof(request), request) == 0;
}

absl::Status DeleteGroup(int netlink, uint32_t group) {
  const int error = Request(netlink, RTM_DELLINK, offsetof(GroupRequest, name_attribute), {.group = group});
  return error == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, "delete the TAPs in one batch");
}

// All netdevs of the group will be deleted, so no other program may use it. Operators use small numbers.
uint32_t AnyGroup() {
  std::random_device random;
  return std::uniform_int_distribution<uint32_t>(1u << 30, (1u << 31) - 1)(random);
}

}  // namespace

absl::Status TapSet::DeleteNetdevs() const {
  const UniqueFd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!netlink.valid()) return absl::ErrnoToStatus(errno, "open a netlink socket to delete the TAPs");
  const uint32_t group = AnyGroup();
  bool any = false;
  for (const TapPort* port : ports_) {
    const absl::optional<std::string> name = port->NameHere();
    any |= name.has_value() && AddToGroup(netlink.get(), group, *name);
  }
  return any ? DeleteGroup(netlink.get(), group) : absl::OkStatus();
}

}  // namespace eoib
