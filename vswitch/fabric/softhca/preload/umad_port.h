// UmadPort: the port behind libeoib-umad.so. It connects a link to the subnet, the kernel's MAD
// handling (umad_agents.h) and the descriptors on which programs wait.
//
// It manages its port (PortUse::kManage) and never owns it. So a program can send MADs beside a
// running agent, or beside its own queue pairs on libeoib-verbs.so.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_UMAD_PORT_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_UMAD_PORT_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/preload/umad_agents.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// Any thread. Its own thread retries requests and wakes readers.
class UmadPort final : public PortSink {
 public:
  // Returns once the port is configured.
  static absl::StatusOr<std::unique_ptr<UmadPort>> Open(std::unique_ptr<SubnetLink> link,
                                                        const std::string& name);
  ~UmadPort() override;

  PortConfig config() const;

  // Opens a file. Its number is a descriptor, readable while Receive has a MAD. -1 with errno if no
  // descriptor is left.
  int OpenFile();
  // This and all members below return errno values. EBADF: no such file.
  int CloseFile(int file);
  int Register(int file, const UmadAgents::Registration& registration, int* agent);
  int Unregister(int file, int agent);
  int Send(int file, const UmadPacket& packet, absl::Duration timeout, int retries);
  // Takes the next received MAD. EWOULDBLOCK: there is none. ENOSPC: it is longer than `room`; it
  // stays in the queue, and *packet shows its length.
  int Receive(int file, size_t room, UmadPacket* packet);

  void OnPortConfig(const PortConfig& config) override;
  void OnMad(Lid source, absl::Span<const uint8_t> mad) override;

 private:
  UmadPort(std::unique_ptr<SubnetLink> link, std::string name);
  absl::Status Start();
  void Background();
  void SendOut(const std::vector<UmadAgents::Outgoing>& outgoing) ABSL_LOCKS_EXCLUDED(mutex_);
  void WakeReaders() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<SubnetLink> link_;
  const std::string name_;
  const MonotonicClock clock_;

  mutable absl::Mutex mutex_;
  PortConfig config_ ABSL_GUARDED_BY(mutex_);
  bool configured_ ABSL_GUARDED_BY(mutex_) = false;
  UmadAgents agents_ ABSL_GUARDED_BY(mutex_);
  // Eventfds, readable while MADs are queued.
  std::map<int, UniqueFd> files_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // For the thread: MADs to send, or a new deadline.
  bool has_work_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread background_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_UMAD_PORT_H_
