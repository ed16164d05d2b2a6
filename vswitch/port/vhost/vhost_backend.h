// The seam between a vhost-user port and the library that speaks the vhost-user protocol with the
// virtual machine's program (QEMU). The library is DPDK's librte_vhost, behind these two classes in
// a shared object of its own (rte_vhost_backend.cc), so that an agent without vhost-user ports
// loads nothing of DPDK.
//
// Both sides are built from one tree: the shared object is no stable interface.
#ifndef EOIB_VSWITCH_PORT_VHOST_VHOST_BACKEND_H_
#define EOIB_VSWITCH_PORT_VHOST_VHOST_BACKEND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "vswitch/base/address.h"
#include "vswitch/port/vhost/guest_memory.h"
#include "vswitch/port/vhost/virtqueue.h"

namespace eoib {

// Bits of the features that the guest's driver has accepted (virtio 1.1 §5.1.3 and §6).
struct VhostFeature {
  // The guest takes frames with unfinished checksums.
  static constexpr uint64_t kGuestChecksum = uint64_t{1} << 1;
  static constexpr uint64_t kGuestTso4 = uint64_t{1} << 7;
  static constexpr uint64_t kGuestTso6 = uint64_t{1} << 8;
  static constexpr uint64_t kGuestEcn = uint64_t{1} << 9;
  static constexpr uint64_t kMergeable = uint64_t{1} << 15;
  static constexpr uint64_t kLog = uint64_t{1} << 26;  // the guest migrates
  static constexpr uint64_t kIndirect = uint64_t{1} << 28;
  static constexpr uint64_t kEventIndex = uint64_t{1} << 29;
  static constexpr uint64_t kVersion1 = uint64_t{1} << 32;
};

// A connection, as the library knows it.
struct VhostState {
  struct Queue {
    bool ready = false;      // the guest's driver uses it
    Virtqueue::Rings rings;  // meaningful if ready
    Virtqueue::Indices indices;
    int notify_fd = -1;     // readable: the guest has made a chain available
    int interrupt_fd = -1;  // to write to, for an interrupt; or none
  };

  uint64_t features = 0;                    // 0: the guest's driver has not started
  std::vector<GuestMemory::Region> memory;  // empty: the machine shares none
  std::vector<Queue> queues;                // even: to the guest; odd: from it
  uint16_t mtu = 0;                         // that the machine tells its guest; 0: none
  DirtyLog* log = nullptr;                  // valid until the next Park
};

// The port's side. The library's threads call it, one at a time.
class VhostDevice {
 public:
  virtual ~VhostDevice() = default;
  // A machine has connected. False: there is one already, and the library closes this connection.
  virtual bool Connect() = 0;
  // A further machine wanted to connect meanwhile. Any thread.
  virtual void Refuse() = 0;
  // `fault`: what the machine's program did, if the connection was ended for it.
  virtual void Disconnect(const std::string& fault) = 0;
  // Waits until the worker is outside of the guest's memory, where it stays until Resume. Returns
  // where the queues stand; empty if none is in use.
  virtual std::vector<Virtqueue::Indices> Park() = 0;
  virtual void Resume(const VhostState& state) = 0;
  // The guest has arrived with this MAC after a migration.
  virtual void Announce(MacAddr mac) = 0;
};

class VhostBackend {
 public:
  virtual ~VhostBackend() = default;
  // Listens at the socket `path` as a server, or connects to it until it succeeds. Returns why not,
  // or nothing. `device` stays valid until Close, after which the library does not call it. Control
  // calls both.
  virtual std::string Open(const std::string& path, bool server, VhostDevice* device) = 0;
  virtual void Close(const std::string& path) = 0;
};

// The shared object exports this function. It returns the backend, which lasts as long as the
// process; or null, with the reason in *error.
inline constexpr char kVhostBackendFunction[] = "eoib_vhost_backend";
using VhostBackendFunction = VhostBackend* (*)(std::string* error);

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VHOST_VHOST_BACKEND_H_
