#include "gateway/uplink/wire_capture.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/wire/ethernet.h"

namespace eoib::gateway {
namespace {

constexpr int kQueueBytes = 8 << 20;

absl::Status Failed(absl::string_view what, const std::string& netdev) {
  return absl::ErrnoToStatus(errno, absl::StrCat("capture netdev ", netdev, ": ", what));
}

absl::StatusOr<UniqueFd> OpenSocket(const std::string& netdev) {
  const unsigned index = if_nametoindex(netdev.c_str());
  if (index == 0) return Failed("find it", netdev);
  UniqueFd packets(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!packets.valid()) return Failed("open a packet socket", netdev);
  const int on = 1;
  setsockopt(packets.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kQueueBytes, sizeof(kQueueBytes));
  if (setsockopt(packets.get(), SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)) != 0 ||
      setsockopt(packets.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) != 0) {
    return Failed("ask for VLAN tags and times", netdev);
  }
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(index);
  if (bind(packets.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return Failed("bind", netdev);
  return packets;
}

// The outer tag that the kernel took out of the frame, TPID and TCI, and the time of the frame.
void ReadMetadata(msghdr* message, uint32_t* tag, absl::Time* time) {
  for (cmsghdr* entry = CMSG_FIRSTHDR(message); entry != nullptr;
       entry = CMSG_NXTHDR(message, entry)) {
    if (entry->cmsg_level == SOL_SOCKET && entry->cmsg_type == SCM_TIMESTAMPNS) {
      timespec stamp;
      std::memcpy(&stamp, CMSG_DATA(entry), sizeof(stamp));
      *time = absl::TimeFromTimespec(stamp);
    } else if (entry->cmsg_level == SOL_PACKET && entry->cmsg_type == PACKET_AUXDATA) {
      tpacket_auxdata metadata;
      std::memcpy(&metadata, CMSG_DATA(entry), sizeof(metadata));
      if ((metadata.tp_status & TP_STATUS_VLAN_VALID) == 0) continue;
      const bool names_tpid = (metadata.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
      *tag = uint32_t{names_tpid ? metadata.tp_vlan_tpid : kEtherTypeVlan} << 16 |
             metadata.tp_vlan_tci;
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<WireCapture>> WireCapture::Start(const std::string& netdev,
                                                                const CaptureOptions& options) {
  if (options.filter.vport.has_value()) {
    return absl::InvalidArgumentError(
        "capture start: vport= and uplink= exclude each other; a wire has no vPorts");
  }
  absl::StatusOr<UniqueFd> packets = OpenSocket(netdev);
  if (!packets.ok()) return packets.status();
  absl::StatusOr<std::unique_ptr<PcapWriter>> writer = PcapWriter::Open(options.path);
  if (!writer.ok()) return writer.status();
  std::unique_ptr<WireCapture> capture(
      new WireCapture(options, *std::move(packets), *std::move(writer)));
  // Signals belong to the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  capture->thread_ = std::thread([capture = capture.get()] { capture->Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return capture;
}

WireCapture::WireCapture(const CaptureOptions& options, UniqueFd packets,
                         std::unique_ptr<PcapWriter> writer)
    : options_(options),
      packets_(std::move(packets)),
      stop_(MakeEventFd()),
      writer_(std::move(writer)),
      frame_(kVlanTagSize + PcapWriter::kMaxFrame) {
  report_.path = options.path;
  writer_->SetPatience([this] { return !IsStopping(); });
}

WireCapture::~WireCapture() { Stop(); }

CaptureReport WireCapture::report() const {
  absl::MutexLock lock(&mutex_);
  return report_;
}

CaptureReport WireCapture::Stop() {
  RingEventFd(stop_.get());
  if (thread_.joinable()) thread_.join();
  return report();
}

bool WireCapture::IsStopping() const {
  pollfd stop = {stop_.get(), POLLIN, 0};
  return poll(&stop, 1, 0) > 0;
}

// ---- The thread ---------------------------------------------------------------------------------

void WireCapture::Run() {
  bool last = false, good = true;
  while (!last && good) {
    pollfd fds[] = {{packets_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    poll(fds, 2, -1);
    last = fds[1].revents != 0;
    good = ReadAll();
  }
  if (const absl::Status status = writer_->Close(); !status.ok()) Publish(status);
}

// Reads what has arrived, at most a queue of small frames, so that a stop is seen. False if the
// capture has ended.
bool WireCapture::ReadAll() {
  absl::Status status;
  for (int i = 0; i < 4096 && status.ok() && !full_; ++i) {
    size_t length = 0;
    absl::Time time = absl::Now();
    const auto frame = ReadOne(&length, &time);
    if (!frame.has_value()) break;
    if (Passes(*frame)) status = Write(time, *frame, length);
  }
  status.Update(writer_->Flush());
  Publish(status);
  return status.ok() && !full_;
}

// A frame with its outer tag; nothing if none has arrived. `length` is that of the whole frame,
// which may be longer than the buffer.
absl::optional<absl::Span<const uint8_t>> WireCapture::ReadOne(size_t* length, absl::Time* time) {
  alignas(cmsghdr)
      std::array<char, CMSG_SPACE(sizeof(tpacket_auxdata)) + CMSG_SPACE(sizeof(timespec))>
          control;
  uint8_t* const begin = frame_.data() + kVlanTagSize;
  iovec part = {begin, PcapWriter::kMaxFrame - kVlanTagSize};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = recvmsg(packets_.get(), &message, MSG_TRUNC);
  if (size < 0) return absl::nullopt;  // also once after the netdev went down
  *length = static_cast<size_t>(size);
  const auto frame = absl::MakeConstSpan(begin, std::min(*length, part.iov_len));
  uint32_t tag = 0;
  ReadMetadata(&message, &tag, time);
  if (tag == 0 || frame.size() < kMacsSize) return frame;
  std::memmove(begin - kVlanTagSize, begin, kMacsSize);
  WriteWire(be32(tag), begin - kVlanTagSize + kMacsSize);
  *length += kVlanTagSize;
  return absl::MakeConstSpan(begin - kVlanTagSize, frame.size() + kVlanTagSize);
}

bool WireCapture::Passes(absl::Span<const uint8_t> frame) const {
  const CaptureFilter& filter = options_.filter;
  if (filter.IsEmpty()) return true;
  EthernetInfo info;
  if (ParseEthernet(frame, &info) != DropReason::kNone) return false;
  if (filter.vlan.has_value() && info.vid != *filter.vlan) return false;
  return !filter.mac.has_value() || info.source == *filter.mac || info.destination == *filter.mac;
}

// The frame that does not fit below the limit ends the capture.
absl::Status WireCapture::Write(absl::Time time, absl::Span<const uint8_t> frame, size_t length) {
  frame = frame.subspan(0, options_.snap_length);
  const size_t record = PcapWriter::kRecordOverhead + frame.size();
  full_ = options_.limit != 0 && writer_->bytes() + record > options_.limit;
  return full_ ? absl::OkStatus() : writer_->Write(time, frame, length);
}

void WireCapture::Publish(const absl::Status& status) {
  tpacket_stats statistics{};
  socklen_t size = sizeof(statistics);
  if (getsockopt(packets_.get(), SOL_PACKET, PACKET_STATISTICS, &statistics, &size) == 0)
    missed_ += statistics.tp_drops;
  absl::MutexLock lock(&mutex_);
  report_ = {options_.path, writer_->frames(), missed_, status, full_};
}

}  // namespace eoib::gateway
