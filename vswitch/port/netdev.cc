#include "vswitch/port/netdev.h"

#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>

namespace eoib {
namespace {

constexpr size_t kAnswerSize = 65536;  // the kernel's largest piece of a dump is half of this

// A request about netdevs, of at most 512 bytes.
class Request {
 public:
  // `index` of the netdev; 0: an attribute has its name.
  Request(uint16_t type, uint16_t flags, int index = 0)
      : header_(mnl_nlmsg_put_header(buffer_.data())) {
    header_->nlmsg_type = type;
    header_->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    auto* const message =
        static_cast<ifinfomsg*>(mnl_nlmsg_put_extra_header(header_, sizeof(ifinfomsg)));
    message->ifi_family = AF_UNSPEC;
    message->ifi_index = index;
  }
  nlmsghdr* header() { return header_; }

 private:
  alignas(nlmsghdr) std::array<char, 512> buffer_{};
  nlmsghdr* const header_;
};

std::string KindOf(const nlattr* info) {
  std::string kind;
  const auto take = [](const nlattr* attribute, void* to) -> int {
    if (mnl_attr_get_type(attribute) == IFLA_INFO_KIND)
      *static_cast<std::string*>(to) = mnl_attr_get_str(attribute);
    return MNL_CB_OK;
  };
  mnl_attr_parse_nested(info, take, &kind);
  return kind;
}

int TakeAttribute(const nlattr* attribute, void* to) {
  NetdevInfo& info = *static_cast<NetdevInfo*>(to);
  switch (mnl_attr_get_type(attribute)) {
    case IFLA_IFNAME:
      info.name = mnl_attr_get_str(attribute);
      break;
    case IFLA_IFALIAS:
      info.alias = mnl_attr_get_str(attribute);
      break;
    case IFLA_LINKINFO:
      info.kind = KindOf(attribute);
      break;
    case IFLA_MTU:
      info.mtu = mnl_attr_get_u32(attribute);
      break;
    case IFLA_MASTER:
      info.master = static_cast<int>(mnl_attr_get_u32(attribute));
      break;
    case IFLA_CARRIER:
      info.carrier = mnl_attr_get_u8(attribute) != 0;
      break;
    case IFLA_ADDRESS:
      if (mnl_attr_get_payload_len(attribute) == MacAddr::kSize)
        info.mac = MacAddr::FromWire(mnl_attr_get_payload(attribute));
      break;
    default:
      break;
  }
  return MNL_CB_OK;
}

NetdevInfo Parse(const nlmsghdr* message) {
  NetdevInfo info;
  const auto* link = static_cast<const ifinfomsg*>(mnl_nlmsg_get_payload(message));
  info.index = link->ifi_index;
  info.ethernet = link->ifi_type == ARPHRD_ETHER;
  info.up = (link->ifi_flags & IFF_UP) != 0;
  mnl_attr_parse(message, sizeof(ifinfomsg), TakeAttribute, &info);
  return info;
}

// Sends a request and reads its whole answer.
int Execute(int netlink, Request* request, absl::FunctionRef<void(const nlmsghdr*)> visit) {
  nlmsghdr* const header = request->header();
  if (send(netlink, header, header->nlmsg_len, 0) < 0) return errno;
  const auto buffer = std::make_unique<char[]>(kAnswerSize);
  for (;;) {
    const ssize_t size = recv(netlink, buffer.get(), kAnswerSize, 0);
    if (size < 0) return errno;
    int left = static_cast<int>(size);
    for (const auto* each = reinterpret_cast<const nlmsghdr*>(buffer.get());
         mnl_nlmsg_ok(each, left); each = mnl_nlmsg_next(each, &left)) {
      if (each->nlmsg_type == NLMSG_ERROR)
        return -static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(each))->error;
      if (each->nlmsg_type == NLMSG_DONE) return 0;
      visit(each);
    }
  }
}

}  // namespace

int FindNetdev(int netlink, const std::string& name, NetdevInfo* info) {
  Request request(RTM_GETLINK, NLM_F_ACK);
  mnl_attr_put_strz(request.header(), IFLA_IFNAME, name.c_str());
  return Execute(netlink, &request, [info](const nlmsghdr* message) { *info = Parse(message); });
}

int VisitNetdevs(int netlink, absl::FunctionRef<void(const NetdevInfo& info)> visit) {
  Request request(RTM_GETLINK, NLM_F_DUMP);
  return Execute(netlink, &request, [&visit](const nlmsghdr* message) { visit(Parse(message)); });
}

int ChangeNetdev(int netlink, const std::string& name, const NetdevChange& change) {
  int index = 0;
  if (change.new_name.has_value()) {
    NetdevInfo info;
    if (const int error = FindNetdev(netlink, name, &info); error != 0) return error;
    index = info.index;
  }
  Request request(RTM_SETLINK, NLM_F_ACK, index);
  nlmsghdr* const header = request.header();
  // With an index, the name is a new one.
  mnl_attr_put_strz(header, IFLA_IFNAME, change.new_name.value_or(name).c_str());
  if (change.alias.has_value()) mnl_attr_put_strz(header, IFLA_IFALIAS, change.alias->c_str());
  if (change.gso_max_size.has_value())
    mnl_attr_put_u32(header, IFLA_GSO_MAX_SIZE, *change.gso_max_size);
  if (change.group.has_value()) mnl_attr_put_u32(header, IFLA_GROUP, *change.group);
  if (change.no_ipv6_addresses) {
    nlattr* const families = mnl_attr_nest_start(header, IFLA_AF_SPEC);
    nlattr* const ipv6 = mnl_attr_nest_start(header, AF_INET6);
    mnl_attr_put_u8(header, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
    mnl_attr_nest_end(header, ipv6);
    mnl_attr_nest_end(header, families);
  }
  return Execute(netlink, &request, [](const nlmsghdr*) {});
}

int DeleteNetdevs(int netlink, uint32_t group) {
  Request request(RTM_DELLINK, NLM_F_ACK);
  mnl_attr_put_u32(request.header(), IFLA_GROUP, group);
  return Execute(netlink, &request, [](const nlmsghdr*) {});
}

}  // namespace eoib
