#include "control/netdev_vport.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/port/netdev_port.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

// "netdev eth1, MTU 1500".
std::string Describe(const std::string& name, const NetdevPort& port, uint32_t ves_mtu) {
  std::string text = absl::StrCat("netdev ", name);
  if (port.mtu() != 0) absl::StrAppend(&text, ", MTU ", port.mtu());
  const uint32_t carried = ves_mtu - kEthernetHeaderSize - kVlanTagSize;
  if (port.mtu() > carried) absl::StrAppend(&text, " (more than ", carried, " passes in segments only)");
  if (port.overruns() != 0) absl::StrAppend(&text, ", ", port.overruns(), " frames not read in time");
  return text;
}

}  // namespace

absl::StatusOr<VPort> MakeNetdevVPort(const VPortConfig& config) {
  auto opened = NetdevPort::Open(config.netdev);
  if (!opened.ok())
    return absl::Status(opened.status().code(), absl::StrCat("vPort ", config.name, ": ", opened.status().message()));
  NetdevPort* const port = opened->get();
  VPort vport;
  vport.config = config;
  vport.port = *std::move(opened);
  vport.make_queue = [port] { return port->MakeQueue(); };
  vport.set_mtu = [](int) { return absl::OkStatus(); };
  vport.set_link = [](bool) { return absl::OkStatus(); };
  vport.check = [port] { return port->Check(); };
  vport.describe = [port, name = config.netdev](uint32_t ves_mtu) { return Describe(name, *port, ves_mtu); };
  return vport;
}

}  // namespace eoib
