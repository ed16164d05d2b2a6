// TunDevice: a TUN netdev of the Linux kernel, which carries IP packets without link-layer
// addresses between the kernel and this program. The kernel hands over super-frames, and packets
// without checksum. The reader cuts and completes them, because an IPoIB datagram cannot say that a
// checksum is missing. The kernel gets TCP segments and UDP datagrams of one flow and batch joined,
// if their checksums are right (SegmentRun); all other packets as they came. The netdev survives a
// killed process (README.md, "Failure tolerance"); an orderly end removes only a netdev that this
// program has made.
//
// One thread, in the netdev's network namespace.
#ifndef EOIB_GATEWAY_HOST_TUN_DEVICE_H_
#define EOIB_GATEWAY_HOST_TUN_DEVICE_H_

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gateway/host/ip_host.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/frame.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/segment_run.h"

namespace eoib::endpoint {

class TunDevice final : public Tun {
 public:
  // Makes the netdev, or takes over a TUN of this name that no process has open, and sets it up,
  // without carrier until SetLink. The kernel makes no link-local address for it, because the
  // link's one comes from the port's GUID (RFC 4391 §8). kAlreadyExists if another netdev has the
  // name; kUnavailable without /dev/net/tun. The message says what to do.
  static absl::StatusOr<std::unique_ptr<TunDevice>> Open(const std::string& name);
  ~TunDevice() override;

  const std::string& name() const { return name_; }
  int index() const { return index_; }
  int fd() const { return tun_.get(); }

  static constexpr size_t kLargestRead = kEthernetHeaderSize + 65535;
  enum class ReadResult : uint8_t { kPacket, kNothing, kDeleted };
  // Reads one packet or super-frame into `buffer` of kLargestRead bytes, behind an Ethernet header
  // that names only its EtherType, and sets *frame to it. kDeleted: the netdev was deleted from
  // outside, and is of no use.
  ReadResult Read(absl::Span<uint8_t> buffer, Frame* frame);

  // Tun. SetLink logs errors.
  EndpointDrop Write(absl::Span<const uint8_t> packet) override;
  EndpointDrop WriteInBatch(absl::Span<const uint8_t> packet) override;
  bool Continue(absl::Span<const uint8_t> packet, bool checksums_ok) override;
  size_t Flush(EndpointDrop* reason) override;
  void SetLink(uint32_t mtu) override;

 private:
  TunDevice(std::string name, UniqueFd tun, bool made);
  absl::Status Configure();
  absl::Status Offload();
  absl::Status SetCarrier(bool up);
  void WriteRun();
  bool Join(absl::Span<const uint8_t> packet, const SegmentRun::Segment& segment);
  void AppendPayload(absl::Span<const uint8_t> packet, const SegmentRun::Segment& segment);
  EndpointDrop WriteParts(absl::Span<const iovec> parts) const;

  const std::string name_;
  const UniqueFd tun_;
  const bool made_;  // by this process, or by a former one that was killed
  int index_ = 0;
  uint32_t mtu_ = 0;
  bool takes_udp_super_frames_ = false;  // the kernel knows them
  // The packets that wait for others: a virtio_net_hdr, the first packet's headers, and all
  // payloads.
  static constexpr size_t kMostParts = 2 + 128;
  SegmentRun run_;
  absl::Span<const uint8_t> first_;
  std::array<iovec, kMostParts> parts_;
  size_t part_count_ = 0;
  size_t lost_ = 0;  // joined packets lost in failed writes since the last Flush
  EndpointDrop lost_reason_ = EndpointDrop::kNone;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_TUN_DEVICE_H_
