#include "vswitch/port/gso_limit.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace eoib {
namespace {

struct LimitRequest {
  nlmsghdr header = {};
  ifinfomsg link = {};
  rtattr limit_attribute = {RTA_LENGTH(sizeof(uint32_t)), IFLA_GSO_MAX_SIZE};
  uint32_t limit;
  rtattr name_attribute = {RTA_LENGTH(IFNAMSIZ), IFLA_IFNAME};
  char name[IFNAMSIZ] = {};
};
static_assert(offsetof(LimitRequest, name_attribute) == 40 && sizeof(LimitRequest) == 60, "attributes without holes");

struct Answer {
  nlmsghdr header;
  nlmsgerr error;
  char request[sizeof(LimitRequest)];
};

}  // namespace

int SetGsoMaxSize(int netlink, const char* name, uint32_t bytes) {
  LimitRequest request{.limit = bytes};
  request.header.nlmsg_type = RTM_NEWLINK;
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  std::strncpy(request.name, name, IFNAMSIZ - 1);
  if (send(netlink, &request, sizeof(request), 0) < 0) return errno;
  Answer answer = {};
  if (recv(netlink, &answer, sizeof(answer), 0) < 0) return errno;
  return -answer.error.error;
}

}  // namespace eoib
