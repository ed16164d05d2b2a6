#include "vswitch/fabric/roce_gid.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace eoib {
namespace {

// fe80::/64 (RFC 4291 §2.5.6).
constexpr uint64_t kLinkLocalPrefix = 0xfe80'0000'0000'0000;

std::string NetdevName(int netdev) {
  char name[IF_NAMESIZE];
  if (netdev == 0) return "no network device";
  if (if_indextoname(static_cast<unsigned>(netdev), name) != nullptr) return absl::CHexEscape(name);
  return absl::StrCat("network device ", netdev);  // in another network namespace
}

// The IPv6 addresses of this host's network devices, with the interface index of each.
absl::StatusOr<std::set<std::pair<int, Gid>>> AssignedAddresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    return absl::ErrnoToStatus(errno, "list the addresses of network devices");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::set<std::pair<int, Gid>> assigned;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET6) continue;
    const auto* address = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
    assigned.emplace(static_cast<int>(if_nametoindex(each->ifa_name)),
                     Gid::FromWire(&address->sin6_addr));
  }
  return assigned;
}

// Lower is better; kUnfit cannot be used. roce_gid.h gives the reasons.
constexpr int kUnfit = 100;
int Rank(const RoceGid& gid) {
  if (gid.IsIpv4() || gid.gid.IsZero() || gid.netdev == 0) return kUnfit;
  const bool link_local = gid.gid.prefix() == kLinkLocalPrefix;
  const bool v2 = gid.type == IBV_GID_TYPE_ROCE_V2;
  if (!v2) return link_local ? 4 : kUnfit;  // an HCA without RoCE v2
  return (gid.assigned ? 0 : 2) + (link_local ? 0 : 1);
}

std::string Describe(const std::vector<RoceGid>& table) {
  if (table.empty()) return "its table is empty";
  return absl::StrCat("there is ",
                      absl::StrJoin(table, "; ", [](std::string* out, const RoceGid& gid) {
                        *out += gid.ToString();
                      }));
}

}  // namespace

RoceGid RoceGid::FromEntry(const ibv_gid_entry& entry) {
  RoceGid gid;
  gid.index = static_cast<int>(entry.gid_index);
  gid.gid = Gid::FromWire(entry.gid.raw);
  gid.type = static_cast<ibv_gid_type>(entry.gid_type);
  gid.netdev = static_cast<int>(entry.ndev_ifindex);
  return gid;
}

// RFC 4291 §2.5.5.2.
bool RoceGid::IsIpv4() const { return gid.prefix() == 0 && gid.guid().value() >> 32 == 0xffff; }

std::string RoceGid::ToString() const {
  return absl::StrCat("GID ", index, " ", gid.ToString(), ", RoCE v",
                      type == IBV_GID_TYPE_ROCE_V2 ? "2" : "1", " on ", NetdevName(netdev));
}

absl::StatusOr<std::vector<RoceGid>> ReadRoceGids(const Hca& hca) {
  const absl::StatusOr<ibv_port_attr> attr = hca.QueryAttributes();
  if (!attr.ok()) return attr.status();
  const absl::StatusOr<std::set<std::pair<int, Gid>>> assigned = AssignedAddresses();
  if (!assigned.ok()) return assigned.status();
  std::vector<RoceGid> table;
  for (int index = 0; index < std::min(attr->gid_tbl_len, kMaxRoceGids); ++index) {
    ibv_gid_entry entry = {};
    const int error = hca.verbs().query_gid_ex(hca.context(), hca.port(), index, &entry);
    if (error == ENODATA) continue;  // unused
    if (error != 0)
      return absl::ErrnoToStatus(error, absl::StrCat("query GID ", index, " of port ", hca.name()));
    table.push_back(RoceGid::FromEntry(entry));
    table.back().assigned = assigned->contains({table.back().netdev, table.back().gid});
  }
  return table;
}

absl::StatusOr<int> ChooseRoceGid(const std::vector<RoceGid>& table, absl::string_view port) {
  const auto best = std::min_element(
      // The first of equals.
      table.begin(), table.end(),
      [](const RoceGid& a, const RoceGid& b) { return Rank(a) < Rank(b); });
  if (best != table.end() && Rank(*best) < kUnfit) return best->index;
  return absl::FailedPreconditionError(absl::StrCat("choose a GID of port ", port,
                                                    ": none is an IPv6 address (", Describe(table),
                                                    "); enable IPv6 on its network device"));
}

absl::Status CheckRoceGid(const std::vector<RoceGid>& table, int index, absl::string_view port) {
  const auto chosen = std::find_if(table.begin(), table.end(),
                                   [index](const RoceGid& gid) { return gid.index == index; });
  const std::string what = absl::StrCat("use GID ", index, " of port ", port, ": ");
  if (chosen == table.end())
    return absl::NotFoundError(
        absl::StrCat(what, "there is none at that index; ", Describe(table)));
  if (!chosen->IsIpv4()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, "it is an IPv4 address, which cannot send to a VES's groups (IPv6); ",
                   Describe(table)));
}

}  // namespace eoib
