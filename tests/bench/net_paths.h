// The networks between two hosts that net_bench compares: eoib, kernel VXLAN, Open vSwitch, and a
// bare veth.
#ifndef EOIB_TESTS_BENCH_NET_PATHS_H_
#define EOIB_TESTS_BENCH_NET_PATHS_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/lab/agent.h"
#include "tests/lab/lab.h"
#include "tests/lab/soft_fabric.h"

namespace eoib::bench {

// An interface with an address on each host.
struct NetPath {
  std::string name;
  std::string interface;
  std::string subnet;    // "10.1.0."; the hosts are .1 and .2
  std::string underlay;  // a veth below it, on both hosts; empty: none
};

// Makes all of them between the same two network namespaces; they last as long as the object.
class NetPaths {
 public:
  NetPaths();

  lab::Host* one() { return one_; }
  lab::Host* two() { return two_; }
  const std::vector<NetPath>& paths() const { return paths_; }
  const NetPath& path(const std::string& name) const;

  // Whether the programs of host one run on the first processor and those of host two on the
  // second, as on two machines, or all where the scheduler likes.
  void SeparateProcessors(bool separate);

  // From now on datagrams from host one to host two are lost at random, below `path`.
  void LoseDatagrams(const NetPath& path, int per_million);

 private:
  struct VxlanOptions {
    int mtu;       // the inner one
    bool is_wire;  // the underlay passes frames of its MTU only, no super-frames
  };
  std::string NextSubnet();
  void AddEoib();
  void AddVxlan(const std::string& name, const VxlanOptions& options);
  void AddVeth();
  void AddOpenVSwitch();
  void StartVSwitch(lab::Host* host, int self, const std::string& underlay);
  void Add(NetPath path);

  lab::Lab lab_;
  lab::SoftFabric fabric_;
  lab::Host* const one_;
  lab::Host* const two_;
  std::vector<std::unique_ptr<lab::Agent>> agents_;
  // Each host's processes of Open vSwitch.
  std::array<std::vector<std::unique_ptr<lab::Process>>, 2> vswitches_;
  std::vector<NetPath> paths_;
};

}  // namespace eoib::bench

#endif  // EOIB_TESTS_BENCH_NET_PATHS_H_
