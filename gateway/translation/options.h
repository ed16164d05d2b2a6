// Options: the limits and times of a translation, and what an operator configures for the link.
// Copied once, at the start.
#ifndef EOIB_GATEWAY_TRANSLATION_OPTIONS_H_
#define EOIB_GATEWAY_TRANSLATION_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/wire/ip/icmp_error.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::translation {

// An IP prefix of a link.
struct Prefix {
  IpAddr address;
  uint8_t length = 0;  // bits

  // "10.0.0.0/24"; nothing for another text.
  static absl::optional<Prefix> Parse(absl::string_view text);
  bool Contains(const IpAddr& ip) const { return HasPrefix(ip, address, length); }
  friend bool operator==(const Prefix&, const Prefix&) = default;
};

struct Options {
  // The largest limits that an operator may configure; they also bound the file on disk.
  static constexpr size_t kMostStations = 65536;
  static constexpr size_t kMostStationIps = 4 * kMostStations;
  static constexpr size_t kMostNeighbors = 1 << 20;

  // Tables. A full table evicts the unconfirmed entry that was silent for longest.
  size_t max_stations = 4096;          // IPoIB interfaces
  size_t max_station_ips = 16384;      // IP addresses of all IPoIB interfaces
  size_t max_ips_per_station = 64;     // beyond it, the interface's own oldest address goes
  size_t max_stations_per_gid = 64;    // beyond it, the port's own oldest interface goes
  size_t max_neighbors = 16384;        // addresses of Ethernet hosts
  size_t max_pending_requests = 1024;  // solicitations whose requester is remembered
  size_t max_silent = 8192;            // targets that did not answer
  size_t max_held_targets = 256;       // targets that packets wait for
  size_t max_held_per_target = 4;      // RFC 1122 §2.3.2.2: at least one
  size_t max_groups = 1024;            // IPoIB groups listened to on behalf of Ethernet hosts
  size_t max_prefixes = 64;            // learned prefixes; the same limit holds for routers

  // Ageing: an entry is removed after this silence.
  // With its addresses, by which a station is recognized.
  absl::Duration station_age = absl::Hours(24);
  absl::Duration ip_age = absl::Minutes(30);  // addresses of Ethernet hosts
  // No ageing for this time after this gateway became active.
  absl::Duration grace = absl::Minutes(10);
  absl::Duration pending_age = absl::Seconds(5);

  // Solicitations for unknown hosts, to either side: forwarded ones and the gateway's own together.
  double asks_per_second = 100;
  double ask_burst = 100;
  // For one requester, so that a scan leaves a share to the others.
  double asks_per_second_each = 40;
  double ask_burst_each = 40;
  // back-off after the first solicitation of a silent target; then it doubles.
  absl::Duration silent_first = absl::Seconds(1);
  absl::Duration silent_most = absl::Seconds(30);
  // A target heard on the requester's side within this time answers there.
  absl::Duration local_for = absl::Seconds(5);
  // A target heard within this time is solicited without limit.
  absl::Duration alive_for = absl::Seconds(30);

  // The gateway's own solicitations on Ethernet, for held packets.
  int resolve_tries = 3;
  absl::Duration resolve_interval = absl::Seconds(1);
  // The gateway solicits a station to which packets go and that is silent for this time (RFC 4391
  // §9.4).
  absl::Duration suspect_after = absl::Seconds(1);
  absl::Duration suspect_interval = absl::Milliseconds(700);
  absl::Duration suspect_interval_most = absl::Milliseconds(2500);
  absl::Duration suspect_flow = absl::Seconds(10);  // stop this time after the last packet for it
  size_t max_suspects = 256;

  double errors_per_second = 100;  // ICMP errors (RFC 4443 §2.4(f), RFC 1812 §4.3.2.8)
  double error_burst = 50;
  IcmpSources icmp_sources;  // of errors about packets that are too big
  double announcements_per_second = 200;
  double announcement_burst = 20;
  double listens_per_second = 100;  // each is a query to the SA
  double listen_burst = 512;
  // Query for groups if the VES has no other querier.
  bool query_groups = true;
  absl::Duration query_interval = absl::Seconds(125);       // RFC 3376 §8.2
  absl::Duration membership_interval = absl::Seconds(260);  // RFC 3376 §8.4, RFC 3810 §9.4
  absl::Duration last_member_time = absl::Seconds(2);       // RFC 3376 §8.8, RFC 3810 §9.9

  std::vector<Prefix> prefixes;  // on-link
  std::vector<IpAddr> routers;   // on the Ethernet side
  uint32_t ethernet_mtu = 1500;  // the largest IP packet, in bytes

  friend bool operator==(const Options&, const Options&) = default;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_OPTIONS_H_
