// The shared object libeoib-vhost.so: DPDK's librte_vhost as a VhostBackend, through its low-level
// access to rings. It moves no frame; it says where rings and memory are. Of the rest of the tree
// it contains headers, and the MessageRelay.
//
// librte_vhost calls back on its own threads, and holds locks of the queues meanwhile. So the
// worker calls none of its functions but those of the dirty log.
#include <fcntl.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_vhost.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "vswitch/base/unique_fd.h"
#include "vswitch/port/vhost/message_relay.h"
#include "vswitch/port/vhost/vhost_backend.h"

namespace eoib {
namespace {

// Messages of the vhost-user protocol, by number.
enum Message : int {
  kGetFeatures = 1,
  kResetOwner = 4,
  kSetMemoryTable = 5,
  kSetQueueKick = 12,
  kSetQueueCall = 13,
  kGetProtocolFeatures = 15,
  kGetQueueNumber = 17,
  kSendRarp = 19,
};

// The features that the ring code lacks, and IN_ORDER, which gains nothing.
constexpr uint64_t kDisabled = 1ULL << 10 | 1ULL << 14 |  // GUEST_UFO, HOST_UFO
                               1ULL << 34 | 1ULL << 35;   // RING_PACKED, IN_ORDER

// What the MessageRelay lets pass: several queue pairs, migration, answers to all messages, an MTU,
// the device's state.
constexpr uint64_t kProtocolFeatures =
    1ULL << VHOST_USER_PROTOCOL_F_MQ | 1ULL << VHOST_USER_PROTOCOL_F_LOG_SHMFD |
    1ULL << VHOST_USER_PROTOCOL_F_RARP | 1ULL << VHOST_USER_PROTOCOL_F_REPLY_ACK |
    1ULL << VHOST_USER_PROTOCOL_F_NET_MTU | 1ULL << VHOST_USER_PROTOCOL_F_STATUS;

class Log final : public DirtyLog {
 public:
  explicit Log(int id) : id_(id) {}
  void LogGuest(uint64_t address, uint64_t length) noexcept override {
    rte_vhost_log_write(id_, address, length);
  }
  void LogUsed(uint16_t queue, uint64_t offset, uint64_t length) noexcept override {
    rte_vhost_log_used_vring(id_, queue, offset, length);
  }

 private:
  const int id_;
};

// A socket, with the machine that is connected to it. Its connection has an id, `vid` in the
// library's interface.
class Socket {
 public:
  // `inner_path` is that of the library, where only the relay connects. See MessageRelay::Options
  // for the rest.
  Socket(std::string path, std::string inner_path, VhostDevice* device, UniqueFd listener,
         UniqueFd library)
      : path_(std::move(path)),
        inner_path_(std::move(inner_path)),
        device_(device),
        relay_({path_, std::move(listener), std::move(library), [this] { Refuse(); }}) {}

  const std::string& inner_path() const { return inner_path_; }
  // Ends the connection, and lets no further one begin.
  void Close() { relay_.Close(); }

