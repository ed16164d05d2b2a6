// Route: the place of a vPort, and the 64-bit word that publishes it to the workers.
#ifndef EOIB_FDB_ROUTE_H_
#define EOIB_FDB_ROUTE_H_

#include <cstdint>

#include "fdb/vport_address.h"
#include "vswitch/base/address.h"
#include "vswitch/base/check.h"

namespace eoib {

// Where a vPort is: what a worker needs to send to it.
struct Route {
  enum class Kind : uint8_t { kNone, kLocal, kRemote, kAggregate };

  Kind kind = Kind::kNone;
  uint32_t local_port = 0;       // kLocal: the agent's index of the port, below 2^24
  Qpn qpn;                       // kRemote
  AhIndex ah = AhIndex::None();  // kRemote; None(): no address of the vPort is up
  uint8_t hca_port = 0;          // kRemote: our port, through which to send
  // kRemote: the peer accepts VPortCapabilities::kMaxSegments segments of a frame.
  bool takes_segments = false;
  bool announced = false;  // kRemote, kAggregate: it is an agent that has announced itself
};

// A word has, from the lowest bit: kind 2 bits, QPN or local port 24, address-handle index 24, HCA
// port 8, takes segments 1, announced 1. The word of an aggregate is its kind and the address of
// its block of routes, whose alignment leaves the low bits free.
class RouteWord {
 public:
  static constexpr uint64_t kKindMask = 3;
  static constexpr uint64_t kFieldMask = (uint64_t{1} << 24) - 1;

  static uint64_t Pack(const Route& route) {
    const uint64_t where = route.kind == Route::Kind::kLocal ? route.local_port : route.qpn.value();
    EOIB_DCHECK(where <= kFieldMask && route.ah.value() <= kFieldMask);
    return static_cast<uint64_t>(route.kind) | where << kWhereShift |
           uint64_t{route.ah.value()} << kAhShift | uint64_t{route.hca_port} << kHcaPortShift |
           uint64_t{route.takes_segments} << kTakesSegmentsShift |
           uint64_t{route.announced} << kAnnouncedShift;
  }
  static Route Unpack(uint64_t word) {
    Route route;
    route.kind = KindOf(word);
    const uint32_t where = static_cast<uint32_t>(word >> kWhereShift & kFieldMask);
    if (route.kind == Route::Kind::kLocal) {
      route.local_port = where;
    } else if (route.kind == Route::Kind::kRemote) {
      route.qpn = Qpn(where);
      route.ah = AhIndex(static_cast<uint32_t>(word >> kAhShift & kFieldMask));
      route.hca_port = static_cast<uint8_t>(word >> kHcaPortShift);
      route.takes_segments = (word >> kTakesSegmentsShift & 1) != 0;
      route.announced = (word >> kAnnouncedShift & 1) != 0;
    } else if (route.kind == Route::Kind::kAggregate) {
      route.announced = true;
    }
    return route;
  }
  static Route::Kind KindOf(uint64_t word) { return static_cast<Route::Kind>(word & kKindMask); }

 private:
  static constexpr int kWhereShift = 2, kAhShift = 26, kHcaPortShift = 50, kTakesSegmentsShift = 58,
                       kAnnouncedShift = 59;
};

}  // namespace eoib

#endif  // EOIB_FDB_ROUTE_H_
