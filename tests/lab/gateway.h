// For tests of the gateway to IPoIB: the daemons eoib-gateway (GatewayDaemon) and eoib-ipoib
// (IpoibHost).
#ifndef EOIB_TESTS_LAB_GATEWAY_H_
#define EOIB_TESTS_LAB_GATEWAY_H_

#include <string>
#include <vector>

#include "tests/lab/daemon.h"

namespace eoib::lab {

struct GatewaySpec {
  std::string name = "gw0";
  std::string ves = "red";
  uint16_t ves_pkey = 0x8001;
  uint16_t pkey = 0x8002;  // of the IPoIB link
  std::string more;        // further lines of TOML: "vlan = 10\n"
};

// eoib-gateway. Its host has no interface in either network.
class GatewayDaemon final : public Daemon {
 public:
  GatewayDaemon(Lab* lab, Fabric* fabric, Host* host, const std::vector<GatewaySpec>& specs,
                const Argv& flags = {});

  // The state of one of its gateways: "active", "standby", ...; "" if it does not answer.
  std::string State(const std::string& gateway = "gw0");
  void WaitUntilActive() {
    WaitUntil({"gateway", "show"},
              [](const std::string& show) { return show.find(", active") != std::string::npos; });
  }
  void Start() {
    Launch();
    WaitUntilActive();
  }
  const std::vector<GatewaySpec>& specs() const { return specs_; }
  // Sums over all its gateways: a counter of `gateway stats`, a reason of `gateway drops` (0 if it
  // has not occurred).
  uint64_t Stat(const std::string& name);
  uint64_t Drop(const std::string& reason);

 private:
  const std::vector<GatewaySpec> specs_;
};

// Waits until the daemon is at rest. Expects the conservation laws of its gateways
// (gateway/translation/conservation_for_test.h) and its VESes, and that both count the same frames
// between them.
void ExpectConservation(GatewayDaemon* gateway);

struct IpoibSpec {
  uint16_t pkey = 0x8002;
  std::string netdev = "ib0";
  std::vector<std::string> addresses;  // "10.0.0.11/24", either family
  Argv more;                           // "--dhcp"
};

// eoib-ipoib, with its interface in the host's namespace.
class IpoibHost final : public Daemon {
 public:
  IpoibHost(Lab* lab, Fabric* fabric, Host* host, const IpoibSpec& spec);

  // Waits until its link is up and all its addresses are assigned.
  void WaitUntilReady();
  void Start() {
    Launch();
    WaitUntilReady();
  }
  // The IPoIB link-layer address.
  std::string Address();

 private:
  const IpoibSpec spec_;
};

// The same for an IPoIB host (gateway/host/conservation_for_test.h).
void ExpectConservation(IpoibHost* host);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_GATEWAY_H_
