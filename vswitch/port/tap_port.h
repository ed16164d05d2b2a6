// TapPort: a TAP netdev of the Linux kernel as a port. What the kernel transmits on the netdev enters the switch; what the
// switch transmits is received by the netdev.
//
// Checksums are offloaded both ways (virtio_net_hdr, TUN_F_CSUM): the kernel hands over TCP and UDP with an unfinished sum, and
// takes such frames. TCP segments of one batch are joined for the kernel (tcp_coalescer.h). Segmentation is not offered: a
// frame is a frame. The netdev goes with the port, but outlives a process that is killed: its successor finds it by name and
// MAC, with the addresses, the bridge and the macvlans that it had, and nobody has to set them up again. It may be moved to
// another network namespace (a container's), renamed there, set down and up: the port goes on. If it is deleted under the port,
// say with such a namespace, the port is down for good.
#ifndef EOIB_VSWITCH_PORT_TAP_PORT_H_
#define EOIB_VSWITCH_PORT_TAP_PORT_H_

#include <net/if.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "vswitch/fabric/unique_fd.h"
#include "vswitch/port/port.h"
#include "vswitch/port/tap_set.h"
#include "vswitch/port/tcp_coalescer.h"

namespace eoib {

class TapPort final : public Port {
 public:
  struct Options {
    std::string name;  // of the netdev: 1 to 15 bytes, exactly as it is to be
    MacAddr mac;
    int mtu = 1500;
    TapSet* set = nullptr;  // which this port is in as long as it lives
  };

  // Makes the netdev in the calling thread's network namespace, sets MAC and MTU, and sets it up, without carrier until
  // SetLinkUp. A TAP of that name and MAC that no process has open is taken over as it is. kAlreadyExists if the name is taken
  // otherwise; kUnavailable without /dev/net/tun; the message says what to do.
  static absl::StatusOr<std::unique_ptr<TapPort>> Open(const Options& options);
  ~TapPort() override;

  // Control. Both reach the netdev in whatever network namespace and under whatever name it is by now.
  absl::Status SetLinkUp(bool up);  // the carrier
  absl::Status SetMtu(int mtu);
  // What the netdev is called now; nothing if it is deleted, or in another network namespace than the calling thread.
  absl::optional<std::string> NameHere() const;

  const std::string& name() const override { return name_; }
  int receive_fd() const override { return tap_.get(); }
  size_t Receive(BufferPool* pool, absl::Span<Frame> out, PortReceiveCounts* counts) noexcept override;
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override;
  size_t Flush(DropReason* reason) noexcept override;
  MacAddr mac() const override { return mac_; }

 private:
  // struct virtio_net_hdr in host order, which is what a TAP speaks (virtio 1.1 §5.1.6). linux/virtio_net.h is no C++.
  struct VnetHeader {
    uint8_t flags = 0;
    uint8_t gso_type = 0;
    uint16_t header_length = 0;
    uint16_t gso_size = 0;
    uint16_t checksum_start = 0;
    uint16_t checksum_offset = 0;
  };

  TapPort(const Options& options, UniqueFd tap, UniqueFd nothing);
  absl::Status Configure(const Options& options);
  absl::StatusOr<UniqueFd> SocketBesideNetdev() const;
  absl::Status Control(int socket, unsigned long command, ifreq* request, absl::string_view what) const;
  void StopIfDeleted(int error) noexcept;
  static bool ReadChecksumRequest(const VnetHeader& header, Frame* frame) noexcept;
  DropReason TransmitStripped(const Frame& frame) noexcept;
  void WriteJoined() noexcept;
  DropReason Write(const ChecksumRequest& checksum, absl::Span<const uint8_t> frame, VnetHeader header) noexcept;

  const std::string name_;
  const MacAddr mac_;
  TapSet* const set_;  // or null
  const UniqueFd tap_;
  const UniqueFd nothing_;            // /dev/null: takes the TAP's place when somebody deletes the netdev
  std::atomic<uint32_t> largest_{0};  // frame that the netdev takes, from the destination MAC on, tag included
  TcpCoalescer coalescer_;
  size_t lost_ = 0;  // joined frames that a write refused, since the last Flush
  DropReason lost_reason_ = DropReason::kNone;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_TAP_PORT_H_
