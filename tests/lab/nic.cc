#include "tests/lab/nic.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/lab/process.h"

namespace eoib::lab {
namespace {

// virtio_net_hdr; linux/virtio_net.h does not compile as C++.
struct VnetHeader {
  uint8_t flags, gso_type;
  uint16_t header_length, gso_size, checksum_start, checksum_offset;
};

}  // namespace

Nic::Nic(Host* host, const std::string& interface) {
  host->InNamespace([&] {
    tap_.reset(open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
    ifreq request{};
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    if (ioctl(tap_.get(), TUNSETIFF, &request) != 0) DieErrno("make the TAP " + interface);
  });
  host->MustIp(absl::StrCat("link set ", interface, " addrgenmode none up"));
}

bool Nic::WaitFor(const PacketSocket::Filter& filter, absl::Duration limit) {
  return EventuallyTrue(limit, [&] {
    for (;;) {
      VnetHeader header;
      Bytes frame(70000);
      const iovec parts[] = {{&header, sizeof(header)}, {frame.data(), frame.size()}};
      const ssize_t size = readv(tap_.get(), parts, 2);
      if (size < static_cast<ssize_t>(sizeof(header))) return false;
      frame.resize(static_cast<size_t>(size) - sizeof(header));
      if (filter(frame)) return true;
    }
  });
}

void Nic::Deliver(const Bytes& frame, const Offloads& offloads) {
  VnetHeader header = {static_cast<uint8_t>(offloads.checksum_start != 0),
                       offloads.gso_type,
                       offloads.header_length,
                       offloads.gso_size,
                       offloads.checksum_start,
                       offloads.checksum_offset};
  const iovec parts[] = {{&header, sizeof(header)},
                         {const_cast<uint8_t*>(frame.data()), frame.size()}};
  if (writev(tap_.get(), parts, 2) < 0) DieErrno("deliver a frame");
}

}  // namespace eoib::lab
