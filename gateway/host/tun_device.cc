#include "gateway/host/tun_device.h"

#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/host/netlink.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/port/vnet_header.h"

namespace eoib::endpoint {
namespace {

// Marks a netdev that this program has made, so that a later process recognizes it. `ip link` shows
// it.
constexpr char kAlias[] = "eoib-ipoib";

absl::Status Failed(absl::string_view what, absl::string_view name) {
  const int error = errno;
  return absl::InternalError(absl::StrCat(what, " ", name, ": ", strerror(error)));
}

absl::Status CheckName(const std::string& name) {
  // The kernel would replace "%d" by a number.
  if (!name.empty() && name.size() < IFNAMSIZ &&
      name.find_first_of("/:% \t\n") == std::string::npos)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" cannot name a netdev: 1 to ",
                                                 IFNAMSIZ - 1,
                                                 " bytes without space, '/', ':' and '%' can"));
}

absl::StatusOr<UniqueFd> OpenTun(const std::string& name) {
  UniqueFd tun(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tun.valid()) {
    return absl::UnavailableError(
        absl::StrCat("open /dev/net/tun for ", name, ": ", strerror(errno),
                     "; load the tun module (modprobe tun) and run with CAP_NET_ADMIN"));
  }
  ifreq request{};
  std::memcpy(request.ifr_name, name.data(), name.size());
  request.ifr_flags = static_cast<short>(IFF_TUN | IFF_NO_PI | IFF_VNET_HDR);
  if (ioctl(tun.get(), TUNSETIFF, &request) == 0) return tun;
  if (errno == EBUSY || errno == EINVAL) {
    return absl::AlreadyExistsError(absl::StrCat(
        "make TUN ", name, ": a netdev of that name exists, and ",
        errno == EBUSY ? "a process has it open" : "is no TUN", "; choose another name"));
  }
  return Failed("make TUN", name);
}

absl::StatusOr<std::string> AliasOf(int index) {
  auto netlink = Netlink::Open(0);
  if (!netlink.ok()) return netlink.status();
  NetlinkRequest request(RTM_GETLINK, 0);
  request.Put<ifinfomsg>()->ifi_index = index;
  std::string alias;
  const absl::Status status =
      (*netlink)->Execute(&request, "read the alias of the TUN", [&](const nlmsghdr* message) {
        if (message->nlmsg_type != RTM_NEWLINK) return;
        ForEachAttribute(message, sizeof(ifinfomsg), [&](const nlattr* attribute) {
          if (mnl_attr_get_type(attribute) == IFLA_IFALIAS) alias = mnl_attr_get_str(attribute);
        });
      });
  if (!status.ok()) return status;
  return alias;
}

// Changes attributes of the interface, which `put` adds to the request, and sets the flags `flags`.
absl::Status Change(int index, absl::string_view what, absl::FunctionRef<void(nlmsghdr*)> put,
                    unsigned flags = 0) {
  auto netlink = Netlink::Open(0);
  if (!netlink.ok()) return netlink.status();
  NetlinkRequest request(RTM_SETLINK, 0);
  auto* const header = request.Put<ifinfomsg>();
  header->ifi_index = index;
  header->ifi_flags = header->ifi_change = flags;
  put(request.message());
  return (*netlink)->Execute(&request, what);
}

absl::Status SetUp(int index) {
  return Change(
      index, "set the TUN up", [](nlmsghdr*) {}, IFF_UP);
}

absl::Status SetMtu(int index, uint32_t mtu) {
  return Change(index, absl::StrCat("set MTU ", mtu, " of the TUN"),
                [mtu](nlmsghdr* message) { mnl_attr_put_u32(message, IFLA_MTU, mtu); });
}

absl::Status SetAlias(int index) {
  return Change(index, "set the alias of the TUN",
                [](nlmsghdr* message) { mnl_attr_put_str(message, IFLA_IFALIAS, kAlias); });
}

// Changes an attribute of one address family (IFLA_AF_SPEC).
absl::Status Configure(int index, uint16_t family, absl::string_view what,
                       absl::FunctionRef<void(nlmsghdr*)> put) {
  return Change(index, what, [&](nlmsghdr* message) {
    nlattr* const families = mnl_attr_nest_start(message, IFLA_AF_SPEC);
    nlattr* const ours = mnl_attr_nest_start(message, family);
    put(message);
    mnl_attr_nest_end(message, ours);
    mnl_attr_nest_end(message, families);
  });
}

