// SavedTables: the tables that a gateway keeps over a restart, as plain data.
// gateway/translation/table_file.h puts them on disk.
//
// Times are ages and remaining times, because the clocks of the two processes need not agree.
#ifndef EOIB_GATEWAY_TRANSLATION_SAVED_TABLES_H_
#define EOIB_GATEWAY_TRANSLATION_SAVED_TABLES_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::translation {

struct SavedIp {
  IpAddr ip;
  absl::Duration age;      // since it was heard
  bool confirmed = false;  // see AgedTable
  bool router = false;     // see TranslationState::NoteRouter

  friend bool operator==(const SavedIp&, const SavedIp&) = default;
};

// An IPoIB interface. Its MAC address is the most important item: Ethernet hosts use it.
struct SavedStation {
  Gid gid;
  uint16_t ordinal = 0;
  Qpn qpn;
  MacAddr mac;
  absl::Duration age;
  bool confirmed = false;
  std::vector<SavedIp> ips;

  friend bool operator==(const SavedStation&, const SavedStation&) = default;
};

struct SavedNeighbor {
  SavedIp ip;
  MacAddr mac;

  friend bool operator==(const SavedNeighbor&, const SavedNeighbor&) = default;
};

// A prefix and a router that OnLink has learned. `left` is the remaining lifetime;
// absl::InfiniteDuration() means for ever.
struct SavedPrefix {
  IpAddr address;
  int length = 0;
  absl::Duration left;

  friend bool operator==(const SavedPrefix&, const SavedPrefix&) = default;
};
struct SavedRouter {
  IpAddr ip;
  int preference = 0;
  absl::Duration left;

  friend bool operator==(const SavedRouter&, const SavedRouter&) = default;
};

struct SavedTables {
  std::vector<SavedStation> stations;
  std::vector<SavedNeighbor> neighbors;
  std::vector<SavedPrefix> prefixes;
  std::vector<SavedRouter> routers;

  friend bool operator==(const SavedTables&, const SavedTables&) = default;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_SAVED_TABLES_H_
