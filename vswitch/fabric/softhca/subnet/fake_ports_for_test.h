// FakePorts: the ports of a subnet, for tests of the MAD agents.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FAKE_PORTS_FOR_TEST_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FAKE_PORTS_FOR_TEST_H_

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {

// The components of a request to join or leave a group, and to create one.
inline constexpr uint64_t kIdentify = mcm::kMgid | mcm::kPortGid | mcm::kJoinState;
inline constexpr uint64_t kCreate =
    kIdentify | mcm::kQKey | mcm::kPKey | mcm::kTrafficClass | mcm::kSl | mcm::kFlowLabel;

// Makes an active port named "h" and its LID, on switch port LID.
inline ManagedPort MakeManagedPort(uint16_t lid, std::vector<PKey> pkeys) {
  ManagedPort port;
  port.name = absl::StrCat("h", lid);
  port.switch_port = static_cast<uint8_t>(lid);
  PortConfig& config = port.config;
  config.active = true;
  config.node_guid = config.port_guid = Guid(0x0200'0000'0000'0000u | lid);
  config.gid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000u, config.port_guid);
  config.lid = Lid(lid);
  config.sm_lid = Lid(1);
  config.mtu = 5;
  config.rate = 3;
  config.pkeys = std::move(pkeys);
  return port;
}

inline Mgid MakeMgid(uint8_t last) {
  std::array<uint8_t, Gid::kSize> bytes{0xff, 0x12, 0xe0, 0x1b};
  bytes[15] = last;
  return Mgid(Gid(bytes));
}

class FakePorts final : public ManagedPorts {
 public:
  FakePorts() {
    hub.guid = Guid(0x0200'0000'0000'ffffu);
    hub.gid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000u, hub.guid);
  }

  // Call in the order of LIDs.
  ManagedPort* Add(ManagedPort port) {
    ports.push_back(std::move(port));
    return &ports.back();
  }
  const ManagedPort* FindByGid(const Gid& gid) const override {
    return Find([&](const ManagedPort& port) { return port.config.gid == gid; });
  }
  const ManagedPort* FindByLid(Lid lid) const override {
    return Find([&](const ManagedPort& port) { return port.config.lid == lid; });
  }
  std::vector<const ManagedPort*> Active() const override {
    std::vector<const ManagedPort*> active;
    for (const ManagedPort& port : ports) {
      if (port.config.active) active.push_back(&port);
    }
    return active;
  }
  const ManagedSwitch& Switch() const override { return hub; }

  std::deque<ManagedPort> ports;
  ManagedSwitch hub;

 private:
  const ManagedPort* Find(const std::function<bool(const ManagedPort&)>& wanted) const {
    for (const ManagedPort& port : ports) {
      if (port.config.active && wanted(port)) return &port;
    }
    return nullptr;
  }
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FAKE_PORTS_FOR_TEST_H_
