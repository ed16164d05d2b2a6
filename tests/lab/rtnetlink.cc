#include "tests/lab/rtnetlink.h"

#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/lab/process.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::lab {
namespace {

// rtnetlink(7). A request with room for two attributes, of an IPv6 address each.
template <typename Body>
struct Request {
  nlmsghdr header;
  Body body;
  alignas(NLMSG_ALIGNTO) uint8_t attributes[2 * RTA_SPACE(sizeof(in6_addr))];
};

template <typename Body>
Request<Body> MakeRequest(uint16_t type, uint16_t flags) {
  Request<Body> request{};
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof(Body));
  request.header.nlmsg_type = type;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
  return request;
}

template <typename Body>
void AddAttribute(Request<Body>* request, uint16_t type, const void* value, size_t size) {
  auto* attribute = reinterpret_cast<rtattr*>(reinterpret_cast<uint8_t*>(request) +
                                              NLMSG_ALIGN(request->header.nlmsg_len));
  attribute->rta_type = type;
  attribute->rta_len = static_cast<uint16_t>(RTA_LENGTH(size));
  std::memcpy(RTA_DATA(attribute), value, size);
  request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + RTA_LENGTH(size);
}

// Sends the request and returns the errno of the kernel's answer. An answer with data counts as 0.
int Transact(const nlmsghdr& request) {
  const UniqueFd socket_fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  struct {
    nlmsghdr header;
    nlmsgerr error;
    uint8_t rest[512];
  } answer;
  if (send(socket_fd.get(), &request, request.nlmsg_len, 0) < 0) return errno;
  const ssize_t size = recv(socket_fd.get(), &answer, sizeof(answer), 0);
  if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr)))) return size < 0 ? errno : EPROTO;
  return answer.header.nlmsg_type == NLMSG_ERROR ? -answer.error.error : 0;
}

}  // namespace

bool HasLink(const std::string& interface) {
  auto request = MakeRequest<ifinfomsg>(RTM_GETLINK, 0);
  AddAttribute(&request, IFLA_IFNAME, interface.c_str(), interface.size() + 1);
  const int error = Transact(request.header);
  if (error != 0 && error != ENODEV)
    Die(absl::StrCat("look for ", interface, ": ", strerror(error)));
  return error == 0;
}

void SetLinkUp(const std::string& interface) {
  auto request = MakeRequest<ifinfomsg>(RTM_NEWLINK, 0);
  request.body.ifi_index = static_cast<int>(if_nametoindex(interface.c_str()));
  request.body.ifi_flags = request.body.ifi_change = IFF_UP;
  if (const int error = Transact(request.header))
    Die(absl::StrCat("set ", interface, " up: ", strerror(error)));
}

void AddInterfaceAddress(const std::string& interface, const std::string& prefix) {
  const std::pair<std::string, std::string> words = absl::StrSplit(prefix, absl::MaxSplits('/', 1));
  uint32_t length = 0;
  uint8_t address[sizeof(in6_addr)];
  const bool is_ipv6 = inet_pton(AF_INET6, words.first.c_str(), address) == 1;
  if ((!is_ipv6 && inet_pton(AF_INET, words.first.c_str(), address) != 1) ||
      !absl::SimpleAtoi(words.second, &length)) {
    Die("not ADDRESS/PREFIX_LENGTH: " + prefix);
  }
  auto request = MakeRequest<ifaddrmsg>(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
  request.body.ifa_family = is_ipv6 ? AF_INET6 : AF_INET;
  request.body.ifa_prefixlen = static_cast<uint8_t>(length);
  request.body.ifa_index = if_nametoindex(interface.c_str());
  const size_t size = is_ipv6 ? sizeof(in6_addr) : sizeof(in_addr);
  AddAttribute(&request, IFA_LOCAL, address, size);
  AddAttribute(&request, IFA_ADDRESS, address, size);
  if (const int error = Transact(request.header))
    Die(absl::StrCat("add ", prefix, " to ", interface, ": ", strerror(error)));
}

}  // namespace eoib::lab
