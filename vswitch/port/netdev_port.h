// NetdevPort: a port on a netdev that exists without the switch: an end of a veth pair, the TAP of
// a virtual machine, a NIC. Frames that arrive at the netdev enter the switch; the netdev sends
// what the switch transmits. README.md ("Other netdevs") describes offloads, large frames and the
// life of the port.
//
// The port uses a packet socket (packet(7)). It sets the netdev promiscuous and changes nothing
// else there.
#ifndef EOIB_VSWITCH_PORT_NETDEV_PORT_H_
#define EOIB_VSWITCH_PORT_NETDEV_PORT_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/long_frame_sender.h"
#include "vswitch/port/netdev.h"
#include "vswitch/port/port.h"
#include "vswitch/port/scatter_list.h"
#include "vswitch/port/vnet_queue.h"
#include "vswitch/port/vnet_writer.h"

namespace eoib {

class NetdevPort final : public Port {
 public:
  // Opens a port on the netdev `name` in the calling thread's network namespace. The netdev may
  // come later: the port is down until then. kFailedPrecondition if it exists and cannot be a port:
  // it is no Ethernet interface, a port of a bridge or bond, a TAP of an agent, or a bridge with
  // such a TAP; kPermissionDenied; the message says what to do.
  static absl::StatusOr<std::unique_ptr<NetdevPort>> Open(const std::string& name);
  ~NetdevPort() override = default;

  // Control, once a second: takes the netdev after it has come, and leaves it after it has gone,
  // was renamed, or became a port of another switch. The worker may run. Returns why the port is
  // down; empty if it is up.
  const std::string& Check();
  // As of the last Check. The MTU is 0 without the netdev. The worker may call mtu and up, too.
  const std::string& trouble() const { return trouble_; }
  uint32_t mtu() const { return mtu_.load(std::memory_order_relaxed); }
  bool up() const { return writer_.up(); }
  // Frames that the kernel dropped because the worker did not read them in time.
  uint64_t overruns() const { return overruns_; }

  // The port for another queue of the VES.
  std::unique_ptr<Port> MakeQueue() { return std::make_unique<VnetQueue>(this, &writer_); }

  int receive_fd() const override { return socket_.get(); }
  size_t Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                 PortReceiveCounts* counts) noexcept override;
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override {
    return writer_.Transmit(frame, strip_tag);
  }
  // The kernel cuts a super-frame itself if the netdev does not take it.
  bool TakesLarge(const Gso& gso) const noexcept override {
    return gso.type != GsoType::kUdp || takes_udp_super_frames_;
  }
  DropReason TransmitLarge(const BufferPool& pool, const Frame& frame,
                           bool strip_tag) noexcept override {
    return writer_.TransmitLarge(pool, frame, strip_tag);
  }
  size_t Flush(DropReason* reason) noexcept override { return writer_.Flush(reason); }
  // None: the stations are behind the netdev, and have MACs of their own.
  bool ServesSockets() const noexcept override { return true; }
  MacAddr mac() const override { return MacAddr(); }

 private:
  struct Arrival;

  NetdevPort(const std::string& name, UniqueFd netlink, UniqueFd packets);
  absl::Status Configure();
  std::string AgentTapIn(const NetdevInfo& info) const;
  absl::Status Refusal(const NetdevInfo& info) const;
  void Take(const NetdevInfo& info);
  void Leave();
  bool Attach(int index);
  int Read(ScatterList* list, Arrival* arrival) const noexcept;
  size_t Accept(const Arrival& arrival, ScatterList* list, BufferPool* pool, absl::Span<Frame> out,
                PortReceiveCounts* counts) noexcept;
  size_t Divide(const Arrival& arrival, const Gso& gso, const ScatterList& list, BufferPool* pool,
                absl::Span<Frame> out, PortReceiveCounts* counts) noexcept;

  // The largest frame that Divide takes: a packet of 64 KiB, its headers and two tags.
  static constexpr size_t kLargestFrame = 65536 + 64;

  const std::string name_;
  const bool takes_udp_super_frames_;  // the kernel knows them
  const UniqueFd netlink_;
  const UniqueFd socket_;
  LongFrameSender long_frames_;
  VnetWriter writer_;
  const std::unique_ptr<uint8_t[]> spill_bytes_ =
      std::make_unique_for_overwrite<uint8_t[]>(ScatterList::Spill::kSize);
  ScatterList::Spill spill_{spill_bytes_.get()};
  const std::unique_ptr<uint8_t[]> whole_;  // a super-frame that is to be divided
  std::atomic<uint32_t> mtu_{0};

  // Control's.
  int index_ = 0;  // of the netdev that the socket is bound to; 0: none
  uint64_t overruns_ = 0;
  std::string trouble_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_NETDEV_PORT_H_
