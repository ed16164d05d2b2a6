// VSwitch: eoib-vswitchd on a host of a lab, with an ovsdb-server and a run directory of its own.
#ifndef EOIB_TESTS_OVS_VSWITCH_H_
#define EOIB_TESTS_OVS_VSWITCH_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/lab/lab.h"
#include "tests/lab/soft_fabric.h"

namespace eoib::lab {

class VSwitch {
 public:
  // Starts both servers, with those keys of other_config. All bridges are of the userspace
  // datapath. eoib-vswitchd also has the variables of `environment`.
  VSwitch(Lab* lab, SoftFabric* fabric, Host* host, const std::string& other_config = "",
          const std::vector<std::string>& environment = {});

  Host* host() const { return host_; }

  // ovs-vsctl with the words of `command`; waits until eoib-vswitchd has done it. Must succeed.
  std::string Vsctl(const std::string& command);
  RunResult TryVsctl(const std::string& command);
  std::string Appctl(const Argv& command);
  RunResult TryAppctl(const Argv& command);
  std::string Ofctl(const Argv& command);

  // Adds a bridge and sets its interface up, with 10.0.0.N/24 unless `number` is 0.
  void AddBridge(const std::string& bridge, int number);
  // The words of ovs-vsctl that add a port of VES red; `more` has further ones.
  std::string PortWords(const std::string& bridge, const std::string& port,
                        const std::string& more = "") const;
  // Adds it, and waits for its carrier.
  void AddPort(const std::string& bridge, const std::string& port, const std::string& more = "");
  // A column of an Interface, without quotes.
  std::string Of(const std::string& interface, const std::string& column);

  // Ends eoib-vswitchd, which must exit with 0, and starts it again.
  void Restart();
  // Ends it, and expects that it exits with 0.
  void Stop();
  std::string Log() const { return vswitchd_->Log(); }

 private:
  void Launch();
  Argv Words(const std::string& command) const;

  SoftFabric* const fabric_;
  Host* const host_;
  const std::string directory_;
  const std::vector<std::string> environment_;
  std::unique_ptr<Process> ovsdb_, vswitchd_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_OVS_VSWITCH_H_