// The kernel would generate a link-local address of its own.
absl::Status NoLinkLocal(int index) {
  return Configure(index, AF_INET6, "have the kernel make no link-local address",
                   [](nlmsghdr* message) {
                     mnl_attr_put_u8(message, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
                   });
}

// Without this, removing a duplicate IPv4 address would remove the other addresses of its subnet as
// well.
absl::Status PromoteSecondaries(int index) {
  return Configure(index, AF_INET, "have addresses outlive the first of their subnet",
                   [](nlmsghdr* message) {
                     nlattr* const numbers = mnl_attr_nest_start(message, IFLA_INET_CONF);
                     mnl_attr_put_u32(message, IPV4_DEVCONF_PROMOTE_SECONDARIES, 1);
                     mnl_attr_nest_end(message, numbers);
                   });
}

EndpointDrop WriteFailure(int error) {
  switch (error) {
    case EAGAIN:
      return EndpointDrop::kTunFull;
    case EIO:     // the netdev is down
    case EBADFD:  // the netdev was deleted
      return EndpointDrop::kTunDown;
    default:
      return EndpointDrop::kTunError;
  }
}

}  // namespace

TunDevice::TunDevice(std::string name, UniqueFd tun, bool made)
    : name_(std::move(name)), tun_(std::move(tun)), made_(made) {}

absl::StatusOr<std::unique_ptr<TunDevice>> TunDevice::Open(const std::string& name) {
  const absl::Status good = CheckName(name);
  if (!good.ok()) return good;
  const unsigned before = if_nametoindex(name.c_str());
  bool made = before == 0;
  if (!made) {
    const auto alias = AliasOf(static_cast<int>(before));
    made = alias.ok() && *alias == kAlias;
  }
  auto tun = OpenTun(name);
  if (!tun.ok()) return tun.status();
  auto device = std::unique_ptr<TunDevice>(new TunDevice(name, *std::move(tun), made));
  const absl::Status status = device->Configure();
  if (!status.ok()) return status;
  return device;
}

absl::Status TunDevice::Configure() {
  index_ = static_cast<int>(if_nametoindex(name_.c_str()));
  absl::Status status = Offload();
  if (status.ok()) status = SetCarrier(false);
  if (status.ok() && made_) status = SetAlias(index_);
  // Fails on a kernel without IPv6, where there is nothing to turn off.
  if (const absl::Status off = NoLinkLocal(index_); !off.ok()) LogWarning(off.message());
  if (status.ok()) status = PromoteSecondaries(index_);
  if (status.ok()) status = SetUp(index_);
  if (status.ok() && ioctl(tun_.get(), TUNSETPERSIST, 1) != 0)
    return Failed("keep over a crash the netdev", name_);
  return status;
}

// A kernel before 6.2 refuses UDP super-frames, but not the rest.
absl::Status TunDevice::Offload() {
  int header_size = kVnetHeaderSize;
  if (ioctl(tun_.get(), TUNSETVNETHDRSZ, &header_size) != 0)
    return Failed("set the virtio_net_hdr size of", name_);
  constexpr unsigned kOffloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
  takes_udp_super_frames_ = ioctl(tun_.get(), TUNSETOFFLOAD, kOffloads | kOffloadUso) == 0;
  if (takes_udp_super_frames_ || ioctl(tun_.get(), TUNSETOFFLOAD, kOffloads) == 0)
    return absl::OkStatus();
  return Failed("offload checksums and segmentation of", name_);
}

TunDevice::~TunDevice() {
  if (made_) ioctl(tun_.get(), TUNSETPERSIST, 0);
}

absl::Status TunDevice::SetCarrier(bool up) {
  int carrier = up;
  if (ioctl(tun_.get(), TUNSETCARRIER, &carrier) != 0) return Failed("set the carrier of", name_);
  return absl::OkStatus();
}

void TunDevice::SetLink(uint32_t mtu) {
  absl::Status status;
  if (mtu != 0 && mtu != mtu_) status = SetMtu(index_, mtu);
  if (status.ok() && mtu != 0) mtu_ = mtu;  // a failed change is tried again
  status.Update(SetCarrier(mtu != 0));
  if (!status.ok()) LogWarning(status.message());
}

