#include "control/vport/netdev_vport.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/port/netdev_port.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

class NetdevInterface final : public VPortInterface {
 public:
  NetdevInterface(std::string name, NetdevPort* port) : name_(std::move(name)), port_(port) {}

  std::unique_ptr<Port> MakeQueue() override { return port_->MakeQueue(); }
  absl::optional<std::string> Check() override { return port_->Check(); }
  std::string Describe(uint32_t ves_mtu) override {
    std::string text = absl::StrCat("netdev ", name_);
    if (port_->mtu() != 0) absl::StrAppend(&text, ", MTU ", port_->mtu());
    const uint32_t carried = ves_mtu - kMtuOverhead;
    if (port_->mtu() > carried)
      absl::StrAppend(&text, " (more than ", carried, " passes in segments only)");
    if (port_->overruns() != 0)
      absl::StrAppend(&text, ", ", port_->overruns(), " frames not read in time");
    return text;
  }

 private:
  const std::string name_;
  NetdevPort* const port_;
};

}  // namespace

absl::StatusOr<VPort> MakeNetdevVPort(const VPortConfig& config) {
  auto opened = NetdevPort::Open(config.netdev);
  if (!opened.ok())
    return absl::Status(opened.status().code(),
                        absl::StrCat("vPort ", config.name, ": ", opened.status().message()));
  VPort vport;
  vport.config = config;
  vport.interface = std::make_shared<NetdevInterface>(config.netdev, opened->get());
  vport.port = *std::move(opened);
  return vport;
}

}  // namespace eoib
