// TunDevice: a TUN netdev of the Linux kernel, which carries IP packets without link-layer addresses between the kernel and
// this program. It offloads no checksums, because an IPoIB datagram cannot say that one is missing. The netdev survives a
// killed process (README.md, "Failure tolerance"); an orderly end removes only a netdev that this program has made.
//
// One thread, in the netdev's network namespace.
#ifndef EOIB_GATEWAY_ENDPOINT_TUN_DEVICE_H_
#define EOIB_GATEWAY_ENDPOINT_TUN_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gateway/endpoint/ip_host.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::endpoint {

class TunDevice final : public Tun {
 public:
  // Makes the netdev, or takes over a TUN of this name that no process has open, and sets it up, without carrier until
  // SetLink. The kernel makes no link-local address for it, because the link's one comes from the port's GUID (RFC 4391 §8).
  // kAlreadyExists if another netdev has the name; kUnavailable without /dev/net/tun. The message says what to do.
  static absl::StatusOr<std::unique_ptr<TunDevice>> Open(const std::string& name);
  ~TunDevice() override;

  const std::string& name() const { return name_; }
  int index() const { return index_; }
  int fd() const { return tun_.get(); }

  enum class ReadResult : uint8_t { kPacket, kNothing, kDeleted };
  // Reads one packet into `buffer`, and sets *packet to it. kDeleted: the netdev was deleted from outside, and is of no use.
  ReadResult Read(absl::Span<uint8_t> buffer, absl::Span<const uint8_t>* packet);

  // Tun. SetLink logs errors.
  EndpointDrop Write(absl::Span<const uint8_t> packet) override;
  void SetLink(uint32_t mtu) override;

 private:
  TunDevice(std::string name, UniqueFd tun, bool made);
  absl::Status Configure();
  absl::Status SetCarrier(bool up);

  const std::string name_;
  const UniqueFd tun_;
  const bool made_;  // by this process, or by a former one that was killed
  int index_ = 0;
  uint32_t mtu_ = 0;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_TUN_DEVICE_H_
