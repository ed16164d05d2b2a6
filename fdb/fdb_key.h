// The key of the forwarding database: a MAC address within a VLAN.
#ifndef EOIB_FDB_FDB_KEY_H_
#define EOIB_FDB_FDB_KEY_H_

#include <cstdint>
#include <string>
#include <utility>

#include "vswitch/base/address.h"

namespace eoib {

// (VID, MAC) in one word, the VID in the high bits, so that a table compares and hashes eight
// bytes. Two VLANs never share an entry (independent VLAN learning, IEEE 802.1Q-2018 §8.8.8).
class FdbKey {
 public:
  constexpr FdbKey() = default;
  constexpr FdbKey(Vid vid, MacAddr mac)
      : packed_(static_cast<uint64_t>(vid.value()) << 48 | mac.ToUint64()) {}
  static constexpr FdbKey FromPacked(uint64_t packed) {
    FdbKey key;
    key.packed_ = packed;
    return key;
  }

  constexpr Vid vid() const { return Vid(static_cast<uint16_t>(packed_ >> 48)); }
  constexpr MacAddr mac() const { return MacAddr::FromUint64(packed_ & 0xffff'ffff'ffff); }
  constexpr uint64_t packed() const { return packed_; }
  std::string ToString() const { return vid().ToString() + " " + mac().ToString(); }

  friend constexpr auto operator<=>(FdbKey, FdbKey) = default;
  template <typename H>
  friend H AbslHashValue(H h, FdbKey key) {
    return H::combine(std::move(h), key.packed_);
  }

 private:
  uint64_t packed_ = 0;
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_KEY_H_
