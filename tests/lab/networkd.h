// Networkd: systemd-networkd as a DHCP client. It works on the kernel's IPoIB interfaces; ISC's
// client does not.
#ifndef EOIB_TESTS_LAB_NETWORKD_H_
#define EOIB_TESTS_LAB_NETWORKD_H_

#include <signal.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/lab/lab.h"

namespace eoib::lab {

// Requests addresses of one family ("ipv4" or "ipv6") on one interface of a host.
class Networkd {
 public:
  Networkd(Host* host, const std::string& interface, const std::string& family)
      : host_(host), interface_(interface) {
    // In a mount namespace of its own, so that its state is empty. It takes a read-only /sys for a
    // container without udev, and does not wait for udev.
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

  // Kills it, so that it sends nothing to the server.
  void Stop() { process_->Kill(SIGKILL); }
  // Waits until the interface has an address that begins with `address`; false if it gets none.
  bool Gets(const std::string& address) {
    return EventuallyTrue(kPatience, [&] {
      return absl::StrContains(host_->MustIp("address show dev " + interface_), " " + address);
    });
  }
  std::string Log() const { return process_->Log(); }

 private:
  Host* const host_;
  const std::string interface_;
  std::unique_ptr<Process> process_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_NETWORKD_H_