  bool Connect(int id) {
    if (!device_->Connect()) return false;
    refused_ = false;
    id_ = id;
    ready_.clear();
    has_memory_ = false;
    request_ = 0;
    log_ = std::make_unique<Log>(id);
    return true;
  }
  void Disconnect() {
    if (id_ < 0) return;
    id_ = -1;
    std::string fault = relay_.fault();
    if (fault.empty() && request_ != 0)
      fault = VhostRequestName(request_) + ", which the vhost-user library refused";
    device_->Disconnect(fault);
  }
  bool owns(int id) const { return id_ == id; }
  // Around a message: the worker stays parked while the library handles it, whatever else the
  // library calls meanwhile.
  void BeginMessage(uint32_t request) {
    Park();
    request_ = request;
    if (request == kSetMemoryTable) has_memory_ = false;
  }
  void EndMessage() {
    if (request_ == kSetMemoryTable) has_memory_ = true;
    request_ = 0;
    // SET_FEATURES may have removed queues.
    ready_.resize(std::min<size_t>(ready_.size(), rte_vhost_get_vring_num(id_)));
    device_->Resume(State());
  }
  // Takes an acknowledgement that the program wants out of the header of a message, and puts it
  // back. In between, a refused message ends the connection, as one without acknowledgement does.
  // Otherwise, the library goes on with rings in memory that it has unmapped, and calls nothing
  // after the message.
  void TakeNeedOfReply(VhostMessageHeader* header) {
    needs_reply_ = (header->flags & VhostMessageHeader::kNeedsReply) != 0;
    header->flags &= ~VhostMessageHeader::kNeedsReply;
  }
  void ReturnNeedOfReply(VhostMessageHeader* header) const {
    const bool replied = (header->flags & VhostMessageHeader::kReply) != 0;
    if (needs_reply_ && !replied) header->flags |= VhostMessageHeader::kNeedsReply;
  }
  // Writes the place in each queue back, because the library hands it to the machine's program.
  void Park() {
    const std::vector<Virtqueue::Indices> indices = device_->Park();
    for (size_t i = 0; i < indices.size(); ++i) {
      const auto queue = static_cast<uint16_t>(i);
      rte_vhost_set_vring_base(id_, queue, indices[i].available, indices[i].used);
    }
  }
  // Takes over what the library has changed outside of a message, or in its midst.
  void Renew() {
    Park();
    if (request_ == 0) device_->Resume(State());
  }
  // A message that replaces a descriptor makes a queue unready, and ready again only after
  // AfterMessage. In between, the port must not be taken for down; QueueState sees whether the
  // queue has all that it needs.
  void SetReady(uint16_t queue, bool ready) {
    if (!ready && (request_ == kSetQueueKick || request_ == kSetQueueCall)) return;
    if (ready_.size() <= queue) ready_.resize(queue + 1u);
    ready_[queue] = ready;
    Renew();
  }
  // The guest has reset the device: its driver uses no queue any more.
  void StopQueues() { ready_.clear(); }
  void Announce(MacAddr mac) { device_->Announce(mac); }

 private:
  // The relay's thread. One line in the log until a machine is connected: another may try again and
  // again.
  void Refuse() {
    device_->Refuse();
    if (refused_.exchange(true)) return;
    std::fprintf(
        stderr,
        "vhost-user %s: refused a second virtual machine: the first one is still connected\n",
        path_.c_str());
  }

  VhostState State() const {
    VhostState state;
    rte_vhost_get_negotiated_features(id_, &state.features);
    state.features &= ~(uint64_t{1} << VHOST_USER_F_PROTOCOL_FEATURES);
    if (rte_vhost_get_mtu(id_, &state.mtu) != 0) state.mtu = 0;
    state.log = log_.get();
    rte_vhost_memory* memory = nullptr;
    if (has_memory_ && rte_vhost_get_mem_table(id_, &memory) == 0) {
      for (uint32_t i = 0; i < memory->nregions; ++i) {
        const rte_vhost_mem_region& region = memory->regions[i];
        state.memory.push_back(
            {region.guest_phys_addr, region.size,
             reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(region.host_user_addr))});
      }
    }
    std::free(memory);
    for (uint16_t i = 0; i < rte_vhost_get_vring_num(id_); ++i)
      state.queues.push_back(QueueState(i));
    return state;
  }
  VhostState::Queue QueueState(uint16_t i) const {
    VhostState::Queue queue;
    rte_vhost_vring ring{};
    if (i >= ready_.size() || !ready_[i] || rte_vhost_get_vhost_vring(id_, i, &ring) != 0)
      return queue;
    if (ring.desc == nullptr || ring.avail == nullptr || ring.used == nullptr) return queue;
    queue.ready =
        rte_vhost_get_vring_base(id_, i, &queue.indices.available, &queue.indices.used) == 0;
    queue.rings = {reinterpret_cast<uint8_t*>(ring.desc), reinterpret_cast<uint8_t*>(ring.avail),
                   reinterpret_cast<uint8_t*>(ring.used), ring.size};
    queue.notify_fd = ring.kickfd;
    queue.interrupt_fd = ring.callfd;
    return queue;
  }

  const std::string path_, inner_path_;
  VhostDevice* const device_;
  std::atomic<int> id_{-1};
  std::vector<bool> ready_;
  // Whether the library has a memory table: it must not be asked for one before.
  bool has_memory_ = false;
  bool needs_reply_ = false;
  uint32_t request_ = 0;  // of the message that the library handles
  std::unique_ptr<Log> log_;
  std::atomic<bool> refused_{false};  // a machine, since one was accepted
  MessageRelay relay_;                // last, because its thread uses the others
};

class RteVhostBackend final : public VhostBackend {
 public:
  std::string Open(const std::string& path, bool server, VhostDevice* device) override;
  void Close(const std::string& path) override;

