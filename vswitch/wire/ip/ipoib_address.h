// IpoibAddress: the link-layer address of an IPoIB interface (RFC 4391 §9.1.1), and the IPv6
// interface identifier of its port (§8).
#ifndef EOIB_VSWITCH_WIRE_IP_IPOIB_ADDRESS_H_
#define EOIB_VSWITCH_WIRE_IP_IPOIB_ADDRESS_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib {

// A queue pair and a GID of its port: 20 bytes. The first is reserved.
//
// The reserved byte is not kept. RFC 4391 §9.1.1 says that it is ignored on receipt and sent as
// zero, but hosts with connected mode (RFC 4755 §3.1) set its highest bits, and Linux does so in
// every mode. So an interface has one value here, whatever the byte is.
class IpoibAddress {
 public:
  static constexpr size_t kSize = 20;

  constexpr IpoibAddress() = default;
  // Requires qpn.IsValid().
  constexpr IpoibAddress(Qpn qpn, const Gid& gid) : qpn_(qpn), gid_(gid) {}
  // The address that Linux shows for a group ("brd" of `ip link`): the multicast QPN and the MGID.
  static constexpr IpoibAddress OfGroup(const Mgid& mgid) {
    return {Qpn(Qpn::kMulticast), mgid.gid()};
  }
  // Reads 20 bytes at `wire`.
  static IpoibAddress FromWire(const void* wire);
  // "80:00:00:48:fe:80:...": twenty groups of one or two hex digits, as `ip link` prints them. The
  // first is read and ignored.
  static absl::StatusOr<IpoibAddress> Parse(absl::string_view text);

  void ToWire(void* wire) const;  // 20 bytes, the first of them zero
  constexpr Qpn qpn() const { return qpn_; }
  constexpr const Gid& gid() const { return gid_; }
  constexpr PeerAddress peer() const { return {gid_, qpn_}; }
  constexpr bool IsZero() const { return *this == IpoibAddress(); }
  constexpr bool IsGroup() const { return gid_.IsMulticast(); }
  std::string ToString() const;  // "00:00:00:48:fe:80:..."

  friend constexpr auto operator<=>(const IpoibAddress&, const IpoibAddress&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const IpoibAddress& address) {
    return H::combine(std::move(h), address.qpn_, address.gid_);
  }

 private:
  Qpn qpn_;
  Gid gid_;
};

// The interface identifier of a port (RFC 4391 §8): its GUID with the "u" bit set. A GUID with the
// bit is taken for a Modified EUI-64, as Linux does; it could also be an EUI-64 that is only
// locally unique.
InterfaceId ToInterfaceId(Guid guid);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_IPOIB_ADDRESS_H_
