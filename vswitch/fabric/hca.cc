#include "vswitch/fabric/hca.h"

#include <arpa/inet.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace eoib {
namespace {

// Speed of one lane in tenths of Gb/s, by PortInfo's speed codes (IBA 1.4 §14.2.5.6); 0 for an unknown code.
int LaneRate(uint8_t active_speed) {
  switch (active_speed) {
    case 1:
      return 25;
    case 2:
      return 50;
    case 4:  // QDR
    case 8:  // FDR10
      return 100;
    case 16:
      return 140;
    case 32:
      return 250;
    case 64:
      return 500;
    case 128:
      return 1000;
    default:
      return 0;
  }
}

// Number of lanes, by PortInfo's width codes (same section); 0 for an unknown code.
int Lanes(uint8_t active_width) {
  switch (active_width) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

// The IBA rate code (§15.2.5.16) of a speed and width; 0, "the port's rate", if the combination has none.
uint8_t RateCode(uint8_t active_speed, uint8_t active_width) {
  struct Rate {
    int tenths;
    ibv_rate code;
  };
  static constexpr Rate kRates[] = {
      {25, IBV_RATE_2_5_GBPS},   {50, IBV_RATE_5_GBPS},     {100, IBV_RATE_10_GBPS},     {140, IBV_RATE_14_GBPS},
      {200, IBV_RATE_20_GBPS},   {250, IBV_RATE_25_GBPS},   {280, IBV_RATE_28_GBPS},     {300, IBV_RATE_30_GBPS},
      {400, IBV_RATE_40_GBPS},   {500, IBV_RATE_50_GBPS},   {560, IBV_RATE_56_GBPS},     {600, IBV_RATE_60_GBPS},
      {800, IBV_RATE_80_GBPS},   {1000, IBV_RATE_100_GBPS}, {1120, IBV_RATE_112_GBPS},   {1200, IBV_RATE_120_GBPS},
      {1680, IBV_RATE_168_GBPS}, {2000, IBV_RATE_200_GBPS}, {3000, IBV_RATE_300_GBPS},   {4000, IBV_RATE_400_GBPS},
      {6000, IBV_RATE_600_GBPS}, {8000, IBV_RATE_800_GBPS}, {12000, IBV_RATE_1200_GBPS},
  };
  const int tenths = LaneRate(active_speed) * Lanes(active_width);
  for (const Rate& rate : kRates) {
    if (rate.tenths == tenths) return static_cast<uint8_t>(rate.code);
  }
  return 0;
}

absl::StatusOr<PKey> QueryPKey(const Hca& hca, int index) {
  uint16_t wire = 0;
  errno = 0;  // query_pkey returns -1 and need not set errno
  if (hca.verbs().query_pkey(hca.context(), hca.port(), index, &wire) == 0) return PKey(ntohs(wire));
  return absl::ErrnoToStatus(errno != 0 ? errno : EIO, absl::StrCat("query P_Key ", index, " of port ", hca.name()));
}

}  // namespace

absl::Status NoCaptureRuns(absl::string_view hca_name) {
  return absl::FailedPreconditionError(absl::StrCat("stop the capture on ", hca_name, ": none runs"));
}

std::string PortTrouble(const HcaPortInfo& port) {
  if (port.ethernet_link_layer) return "the port is down: no link (see the netdev behind it, rdma link)";
  switch (port.state) {
    case IBV_PORT_INIT:
      return "the port is initialising: it has a link, and no subnet manager has configured it (is OpenSM running?)";
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
    return absl::ErrnoToStatus(errno != 0 ? errno : EIO, absl::StrCat("query GID ", gid_index(), " of port ", name()));
  }
  HcaPortInfo info;
  info.active = attr->state == IBV_PORT_ACTIVE;
  info.state = attr->state;
  info.ethernet_link_layer = attr->link_layer == IBV_LINK_LAYER_ETHERNET;
  info.lid = Lid(attr->lid);
  info.sm_lid = Lid(attr->sm_lid);
  info.gid = Gid::FromWire(gid.raw);
  info.mtu = static_cast<uint8_t>(attr->active_mtu);
  info.rate = RateCode(attr->active_speed, attr->active_width);
  return info;
}

absl::StatusOr<ibv_gid_entry> Hca::QueryGidEntry() const {
  ibv_gid_entry entry = {};
  const int error = verbs().query_gid_ex(context(), port(), gid_index(), &entry);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("query GID ", gid_index(), " of port ", name()));
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
  return absl::NotFoundError(
      absl::StrCat("find P_Key ", pkey.ToString(), " on port ", name(), ": not in its table (", absl::StrJoin(table, ", "),
                   "); has the subnet manager put this port into the partition (OpenSM: partitions.conf)?"));
}

absl::StatusOr<std::unique_ptr<Hca>> HcaRegistry::Open(absl::string_view name) const {
  const size_t colon = name.find(':');
  if (colon != absl::string_view::npos) {
    auto opener = openers_.find(std::string(name.substr(0, colon)));
    if (opener != openers_.end()) return opener->second(name.substr(colon + 1));
  }
  const std::string known =
      absl::StrJoin(openers_, ", ", [](std::string* out, const auto& o) { absl::StrAppend(out, o.first, ":"); });
  return absl::InvalidArgumentError(absl::StrCat("open HCA \"", name, "\": no such kind; this program has ", known));
}

}  // namespace eoib
