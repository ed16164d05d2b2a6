// WireSocket: control's own socket on the netdev of an uplink: hellos of gateways, and the frames
// by which stations of the VES are advertised. The frames of the stations themselves pass through
// the UplinkPort.
#ifndef EOIB_GATEWAY_UPLINK_WIRE_SOCKET_H_
#define EOIB_GATEWAY_UPLINK_WIRE_SOCKET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::gateway {

// The group that hellos go to on the wire: locally administered, so that any bridge floods it.
inline constexpr MacAddr kUplinkHelloGroup = MacAddr::FromUint64(0x03'65'6f'69'62'75);

// A frame from `source` to `destination`, tagged if `vid` is not 0, padded to Ethernet's minimum.
std::vector<uint8_t> MakeFrame(MacAddr destination, MacAddr source, Vid vid, uint16_t ethertype,
                               absl::Span<const uint8_t> payload);

// Control thread, in the network namespace of the netdev.
class WireSocket {
 public:
  // Receives nothing before Bind, and then hellos to their group in VLAN `hellos` of the wire.
  static absl::StatusOr<WireSocket> Open(const std::string& netdev, Vid hellos);

  int fd() const { return socket_.get(); }
  // Binds to the netdev of that name as it is now. False if there is none.
  bool Bind();
  // Calls `take` with the payload of each hello that has come, at most 64.
  void Receive(absl::FunctionRef<void(absl::Span<const uint8_t> payload)> take);
  // Sends a frame before others that wait. Lost if the queue is full.
  void Send(absl::Span<const uint8_t> frame);

 private:
  WireSocket(const std::string& netdev, UniqueFd socket)
      : netdev_(netdev), socket_(std::move(socket)) {}

  std::string netdev_;
  UniqueFd socket_;
  int index_ = 0;
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_UPLINK_WIRE_SOCKET_H_
