// TapPort: a port on a Linux TAP netdev. Frames that the kernel transmits on the netdev enter the
// switch; the netdev receives what the switch transmits. README.md ("TAPs") describes offloads and
// the life of the netdev.
#ifndef EOIB_VSWITCH_PORT_TAP_PORT_H_
#define EOIB_VSWITCH_PORT_TAP_PORT_H_

#include <net/if.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/interface_state.h"
#include "vswitch/port/open_tap.h"
#include "vswitch/port/port.h"
#include "vswitch/port/tap_finder.h"
#include "vswitch/port/tap_reader.h"
#include "vswitch/port/vnet_queue.h"
#include "vswitch/port/vnet_writer.h"

namespace eoib {

class TapPort final : public Port {
 public:
  struct Options {
    std::string name;  // of the netdev, 1 to 15 bytes
    MacAddr mac;
    int mtu = 1500;
    bool super_frames = false;  // the kernel may hand over super-frames
    std::string alias;  // "eoib:...": the netdev's identity, which outlives its name. Empty: none
    bool up = true;     // set it up; else leave it as it is
    TapFinder* finder = nullptr;  // looks for the alias in other network namespaces, too
  };

  // Makes the netdev in the calling thread's network namespace, sets its MAC and MTU, and sets it
  // up, without carrier until SetLinkUp. The kernel gives the netdev no IPv6 address by itself.
  // Takes over a TAP that no process has open: one with that alias, whatever its name and namespace
  // are now, or one of that name, which an operator made. kAlreadyExists if the name is taken
  // otherwise; kUnavailable without /dev/net/tun; kPermissionDenied; the message says what to do.
  static absl::StatusOr<std::unique_ptr<TapPort>> Open(const Options& options);
  // The netdev stays, without carrier (TapSet::Discard deletes it).
  ~TapPort() override = default;

  // Whether the netdev was made by Open; whether this program made it, now or before.
  bool is_new() const { return is_new_; }
  bool is_ours() const { return is_ours_; }
  // Whether somebody has deleted the netdev.
  bool IsDeleted() const { return !NameAnywhere().has_value(); }
  // Makes the netdev again, after it was deleted. receive_fd() stays the same number, but has to be
  // watched again. While no worker uses the port.
  absl::Status Remake();

  // For control. They find the netdev in its current network namespace, under its current name.
  absl::Status SetLinkUp(bool up);  // the carrier
  absl::Status SetMtu(int mtu);
  // Gives the netdev this name, also if another program has renamed it, and this alias.
  // kAlreadyExists: a netdev has that name. kFailedPrecondition: Linux before 6.2 renames no netdev
  // that is up.
  absl::Status Rename(const std::string& name, const std::string& alias);
  // Limits the kernel's super-frames to those that Receive takes at the VES MTU `mtu`. Does nothing
  // without Options::super_frames.
  absl::Status LimitSuperFrames(uint32_t mtu);
  // The netdev's current name. Nothing if it was deleted, or is in another network namespace than
  // the calling thread.
  absl::optional<std::string> NameHere() const;
  // The same in any namespace.
  absl::optional<std::string> NameAnywhere() const;
  // The netdev now. kNotFound if it was deleted.
  absl::StatusOr<InterfaceState> QueryInterface() const;
  // A netlink socket in the netdev's namespace.
  absl::StatusOr<UniqueFd> NetlinkBesideNetdev() const;

  // The port for another queue of the VES. README.md ("Several workers") says why the TAP itself
  // has one queue.
  std::unique_ptr<Port> MakeQueue() { return std::make_unique<VnetQueue>(this, &writer_); }

  int receive_fd() const override { return tap_.get(); }
  size_t Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                 PortReceiveCounts* counts) noexcept override;
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override {
    return writer_.Transmit(frame, strip_tag);
  }
  bool TakesLarge(const Gso& gso) const noexcept override {
    return gso.type != GsoType::kUdp || takes_udp_super_frames_;
  }
  DropReason TransmitLarge(const BufferPool& pool, const Frame& frame,
                           bool strip_tag) noexcept override {
    return writer_.TransmitLarge(pool, frame, strip_tag);
  }
  size_t Flush(DropReason* reason) noexcept override { return writer_.Flush(reason); }
  bool ServesSockets() const noexcept override { return true; }
  MacAddr mac() const override { return mac_; }

 private:
  TapPort(const Options& options, OpenedTap tap, UniqueFd nothing);
  absl::Status Configure();
  absl::Status SetUp() const;
  absl::Status Offload(bool super_frames);
  absl::StatusOr<UniqueFd> SocketBesideNetdev(int family, int type) const;
  absl::Status Control(int socket, unsigned long command, ifreq* request,
                       absl::string_view what) const;
  void StopReading() noexcept;

  Options options_;
  std::string name_;
  const MacAddr mac_;
  bool is_new_;
  bool is_ours_;
  bool takes_udp_super_frames_ = false;  // the kernel knows them; set by Open
  const UniqueFd tap_;
  const UniqueFd nothing_;  // /dev/null: replaces the TAP's descriptor when the netdev is deleted
  TapReader reader_;
  VnetWriter writer_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_TAP_PORT_H_
