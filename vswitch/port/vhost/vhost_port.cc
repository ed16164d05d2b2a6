#include "vswitch/port/vhost/vhost_port.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/base/check.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

absl::Status Refusal(const std::string& path, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("use the socket ", path, ": ", why));
}

// Whether a program listens at the socket.
bool IsListening(const std::string& path) {
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

// Makes way for a server at `path`.
absl::Status RemoveStaleSocket(const std::string& path) {
  struct stat status;
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  if (stat(directory.c_str(), &status) != 0) {
    return Refusal(path, absl::StrCat("directory ", directory, ": ", strerror(errno),
                                      "; make it, or change socket"));
  }
  if (lstat(path.c_str(), &status) != 0) return absl::OkStatus();
  if (!S_ISSOCK(status.st_mode))
    return Refusal(path, "there is a file that is no socket; remove it, or change socket");
  if (IsListening(path)) {
    return Refusal(
        path,
        "another program listens there. If it is the virtual machine (QEMU's chardev has "
        "server=on), set socket_mode = \"client\"; else stop that program, or change socket");
  }
  if (unlink(path.c_str()) == 0) return absl::OkStatus();
  return Refusal(path, absl::StrCat("remove the socket of a former process: ", strerror(errno)));
}

UniqueFd CopyOf(int fd) { return UniqueFd(fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

// Edge-triggered, because another program holds the descriptor, too: reading it may block.
void Watch(int fd, int epoll, uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = tag;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

absl::StatusOr<std::unique_ptr<VhostPort>> VhostPort::Open(const Options& options,
                                                           VhostBackend* backend) {
  GuestAccess::CatchLosses();
  if (options.server) {
    if (absl::Status status = RemoveStaleSocket(options.socket); !status.ok()) return status;
  }
  const absl::StatusOr<Interrupts*> interrupts = Interrupts::OfProcess();
  if (!interrupts.ok()) return interrupts.status();
  auto port = std::unique_ptr<VhostPort>(new VhostPort(options, backend, *interrupts));
  const std::string error = backend->Open(options.socket, options.server, port.get());
  if (!error.empty()) return Refusal(options.socket, error);
  return port;
}

VhostPort::VhostPort(const Options& options, VhostBackend* backend, Interrupts* interrupts)
    : options_(options),
      backend_(backend),
      interrupts_(interrupts),
      ready_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(MakeEventFd()),
      whole_(new uint8_t[kLargestFrame]) {
  Watch(wake_.get(), ready_.get(), 0);
}

VhostPort::~VhostPort() {
  backend_->Close(options_.socket);
  if (options_.server) unlink(options_.socket.c_str());
}

// ---- The library's threads ----------------------------------------------------------------------

bool VhostPort::Connect() {
  absl::MutexLock lock(&mutex_);
  if (connected_) return false;
  connected_ = true;
  heard_ = false;
  fault_.clear();
  return true;
}

void VhostPort::Refuse() {
  absl::MutexLock lock(&mutex_);
  ++refused_;
}

void VhostPort::Disconnect(const std::string& fault) {
  Park();
  absl::MutexLock lock(&mutex_);
  connected_ = false;
  fault_ = fault;
  lost_->store(false);
  Attach(VhostState());
  GuestAccess::BeginOnThread(nullptr);
}

std::vector<Virtqueue::Indices> VhostPort::Park() {
  gate_.Park();
  lost_->SetRegions(GuestMemory());
  GuestAccess::BeginOnThread(lost_);  // the library reads rings while it handles messages
  std::vector<Virtqueue::Indices> indices;
  for (const Queue& queue : queues_) indices.push_back(queue.ring.indices());
  return indices;
}

void VhostPort::Resume(const VhostState& state) {
  EOIB_CHECK(gate_.parked());  // else the worker may be inside
  bool any;
  {
    absl::MutexLock lock(&mutex_);
    heard_ = true;
    Attach(state);
    any = ready_pairs_ != 0;
  }
  if (!any) return;
  lost_->SetRegions(memory_);
  gate_.Resume();
  RingEventFd(wake_.get());
}

void VhostPort::Announce(MacAddr mac) {
  announced_.store(mac.ToUint64(), std::memory_order_relaxed);
  RingEventFd(wake_.get());
}

// Takes over the state of the device, while the worker is parked.
void VhostPort::Attach(const VhostState& state) {
  for (const Queue& queue : queues_) {
    // The description of the descriptor is shared with the machine's program, so closing it would
    // not end the watch.
    if (queue.notify.valid()) epoll_ctl(ready_.get(), EPOLL_CTL_DEL, queue.notify.get(), nullptr);
  }
  queues_.clear();
  memory_ = GuestMemory(state.memory);
  features_.store(state.features, std::memory_order_relaxed);
  faulty_.store(lost_->load());
  header_size_ =
      (state.features & (VhostFeature::kVersion1 | VhostFeature::kMergeable)) != 0 ? 12 : 10;
  const Virtqueue::Features features{
      .indirect = (state.features & VhostFeature::kIndirect) != 0,
      .event_index = (state.features & VhostFeature::kEventIndex) != 0};
  ready_pairs_ = 0;
  while (2 * ready_pairs_ + 1 < state.queues.size() && state.queues[2 * ready_pairs_].ready &&
         state.queues[2 * ready_pairs_ + 1].ready) {
    ++ready_pairs_;
  }
  for (size_t i = 0; i < 2 * ready_pairs_; ++i) {
    const VhostState::Queue& from = state.queues[i];
    Queue queue;
    queue.ring.Attach(static_cast<uint16_t>(i), from.rings, features, from.indices, &memory_,
                      (state.features & VhostFeature::kLog) != 0 ? state.log : nullptr);
    if (i % 2 == 0) queue.ring.DisableNotification();
    queue.notify = i % 2 == 0 ? UniqueFd() : CopyOf(from.notify_fd);
    if (queue.notify.valid()) Watch(queue.notify.get(), ready_.get(), kNotification);
    queue.interrupt = CopyOf(from.interrupt_fd);
    queues_.push_back(std::move(queue));
  }
  NoteFaults();
  in_use_.store(ready_pairs_ != 0);
  if (ready_pairs_ == 0) {
    has_chains_.store(false);
    empty_notifications_.store(0);
  }
  shares_memory_ = !memory_.empty();
  guest_mtu_ = state.mtu;
}

// ---- Control ------------------------------------------------------------------------------------

std::string VhostPort::Trouble() const {
  absl::MutexLock lock(&mutex_);
  if (!connected_ && !fault_.empty()) {
    return absl::StrCat(
        "the connection of the virtual machine's program was ended, because it sent ", fault_,
        "; start the machine again");
  }
  if (!connected_) {
    struct stat status;
    if (options_.server) {
      return "no virtual machine has connected to its socket; start it. A machine that was "
             "connected to a former agent needs reconnect=1 in its chardev, or else a restart";
    }
    if (stat(options_.socket.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) {
      return absl::StrCat(
          "no virtual machine accepts the connection to ", options_.socket,
          "; start it, or if its chardev has no server=on, set socket_mode = \"server\"");
    }
    return absl::StrCat("there is no socket ", options_.socket,
                        "; start the virtual machine, with server=on in its chardev, or set "
                        "socket_mode = \"server\"");
  }
  if (lost_->load()) {
    return "the virtual machine's program has shrunk the file of the memory that it shares, or the "
           "file system of that file is full; the vPort is down until the machine starts again";
  }
  if (faulty_.load()) {
    for (const Queue& queue : queues_) {
      if (const std::string fault = queue.ring.fault(); !fault.empty()) {
        return absl::StrCat("the guest's driver breaks the rules of virtio: ", fault,
                            "; the vPort is down until the guest resets the interface");
      }
    }
  }
  // QEMU itself notifies each queue once at the start.
  const bool looks_empty = !has_chains_.load() && empty_notifications_.load() > 2 * ready_pairs_;
  if (ready_pairs_ != 0 && !looks_empty) return "";
  if (ready_pairs_ != 0 || (features_.load(std::memory_order_relaxed) != 0 && !shares_memory_)) {
    return "the virtual machine does not share its memory; give QEMU -object "
           "memory-backend-memfd,share=on and -machine memory-backend= with its id, or libvirt "
           "<memoryBacking> with <access mode='shared'/>";
  }
  if (!options_.server && !heard_) {
    return absl::StrCat("nothing answers at ", options_.socket,
                        "; if another agent uses the same socket, give each vPort its own; else "
                        "restart the virtual machine");
  }
  return "the virtual machine is connected, but its guest has not started the interface";
}

std::string VhostPort::Describe() const {
  absl::MutexLock lock(&mutex_);
  std::string text =
      absl::StrCat("vhost-user ", options_.socket, options_.server ? "" : " (client)");
  if (ready_pairs_ != 0) {
    const uint64_t features = features_.load(std::memory_order_relaxed);
    std::vector<absl::string_view> names;
    if ((features & VhostFeature::kGuestChecksum) != 0) names.push_back("checksum");
    if (TakesLarge({GsoType::kTcp, 1})) names.push_back("TSO");
    if ((features & VhostFeature::kMergeable) != 0) names.push_back("mergeable buffers");
    absl::StrAppend(&text, ", ", ready_pairs_, ready_pairs_ == 1 ? " queue pair" : " queue pairs");
    if (!names.empty()) absl::StrAppend(&text, ", ", absl::StrJoin(names, ", "));
    if ((features & VhostFeature::kLog) != 0) text += ", migrating";
    const uint32_t mtu = largest_.load(std::memory_order_relaxed) - kMtuOverhead;
    if (guest_mtu_ != 0) absl::StrAppend(&text, ", MTU ", guest_mtu_);
    if (guest_mtu_ > mtu) absl::StrAppend(&text, " (more than ", mtu, ": set host_mtu=", mtu, ")");
  }
  if (refused_ != 0)
    absl::StrAppend(&text, ", ", refused_,
                    refused_ == 1 ? " further machine refused" : " further machines refused",
                    ": give each its own socket");
  return text;
}

}  // namespace eoib
