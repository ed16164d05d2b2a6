// TunDevice: a TUN netdev of the Linux kernel, by which a host without an IPoIB driver is on an IPoIB link: its kernel writes
// IP packets to it and reads IP packets from it, without any link-layer address.
//
// No checksums are offloaded: an IPoIB datagram has no place to say that one is missing. The netdev outlives a process that is
// killed, with its addresses, routes and connections; the next finds it by its name and takes it over, as it takes one that the
// operator has made (`ip tuntap add dev ib0 mode tun`). An orderly end takes along what this program has made, and nothing
// else.
//
// One thread, in whose network namespace it is and stays.
#ifndef EOIB_GATEWAY_ENDPOINT_TUN_DEVICE_H_
#define EOIB_GATEWAY_ENDPOINT_TUN_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gateway/endpoint/ip_host.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib::endpoint {

class TunDevice final : public Tun {
 public:
  // Makes the netdev, or takes over one of this name that is a TUN and nobody has open, and sets it up, without carrier until
  // SetLink. The kernel makes no link-local address for it: that of the link is the port's (RFC 4391 §8). kAlreadyExists if the
  // name is taken otherwise; kUnavailable without /dev/net/tun; the message says what to do.
  static absl::StatusOr<std::unique_ptr<TunDevice>> Open(const std::string& name);
  ~TunDevice() override;

  const std::string& name() const { return name_; }
  int index() const { return index_; }
  int fd() const { return tun_.get(); }

  enum class ReadResult : uint8_t { kPacket, kNothing, kDeleted };
  // Reads one packet into `buffer` and sets *packet to where it is. kDeleted: somebody has deleted the netdev, and nothing will
  // ever come again.
  ReadResult Read(absl::Span<uint8_t> buffer, absl::Span<const uint8_t>* packet);

  // Tun. What cannot be set is logged.
  EndpointDrop Write(absl::Span<const uint8_t> packet) override;
  void SetLink(uint32_t mtu) override;

 private:
  TunDevice(std::string name, UniqueFd tun, bool made);
  absl::Status Configure();
  absl::Status SetUp();
  absl::Status SetMtu(uint32_t mtu);
  absl::Status SetCarrier(bool up);

  const std::string name_;
  const UniqueFd tun_;
  const bool made_;  // by this program, now or before it was killed
  int index_ = 0;
  uint32_t mtu_ = 0;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_TUN_DEVICE_H_
