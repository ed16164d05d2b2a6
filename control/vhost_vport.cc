#include "control/vhost_vport.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/port/locked_port.h"
#include "vswitch/port/vhost/vhost_library.h"
#include "vswitch/port/vhost/vhost_port.h"

namespace eoib {
namespace {

absl::Status OfVPort(const VPortConfig& config, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("vPort ", config.name, ": ", status.message()));
}

}  // namespace

absl::StatusOr<VPort> MakeVhostVPort(const VPortConfig& config, size_t workers) {
  const absl::StatusOr<VhostBackend*> library = LoadVhostLibrary();
  if (!library.ok()) return OfVPort(config, library.status());
  auto opened = VhostPort::Open({.socket = config.socket, .server = !config.connects}, *library);
  if (!opened.ok()) return OfVPort(config, opened.status());
  VhostPort* const port = opened->get();
  VPort vport;
  vport.config = config;
  if (workers == 1) {
    vport.port = *std::move(opened);
  } else {
    auto locked = std::make_unique<LockedPort>(*std::move(opened));
    vport.make_queue = [first = locked.get()] { return first->MakeQueue(); };
    vport.port = std::move(locked);
  }
  vport.set_mtu = [port](int mtu) {
    port->SetMtu(mtu);
    return absl::OkStatus();
  };
  vport.set_link = [](bool) { return absl::OkStatus(); };
  vport.check = [port] { return port->Trouble(); };
  vport.describe = [port](uint32_t) { return port->Describe(); };
  return vport;
}

absl::Status CheckVhostInstalled(const AgentConfig& config) {
  for (const VPortConfig& vport : config.vports) {
    if (vport.type != "vhost-user") continue;
    if (absl::Status status = CheckVhostLibrary(); !status.ok()) return OfVPort(vport, status);
  }
  return absl::OkStatus();
}

}  // namespace eoib
