// SavedTables: what a gateway has to know again after a restart, as plain data. Who keeps it on disk is another.
//
// Times are ages and what is left, since the clock of the one that saves and of the one that restores need not agree.
#ifndef EOIB_GATEWAY_TRANSLATION_SAVED_TABLES_H_
#define EOIB_GATEWAY_TRANSLATION_SAVED_TABLES_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "fdb/address.h"
#include "vswitch/wire/ip_addr.h"

namespace eoib::translation {

struct SavedIp {
  IpAddr ip;
  absl::Duration age;      // since it was heard
  bool confirmed = false;  // see AgedTable
  bool router = false;     // see Knowledge::NoteRouter

  friend bool operator==(const SavedIp&, const SavedIp&) = default;
};

// An IPoIB interface; the one of all that must never be lost is its MAC address.
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

// An address of an Ethernet host.
struct SavedNeighbor {
  SavedIp ip;
  MacAddr mac;

  friend bool operator==(const SavedNeighbor&, const SavedNeighbor&) = default;
};

// What was learned of the link (OnLink), and for how long it still holds; absl::InfiniteDuration() is for ever.
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
