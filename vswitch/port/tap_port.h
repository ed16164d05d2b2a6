// TapPort: a port on a Linux TAP netdev. Frames that the kernel transmits on the netdev enter the switch; the netdev receives
// what the switch transmits. README.md ("TAPs") describes offloads and the life of the netdev.
#ifndef EOIB_VSWITCH_PORT_TAP_PORT_H_
#define EOIB_VSWITCH_PORT_TAP_PORT_H_

#include <net/if.h>
#include <sys/uio.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/coalescer.h"
#include "vswitch/port/port.h"
#include "vswitch/port/scatter_list.h"
#include "vswitch/port/tap_set.h"
#include "vswitch/port/vnet_header.h"

namespace eoib {

class TapPort final : public Port {
 public:
  struct Options {
    std::string name;  // of the netdev, 1 to 15 bytes
    MacAddr mac;
    int mtu = 1500;
    bool super_frames = false;  // the kernel may hand over super-frames
    TapSet* set = nullptr;      // the set that has this port while it lives, or null
  };

  // Makes the netdev in the calling thread's network namespace, sets its MAC and MTU, and sets it up, without carrier until
  // SetLinkUp. Takes over a TAP of that name and MAC that no process has open. kAlreadyExists if the name is taken otherwise;
  // kUnavailable without /dev/net/tun; the message says what to do.
  static absl::StatusOr<std::unique_ptr<TapPort>> Open(const Options& options);
  ~TapPort() override;

  // For control. They find the netdev in its current network namespace, under its current name.
  absl::Status SetLinkUp(bool up);  // the carrier
  absl::Status SetMtu(int mtu);
  // Limits the kernel's super-frames to those that Receive takes at the VES MTU `mtu`. Does nothing without
  // Options::super_frames.
  absl::Status LimitSuperFrames(uint32_t mtu);
  // The netdev's current name. Nothing if it was deleted, or is in another network namespace than the calling thread.
  absl::optional<std::string> NameHere() const;

  int receive_fd() const override { return tap_.get(); }
  size_t Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out, PortReceiveCounts* counts) noexcept override;
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override;
  bool TakesLarge(const Gso& gso) const noexcept override { return gso.type != GsoType::kUdp || takes_udp_super_frames_; }
  DropReason TransmitLarge(const BufferPool& pool, const Frame& frame, bool strip_tag) noexcept override;
  size_t Flush(DropReason* reason) noexcept override;
  MacAddr mac() const override { return mac_; }

 private:
  TapPort(const Options& options, UniqueFd tap, UniqueFd nothing);
  absl::Status Configure(const Options& options);
  absl::Status Offload(bool super_frames);
  absl::StatusOr<UniqueFd> SocketBesideNetdev(int family, int type) const;
  absl::Status Control(int socket, unsigned long command, ifreq* request, absl::string_view what) const;
  void StopIfDeleted(int error) noexcept;
  bool IsTooLarge(uint32_t length, const Gso& gso, uint32_t mtu) const noexcept;
  static bool ReadChecksumRequest(const VnetHeader& header, Frame* frame) noexcept;
  static VnetHeader HeaderFor(const Frame& frame) noexcept;
  DropReason WriteLarge(const BufferPool& pool, const Frame& frame) noexcept;
  void WriteJoined() noexcept;
  DropReason Write(const ChecksumRequest& checksum, absl::Span<const uint8_t> frame, VnetHeader header) noexcept;
  DropReason WriteParts(absl::Span<const iovec> parts) noexcept;

  const std::string name_;
  const MacAddr mac_;
  TapSet* const set_;                                // or null
  const std::unique_ptr<ScatterList::Spill> spill_;  // null: the kernel hands over no super-frames
  bool takes_udp_super_frames_ = false;              // the kernel knows them; set by Open
  const UniqueFd tap_;
  const UniqueFd nothing_;            // /dev/null: replaces the TAP's descriptor when the netdev is deleted
  std::atomic<uint32_t> largest_{0};  // largest frame for the netdev, from the destination MAC on, with tag
  Coalescer coalescer_;
  size_t lost_ = 0;  // joined frames lost in failed writes since the last Flush
  DropReason lost_reason_ = DropReason::kNone;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_TAP_PORT_H_