  // The socket of a connection, or null.
  Socket* SocketOf(int id) {
    char path[1024];
    if (rte_vhost_get_ifname(id, path, sizeof(path)) != 0) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [outer, socket] : sockets_) {
      if (socket->inner_path() == path) return socket.get();
    }
    return nullptr;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Socket>> sockets_;  // by their paths
};

RteVhostBackend* backend = nullptr;  // as long as the process

// Calls `visit` with the socket that the connection belongs to, unless it was refused.
template <typename Visit>
int WithSocket(int id, Visit visit) {
  Socket* const socket = backend->SocketOf(id);
  if (socket != nullptr && socket->owns(id)) visit(socket);
  return 0;
}

// Every message that may move rings, memory or log, or ask where a queue stands.
bool Moves(uint32_t request) {
  return request != kGetFeatures && request != kGetProtocolFeatures && request != kGetQueueNumber;
}

// `message` is the header, then the bytes.
rte_vhost_msg_result BeforeMessage(int id, void* message) {
  VhostMessageHeader header;
  std::memcpy(&header, message, sizeof(header));
  uint8_t* const bytes = static_cast<uint8_t*>(message) + sizeof(header);
  WithSocket(id, [&](Socket* socket) {
    socket->TakeNeedOfReply(&header);
    if (header.request == kSendRarp) socket->Announce(MacAddr::FromWire(bytes));
    if (Moves(header.request)) socket->BeginMessage(header.request);
  });
  rte_vhost_msg_result result = RTE_VHOST_MSG_RESULT_NOT_HANDLED;
  if (header.request == kResetOwner) {
    // The protocol leaves open what this message does besides. The library would forget memory and
    // log, and leak its rings.
    WithSocket(id, [](Socket* socket) { socket->StopQueues(); });
    result = RTE_VHOST_MSG_RESULT_OK;
  } else if (header.request == kGetQueueNumber) {
    result = RTE_VHOST_MSG_RESULT_REPLY;
    const uint64_t pairs = MessageRelay::kMostPairs;
    header.size = sizeof(pairs);
    std::memcpy(bytes, &pairs, sizeof(pairs));
  }
  std::memcpy(message, &header, sizeof(header));
  return result;
}

// The library does not call it for a message that it refuses.
rte_vhost_msg_result AfterMessage(int id, void* message) {
  VhostMessageHeader header;
  std::memcpy(&header, message, sizeof(header));
  WithSocket(id, [&header](Socket* socket) {
    socket->ReturnNeedOfReply(&header);
    if (Moves(header.request)) socket->EndMessage();
  });
  std::memcpy(message, &header, sizeof(header));
  return RTE_VHOST_MSG_RESULT_NOT_HANDLED;
}
constexpr rte_vhost_user_extern_ops kMessageHandlers = {BeforeMessage, AfterMessage};

int NewConnection(int id) {
  Socket* const socket = backend->SocketOf(id);
  if (socket == nullptr || !socket->Connect(id)) return -1;
  if (rte_vhost_extern_callback_register(id, &kMessageHandlers, nullptr) == 0) return 0;
  socket->Disconnect();
  return -1;
}

void DestroyConnection(int id) {
  WithSocket(id, [](Socket* socket) { socket->Disconnect(); });
}

int QueueChanged(int id, uint16_t queue, int enable) {
  return WithSocket(id, [queue, enable](Socket* socket) { socket->SetReady(queue, enable != 0); });
}

// Only now the library knows the MTU.
int NewDevice(int id) {
  return WithSocket(id, [](Socket* socket) { socket->Renew(); });
}

// The message that ends the device, or the end of the connection, has parked the worker or does so
// here.
void DestroyDevice(int id) {
  WithSocket(id, [](Socket* socket) { socket->Park(); });
}

const rte_vhost_device_ops kCallbacks = {
    .new_device = NewDevice,
    .destroy_device = DestroyDevice,
    .vring_state_changed = QueueChanged,
    .features_changed = nullptr,  // the message that changes them does what is needed
    .new_connection = NewConnection,
    .destroy_connection = DestroyConnection,
    .guest_notified = nullptr,
    .reserved = {},
};

// A socket at which programs connect. Invalid, with errno set, if there cannot be one.
UniqueFd ListenAt(const std::string& path) {
  UniqueFd made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const bool bound =
      bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  if (!bound || listen(made.get(), 16) != 0) made.reset();
  return made;
}

// Lets the library listen at a path that nobody else can reach, and then none at all can: the relay
// has the socket itself. Returns it; invalid if that fails.
UniqueFd StartLibrary(const std::string& inner) {
  if (rte_vhost_driver_disable_features(inner.c_str(), kDisabled) != 0 ||
      rte_vhost_driver_set_protocol_features(inner.c_str(), kProtocolFeatures) != 0 ||
      rte_vhost_driver_callback_register(inner.c_str(), &kCallbacks) != 0 ||
      rte_vhost_driver_start(inner.c_str()) != 0) {
    return UniqueFd();
  }
  return UniqueFd(open(inner.c_str(), O_PATH | O_CLOEXEC));
}

std::string RteVhostBackend::Open(const std::string& path, bool server, VhostDevice* device) {
  UniqueFd listener;
  if (server && !(listener = ListenAt(path)).valid())
    return std::string("listen: ") + std::strerror(errno);
  char directory[] = "/tmp/eoib-vhost-XXXXXX";  // for us alone
  if (mkdtemp(directory) == nullptr)
    return std::string("make a directory in /tmp: ") + std::strerror(errno);
  const std::string inner = std::string(directory) + "/socket";
  std::string error;
  if (rte_vhost_driver_register(inner.c_str(), 0) != 0) {
    error = "librte_vhost has no place for it";
  } else if (UniqueFd library = StartLibrary(inner); library.valid()) {
    // A connection may come before the socket is in the map.
    const std::lock_guard<std::mutex> lock(mutex_);
    sockets_[path] =
        std::make_unique<Socket>(path, inner, device, std::move(listener), std::move(library));
  } else {
    error = std::string("start librte_vhost: ") + std::strerror(errno);
    rte_vhost_driver_unregister(inner.c_str());
  }
  unlink(inner.c_str());
  rmdir(directory);
  return error;
}

void RteVhostBackend::Close(const std::string& path) {
  std::map<std::string, std::unique_ptr<Socket>>::iterator at;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    at = sockets_.find(path);
    if (at == sockets_.end()) return;
  }
  at->second->Close();
  rte_vhost_driver_unregister(at->second->inner_path().c_str());
  at->second->Disconnect();
  const std::lock_guard<std::mutex> lock(mutex_);
  sockets_.erase(at);
}

