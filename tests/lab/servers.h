// Stock servers on a host of a lab: dnsmasq for DHCP and DHCPv6, radvd for router advertisements.
#ifndef EOIB_TESTS_LAB_SERVERS_H_
#define EOIB_TESTS_LAB_SERVERS_H_

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/lab/lab.h"

namespace eoib::lab {

// Leases 10.0.0.100 to 150 and fd00::100 to 150, for two minutes, dnsmasq's shortest lease. IPv4
// clients renew after 3 s.
inline std::unique_ptr<Process> StartDnsmasq(Lab* lab, Host* host, const std::string& interface) {
  return host->Start(
      {"dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--port=0",
       "--no-ping", "--dhcp-authoritative", "--interface=" + interface, "--bind-interfaces",
       "--dhcp-leasefile=" + lab->Path("dnsmasq.leases"),
       "--pid-file=", "--dhcp-range=10.0.0.100,10.0.0.150,120", "--dhcp-option=option:T1,3",
       "--dhcp-option=option:T2,60", "--dhcp-range=fd00::100,fd00::150,64,120",
       // A TUN has no link-layer address to derive one from.
       "--dhcp-duid=1,65:6f:69:62"});
}

// Advertises the host as a router, and the on-link prefix, such as "fd00::/64". `more` has further
// options of the interface.
inline std::unique_ptr<Process> StartRadvd(Lab* lab, Host* host, const std::string& interface,
                                           const std::string& prefix,
                                           const std::string& more = "") {
  WriteFile(lab->Path("radvd.conf"),
            absl::StrCat("interface ", interface,
                         " { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; ", more,
                         "\n  prefix ", prefix, " { AdvOnLink on; AdvAutonomous on; }; };\n"));
  return host->Start({"radvd", "--nodaemon", "--logmethod=stderr", "--debug=1",
                      "--config=" + lab->Path("radvd.conf"),
                      "--pidfile=" + lab->Path("radvd.pid")});
}

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_SERVERS_H_
