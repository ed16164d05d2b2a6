// Networkd: systemd's network manager as a DHCP client. It takes the kernel's IPoIB interfaces, which ISC's client does not.
#ifndef EOIB_TESTS_LAB_NETWORKD_H_
#define EOIB_TESTS_LAB_NETWORKD_H_

#include <signal.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/lab/lab.h"

namespace eoib::lab {

// On one interface of a host, which it is told to ask for addresses of one family: "ipv4", "ipv6".
class Networkd {
 public:
  Networkd(Host* host, const std::string& interface, const std::string& family) : host_(host), interface_(interface) {
    // In a mount namespace of its own, where its state begins empty, and where a /sys that nobody may write to says that there
    // is no udev to wait for.
    process_ = host->Start({"unshare", "--mount", "--kill-child", "sh", "-ec",
                            absl::StrCat(R"(
mount -t sysfs -o ro none /sys
mount -t tmpfs none /run
mkdir -p /run/systemd/network /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp
chown -R systemd-network: /run/systemd
cat >/run/systemd/network/one.network <<END
[Match]
Name=)",
                                         interface, R"(
[Network]
DHCP=)",
                                         family, R"(
LinkLocalAddressing=ipv6
IPv6AcceptRA=no
[DHCPv6]
WithoutRA=solicit
END
SYSTEMD_LOG_LEVEL=debug SYSTEMD_LOG_TARGET=console exec /lib/systemd/systemd-networkd
)")});
  }

  // Ends without a word to the server.
  void Stop() { process_->Kill(SIGKILL); }
  // Whether the interface gets an address that begins like that.
  bool Gets(const std::string& address) {
    return EventuallyTrue(kPatience,
                          [&] { return absl::StrContains(host_->MustIp("address show dev " + interface_), " " + address); });
  }
  std::string Log() const { return process_->Log(); }

 private:
  Host* const host_;
  const std::string interface_;
  std::unique_ptr<Process> process_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_NETWORKD_H_