// The environment abstraction layer is needed for the library's allocations and threads: without
// huge pages, devices, files shared with other processes, and without moving this thread to one
// processor. All machines share its memory: 256 MB, of which the kernel gives what is used. Within
// the limits of the MessageRelay, one machine takes 7 MB at most. Programs could fill the log with
// errors of the vhost-user library, so the port tells them instead.
std::string StartEnvironment() {
  std::array<const char*, 11> arguments = {"eoib-vhost",
                                           "--no-huge",
                                           "--no-shconf",
                                           "--no-pci",
                                           "--no-telemetry",
                                           "-m",
                                           "256",
                                           "--lcores=0@0",
                                           "--log-level=*:error",
                                           "--log-level=lib.vhost*:critical",
                                           nullptr};
  cpu_set_t processors;
  const bool known = sched_getaffinity(0, sizeof(processors), &processors) == 0;
  std::string lcores;
  if (known) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (!CPU_ISSET(i, &processors)) continue;
      lcores = "--lcores=0@" + std::to_string(i);
      arguments[7] = lcores.c_str();
      break;
    }
  }
  const int result = rte_eal_init(10, const_cast<char**>(arguments.data()));
  if (known) sched_setaffinity(0, sizeof(processors), &processors);
  if (result < 0) return std::string("DPDK's environment: ") + rte_strerror(rte_errno);
  rte_openlog_stream(stderr);
  return "";
}

}  // namespace
}  // namespace eoib

extern "C" __attribute__((visibility("default"))) eoib::VhostBackend* eoib_vhost_backend(
    std::string* error) noexcept {
  if (eoib::backend != nullptr) return eoib::backend;
  *error = eoib::StartEnvironment();
  if (error->empty()) eoib::backend = new eoib::RteVhostBackend();
  return eoib::backend;
}
