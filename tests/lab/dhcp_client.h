// DhcpClient: runs ISC's dhclient on a host and records the addresses that it gets.
#ifndef EOIB_TESTS_LAB_DHCP_CLIENT_H_
#define EOIB_TESTS_LAB_DHCP_CLIENT_H_

#include <signal.h>
#include <sys/stat.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/lab/lab.h"

namespace eoib::lab {

// dhclient runs this script for each event. The distribution's script would write the machine's
// /etc/resolv.conf.
inline constexpr char kDhclientScript[] = R"(#!/bin/sh
case $reason in
  BOUND | RENEW | REBIND | REBOOT) ip address replace "$new_ip_address/24" dev "$interface" ;;
  BOUND6 | RENEW6 | REBIND6) ip address replace "$new_ip6_address/64" dev "$interface" nodad ;;
  RELEASE | EXPIRE) ip address flush dev "$interface" ;;
esac
echo "$reason $new_ip_address$new_ip6_address" >>"$0.events"
)";

// One address family ("-4", "-6") on one interface. All files of dhclient are in the lab's
// directory.
class DhcpClient {
 public:
  DhcpClient(Lab* lab, Host* host, const std::string& interface, const std::string& family)
      : host_(host),
        interface_(interface),
        family_(family),
        base_(lab->Path(absl::StrCat(host->name(), ".dhclient", family))) {
    WriteFile(script(), kDhclientScript);
    if (chmod(script().c_str(), 0755) != 0) DieErrno("chmod " + script());
    WriteFile(leases(), "");
  }

  // For IPv6, first waits for a link-local address that is no longer tentative: dhclient exits if
  // it cannot bind to it.
  void Start() {
    if (family_ == "-6") {
      EXPECT_TRUE(EventuallyTrue(kPatience,
                                 [&] {
                                   return !host_
                                               ->MustIp(absl::StrCat("-6 address show dev ",
                                                                     interface_,
                                                                     " scope link -tentative"))
                                               .empty();
                                 }))
          << host_->name() << ": no link-local address on " << interface_;
    }
    process_ = host_->Start(Command());
  }
  // Kills it, so that it sends nothing to the server.
  void Stop() { process_->Kill(SIGKILL); }
  // Releases the lease.
  RunResult Release() {
    Argv command = Command();
    command.insert(command.begin() + 1, "-r");
    return host_->Run(command);
  }

  // Waits for the first event `reason` ("BOUND", "RENEW6") and returns its address; "" and a failed
  // test if it does not come.
  std::string AddressAt(const std::string& reason) {
    std::string address;
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return Find(reason, &address); }))
        << host_->name() << ": no " << reason << ", only " << ReadFile(script() + ".events");
    return address;
  }

  std::string leases() const { return base_ + ".leases"; }

 private:
  Argv Command() const {
    return {"dhclient", family_, "-d",           "-sf", script(),    "-lf",
            leases(),   "-pf",   base_ + ".pid", "-cf", "/dev/null", interface_};
  }
  std::string script() const { return base_ + ".script"; }
  bool Find(const std::string& reason, std::string* address) const {
    for (absl::string_view line : absl::StrSplit(ReadFile(script() + ".events"), '\n')) {
      if (!absl::StartsWith(line, reason + " ")) continue;
      *address = std::string(line.substr(reason.size() + 1));
      return true;
    }
    return false;
  }

  Host* const host_;
  const std::string interface_, family_;
  const std::string base_;  // prefix of its files' paths
  std::unique_ptr<Process> process_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_DHCP_CLIENT_H_
