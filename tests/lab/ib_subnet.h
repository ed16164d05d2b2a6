// IbSubnet: an InfiniBand subnet inside a virtual machine: the channel adapters of the kernel
// module simib (tests/vm/simib) on one switch, managed by Debian's OpenSM. Adapter K is the device
// simibK.
#ifndef EOIB_TESTS_LAB_IB_SUBNET_H_
#define EOIB_TESTS_LAB_IB_SUBNET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/lab/process.h"

namespace eoib::lab {

// A partition of OpenSM's configuration.
struct IbPartition {
  static constexpr int kAll = -1;  // every adapter

  uint16_t pkey = 0x8001;          // the membership bit is ignored
  std::vector<int> full = {kAll};  // adapters
  std::vector<int> limited;
  bool ipoib = true;  // OpenSM creates IPoIB's broadcast group at its start
  int mtu = 4096;     // of that group

  friend bool operator==(const IbPartition&, const IbPartition&) = default;
};

struct IbSubnetOptions {
  int adapters = 4;
  int mtu = 4096;      // the ports' largest MTU
  bool async = false;  // sends complete after post_send has returned
  int lmc = 0;         // a port has 2^lmc LIDs
  // If none has P_Key 0x7fff, all ports become limited members of that partition, and only the
  // subnet manager's port a full one: they can talk to the SA, but not to each other.
  std::vector<IbPartition> partitions = {IbPartition{0xffff}};
};

// A failure here is one of the set-up, and ends the test program (lab::Die). Needs root and a
// virtual machine, since the module serves the whole kernel. The environment variable EOIB_SIMIB
// names simib.ko. The object owns its subnet managers. One thread, which must outlive everything
// that it starts.
class IbSubnet {
 public:
  // Loads the modules simib, ib_uverbs, ib_umad and ib_ipoib. `directory` exists; it gets the logs
  // and OpenSM's files.
  IbSubnet(std::string directory, const IbSubnetOptions& options);
  // Stops the subnet managers and unloads simib.
  ~IbSubnet();
  IbSubnet(const IbSubnet&) = delete;
  IbSubnet& operator=(const IbSubnet&) = delete;

  // Starts one subnet manager, on adapter 0, and calls Wait().
  void Start();

  // Loads the module simib.
  void Load();
  // Unloads it, even if programs have devices open: the kernel tells them. Kills the subnet
  // managers, too.
  void Unload();
  bool loaded() const { return loaded_; }

  // Starts a subnet manager, at most one on each adapter. The one with the highest priority becomes
  // master.
  void StartSm(int adapter, int priority = 0);
  // Sends SIGTERM and waits until it has ended.
  void StopSm(int adapter);
  // Sends a signal. SIGKILL returns when it has ended, SIGSTOP when it stands; SIGCONT returns at
  // once.
  void KillSm(int adapter, int signal);
  bool SmAlive(int adapter);
  std::string SmLog(int adapter) const;

  // Gives a port another LID: edits the LID file of the only subnet manager and restarts it.
  void ReassignLid(int adapter, uint16_t lid);

  // Makes the subnet managers apply other partitions. They are in force when Wait() returns.
  void SetPartitions(const std::vector<IbPartition>& partitions);
  const std::vector<IbPartition>& partitions() const { return options_.partitions; }
  // The same with the text of OpenSM's file (opensm(8), "PARTITION CONFIGURATION"). Wait() does not
  // check these P_Keys.
  void SetPartitionFile(const std::string& text);

  // Waits until every connected port is active and has its P_Keys, and the SA answers.
  void Wait();

  // Ports.
  static std::string Device(int adapter);
  static uint64_t PortGuid(int adapter);
  // A file below /sys/class/infiniband/simibK/ports/1, without the newline; "" if there is none.
  static std::string Port(int adapter, const std::string& file);
  static uint16_t Lid(int adapter);
  // 1 down, 2 initialize, 3 armed, 4 active; 0 without the device.
  static int State(int adapter);
  static uint16_t SmLid(int adapter);
  // The table's valid entries, by index.
  static std::map<int, uint16_t> PKeys(int adapter);
  // The parent IPoIB interface (for P_Key index 0) of that adapter, in the caller's network
  // namespace; "" if there is none.
  static std::string IpoibInterface(int adapter);

  // Knobs.
  void SetCable(int adapter, bool in);
  // Drops one in `one_in` of the datagrams that the adapter sends; 0: none.
  void SetLoss(int adapter, int one_in);
  // Datagrams dropped at this adapter, or by the switch on the way to or from it, by reason.
  static std::map<std::string, uint64_t> Drops(int adapter);

  int adapters() const { return options_.adapters; }
  const std::string& directory() const { return directory_; }

 private:
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  std::string SmDirectory(int adapter) const;
  void WritePartitions();
  void ReloadPartitions();
  std::map<uint16_t, uint16_t> ExpectedPKeys(int adapter) const;
  // Describes the condition for which Wait() still waits; "" if there is none.
  std::string Missing() const;
  std::string MissingOfPort(int adapter) const;
  bool SaAnswers() const;

  const std::string directory_;
  IbSubnetOptions options_;
  bool loaded_ = false;
  std::map<int, bool> cable_out_;
  std::map<int, std::unique_ptr<Process>> sms_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_IB_SUBNET_H_