TunDevice::ReadResult TunDevice::Read(absl::Span<uint8_t> buffer, Frame* frame) {
  VnetHeader header;
  const absl::Span<uint8_t> packet = buffer.subspan(kEthernetHeaderSize);
  const iovec parts[] = {{&header, sizeof(header)}, {packet.data(), packet.size()}};
  const ssize_t size = readv(tun_.get(), parts, 2);
  if (size <= static_cast<ssize_t>(kVnetHeaderSize)) {
    return size < 0 && errno == EBADFD ? ReadResult::kDeleted : ReadResult::kNothing;
  }
  std::fill_n(buffer.begin(), kMacsSize, uint8_t{0});
  WriteWire(be16(packet[0] >> 4 == 6 ? kEtherTypeIpv6 : kEtherTypeIpv4), &buffer[kMacsSize]);
  *frame = {BufferId::None(), buffer.data(),
            static_cast<uint32_t>(kEthernetHeaderSize + size - kVnetHeaderSize)};
  frame->gso = header.gso().value_or(Gso());
  frame->checksum = header.checksum();
  frame->checksum.start += frame->checksum.needed ? kEthernetHeaderSize : 0;
  frame->checksum_is_good = header.has_verified();
  return ReadResult::kPacket;
}

EndpointDrop TunDevice::Write(absl::Span<const uint8_t> packet) {
  WriteRun();  // first, to keep the order of packets
  VnetHeader header;
  const iovec parts[] = {{&header, sizeof(header)},
                         {const_cast<uint8_t*>(packet.data()), packet.size()}};
  return WriteParts(parts);
}

// The kernel verifies the checksum of a packet that comes alone.
EndpointDrop TunDevice::WriteInBatch(absl::Span<const uint8_t> packet) {
  const auto segment = SegmentRun::Parse(packet);
  if (!segment.has_value() || (segment->udp && !takes_udp_super_frames_)) return Write(packet);
  if (!SegmentRun::HasRightChecksum(packet, *segment)) return Write(packet);
  if (Join(packet, *segment)) return EndpointDrop::kNone;
  WriteRun();
  run_.Begin(packet, *segment);
  first_ = packet;
  part_count_ = 2;
  AppendPayload(packet, *segment);
  return EndpointDrop::kNone;
}

bool TunDevice::Continue(absl::Span<const uint8_t> packet, bool checksums_ok) {
  if (run_.count() == 0) return false;
  const auto segment = SegmentRun::Parse(packet);
  return segment.has_value() && !segment->udp && run_.IsContinuedBy(packet, *segment) &&
         (checksums_ok || SegmentRun::HasRightChecksum(packet, *segment)) && Join(packet, *segment);
}

bool TunDevice::Join(absl::Span<const uint8_t> packet, const SegmentRun::Segment& segment) {
  if (part_count_ == parts_.size() || !run_.IsContinuedBy(packet, segment)) return false;
  run_.Continue(packet, segment);
  AppendPayload(packet, segment);
  return true;
}

void TunDevice::AppendPayload(absl::Span<const uint8_t> packet,
                              const SegmentRun::Segment& segment) {
  parts_[part_count_++] = {const_cast<uint8_t*>(packet.data()) + segment.payload,
                           segment.payload_length()};
}

size_t TunDevice::Flush(EndpointDrop* reason) {
  WriteRun();
  *reason = lost_reason_;
  return std::exchange(lost_, 0);
}

void TunDevice::WriteRun() {
  const size_t count = run_.count();
  if (count == 0) return;
  VnetHeader header;
  absl::Span<const uint8_t> headers = first_.first(run_.first().payload);
  if (count > 1) {
    const SegmentRun::Segment& first = run_.first();
    headers = run_.Headers();
    header.Request({true, first.l4, first.checksum_offset()});
    header.Describe({first.udp ? GsoType::kUdp : GsoType::kTcp, first.payload_length()}, first.ipv6,
                    headers.size());
  }
  run_.Clear();
  parts_[0] = {&header, sizeof(header)};
  parts_[1] = {const_cast<uint8_t*>(headers.data()), headers.size()};
  const EndpointDrop drop = WriteParts({parts_.data(), part_count_});
  if (drop == EndpointDrop::kNone) return;
  lost_ += count;
  lost_reason_ = drop;
}

EndpointDrop TunDevice::WriteParts(absl::Span<const iovec> parts) const {
  return writev(tun_.get(), parts.data(), static_cast<int>(parts.size())) >= 0
             ? EndpointDrop::kNone
             : WriteFailure(errno);
}

}  // namespace eoib::endpoint
