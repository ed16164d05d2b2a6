#include "vswitch/fabric/hca.h"

#include <arpa/inet.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/fabric/link_rate.h"

namespace eoib {
namespace {

absl::StatusOr<PKey> QueryPKey(const Hca& hca, int index) {
  uint16_t wire = 0;
  errno = 0;  // query_pkey returns -1 and need not set errno
  if (hca.verbs().query_pkey(hca.context(), hca.port(), index, &wire) == 0)
    return PKey(ntohs(wire));
  return absl::ErrnoToStatus(errno != 0 ? errno : EIO,
                             absl::StrCat("query P_Key ", index, " of port ", hca.name()));
}

}  // namespace

std::string PortTrouble(const HcaPortInfo& port) {
  if (port.ethernet_link_layer)
    return "the port is down: no link (see the netdev behind it, rdma link)";
  switch (port.state) {
    case IBV_PORT_INIT:
      return "the port is initialising: it has a link, and no subnet manager has configured it (is "
             "OpenSM running?)";
    case IBV_PORT_ARMED:
      return "the port is armed: the subnet manager has still to activate it";
    default:
      return "the port is down: no link (cable, switch port, or disabled: ibstat, iblinkinfo)";
  }
}

absl::StatusOr<ibv_port_attr> Hca::QueryAttributes() const {
  ibv_port_attr attr = {};
  const int error = verbs().query_port(context(), port(), &attr);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("query port ", name()));
  return attr;
}

absl::StatusOr<HcaPortInfo> Hca::QueryPort() const {
  absl::StatusOr<ibv_port_attr> attr = QueryAttributes();
  if (!attr.ok()) return attr.status();
  ibv_gid gid = {};
  errno = 0;
  if (verbs().query_gid(context(), port(), gid_index(), &gid) != 0) {
    return absl::ErrnoToStatus(errno != 0 ? errno : EIO,
                               absl::StrCat("query GID ", gid_index(), " of port ", name()));
  }
  HcaPortInfo info;
  info.active = attr->state == IBV_PORT_ACTIVE;
  info.state = attr->state;
  info.ethernet_link_layer = attr->link_layer == IBV_LINK_LAYER_ETHERNET;
  info.lid = Lid(attr->lid);
  info.sm_lid = Lid(attr->sm_lid);
  info.gid = Gid::FromWire(gid.raw);
  info.mtu = static_cast<uint8_t>(attr->active_mtu);
  info.rate = RateOf({attr->active_width, attr->active_speed});
  return info;
}

absl::StatusOr<ibv_gid_entry> Hca::QueryGidEntry() const {
  ibv_gid_entry entry = {};
  const int error = verbs().query_gid_ex(context(), port(), gid_index(), &entry);
  if (error != 0)
    return absl::ErrnoToStatus(error, absl::StrCat("query GID ", gid_index(), " of port ", name()));
  return entry;
}

absl::StatusOr<std::vector<PKey>> Hca::QueryPKeys() const {
  absl::StatusOr<ibv_port_attr> attr = QueryAttributes();
  if (!attr.ok()) return attr.status();
  std::vector<PKey> table;
  for (int i = 0; i < attr->pkey_tbl_len; ++i) {
    const absl::StatusOr<PKey> pkey = QueryPKey(*this, i);
    if (!pkey.ok()) return pkey.status();
    table.push_back(*pkey);
  }
  return table;
}

absl::StatusOr<Hca::PKeyIndex> Hca::FindPKey(PKey pkey) const {
  absl::StatusOr<ibv_port_attr> attr = QueryAttributes();
  if (!attr.ok()) return attr.status();
  if (attr->link_layer == IBV_LINK_LAYER_ETHERNET) return PKeyIndex{0, pkey.Full()};
  std::vector<std::string> table;
  absl::optional<PKeyIndex> limited;
  for (int i = 0; i < attr->pkey_tbl_len; ++i) {
    const absl::StatusOr<PKey> in_table = QueryPKey(*this, i);
    if (!in_table.ok()) return in_table.status();
    const PKeyIndex entry = {static_cast<uint16_t>(i), *in_table};
    if (!entry.pkey.IsValid()) continue;
    table.push_back(entry.pkey.ToString());
    if (!entry.pkey.SamePartition(pkey)) continue;
    if (entry.pkey.IsFullMember()) return entry;
    if (!limited.has_value()) limited = entry;
  }
  if (limited.has_value()) return *limited;
  return absl::NotFoundError(absl::StrCat(
      "find P_Key ", pkey.ToString(), " on port ", name(), ": not in its table (",
      absl::StrJoin(table, ", "), "); ",
      absl::StartsWith(name(), "soft:")
          ? "add it to the partition (eoibctl -t fabricd partition add PKEY PORT, or its partition "
            "file)"
          : "has the subnet manager put this port into the partition (OpenSM: partitions.conf)?"));
}

}  // namespace eoib
