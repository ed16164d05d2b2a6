// IbSubnet: an InfiniBand subnet of a virtual machine: the channel adapters of the kernel module simib (tests/vm/simib) on one
// switch, and Debian's OpenSM. Adapters are known by their number: adapter K is the device simibK.
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

// A partition as OpenSM has it.
struct IbPartition {
  static constexpr int kAll = -1;  // every adapter

  uint16_t pkey = 0x8001;          // the membership bit is ignored
  std::vector<int> full = {kAll};  // adapters
  std::vector<int> limited;
  bool ipoib = true;  // has IPoIB's broadcast group from the start
  int mtu = 4096;     // of that group

  friend bool operator==(const IbPartition&, const IbPartition&) = default;
};

struct IbSubnetOptions {
  int adapters = 4;
  int mtu = 4096;      // that ports are capable of
  bool async = false;  // sends complete after post_send has returned
  int lmc = 0;         // a port has 2^lmc LIDs
  // Without one of P_Key 0x7fff, everybody is a limited member of that, and only the subnet manager's port a full one: enough
  // to speak to the subnet administrator, and to nobody else.
  std::vector<IbPartition> partitions = {IbPartition{0xffff}};
};

// What fails here is the set-up: it ends the test program and says why (lab::Die). Needs root, in a virtual machine: the
// module is one for the whole kernel. The environment variable EOIB_SIMIB names simib.ko. Subnet managers that run here are its
// own and end with it. One thread, which must outlive everything started.
class IbSubnet {
 public:
  // Loads the modules (simib, ib_uverbs, ib_umad, ib_ipoib). `directory` exists and is the subnet's: logs, OpenSM's files.
  IbSubnet(std::string directory, const IbSubnetOptions& options);
  // Ends the subnet managers and unloads simib.
  ~IbSubnet();
  IbSubnet(const IbSubnet&) = delete;
  IbSubnet& operator=(const IbSubnet&) = delete;

  // One subnet manager, on adapter 0, and Wait().
  void Start();

  // The module simib.
  void Load();
  // With whoever has devices open; the kernel tells them. Subnet managers end with it.
  void Unload();
  bool loaded() const { return loaded_; }

  // Subnet managers, one at most on each adapter. Of several the one of the highest priority is master; it hands over.
  void StartSm(int adapter, int priority = 0);
  // SIGTERM, and returns when it is gone.
  void StopSm(int adapter);
  // SIGKILL returns when it is gone; SIGSTOP and SIGCONT at once.
  void KillSm(int adapter, int signal);
  bool SmAlive(int adapter);
  std::string SmLog(int adapter) const;

  // Gives a port another LID, by a restart of the one subnet manager, which then finds another in its file.
  void ReassignLid(int adapter, uint16_t lid);

  // Tells the subnet managers of other partitions. They are in force when Wait() returns.
  void SetPartitions(const std::vector<IbPartition>& partitions);
  const std::vector<IbPartition>& partitions() const { return options_.partitions; }
  // The same by a file of OpenSM's (opensm(8), "PARTITION CONFIGURATION"), of whose partitions Wait() knows nothing.
  void SetPartitionFile(const std::string& text);

  // Waits until every port with its cable in is active and has the P_Keys it should, and the subnet administrator answers.
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
  // The IPoIB interface of that adapter without a P_Key of its own, in the network namespace of the caller; "" if there is
  // none.
  static std::string IpoibInterface(int adapter);

  // Knobs.
  void SetCable(int adapter, bool in);
  // Of the datagrams that an adapter sends, one in so many is lost; 0: none.
  void SetLoss(int adapter, int one_in);
  // Datagrams dropped at this adapter, or at the switch on the way to or from it, by reason.
  static std::map<std::string, uint64_t> Drops(int adapter);

  int adapters() const { return options_.adapters; }
  const std::string& directory() const { return directory_; }

 private:
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  std::string SmDirectory(int adapter) const;
  void WritePartitions();
  void TellManagers();
  std::map<uint16_t, uint16_t> ExpectedPKeys(int adapter) const;
  // What Wait() still waits for, "" if for nothing.
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
