// DhcpClient: ISC's dhclient on a host, and what it was told.
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

// dhclient tells this script what it got. The one of the distribution would write the machine's /etc/resolv.conf.
inline constexpr char kDhclientScript[] = R"(#!/bin/sh
case $reason in
  BOUND | RENEW | REBIND | REBOOT) ip address replace "$new_ip_address/24" dev "$interface" ;;
  BOUND6 | RENEW6 | REBIND6) ip address replace "$new_ip6_address/64" dev "$interface" nodad ;;
  RELEASE | EXPIRE) ip address flush dev "$interface" ;;
esac
echo "$reason $new_ip_address$new_ip6_address" >>"$0.events"
)";

// ISC's dhclient of one family on one interface, with all its files in the lab.
class DhcpClient {
 public:
  DhcpClient(Lab* lab, Host* host, const std::string& interface, const std::string& family)
      : host_(host), interface_(interface), family_(family), base_(lab->Path(absl::StrCat(host->name(), ".dhclient", family))) {
    WriteFile(script(), kDhclientScript);
    if (chmod(script().c_str(), 0755) != 0) DieErrno("chmod " + script());
    WriteFile(leases(), "");
  }

  void Start() { process_ = host_->Start(Command()); }
  // Ends without a word to the server.
  void Stop() { process_->Kill(SIGKILL); }
  // Gives the lease back.
  RunResult Release() {
    Argv command = Command();
    command.insert(command.begin() + 1, "-r");
    return host_->Run(command);
  }

  // The address of the first event `reason` ("BOUND", "RENEW6"), after waiting for it; "" if it does not come.
  std::string AddressAt(const std::string& reason) {
    std::string address;
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return Find(reason, &address); }))
        << host_->name() << ": no " << reason << ", only " << ReadFile(script() + ".events");
    return address;
  }

  std::string leases() const { return base_ + ".leases"; }

 private:
  Argv Command() const {
    return {"dhclient", family_, "-d", "-sf", script(), "-lf", leases(), "-pf", base_ + ".pid", "-cf", "/dev/null", interface_};
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
  const std::string base_;  // of its files' paths
  std::unique_ptr<Process> process_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_DHCP_CLIENT_H_
