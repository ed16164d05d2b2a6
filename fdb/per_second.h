// PerSecond: no more than so many of something in any second.
#ifndef EOIB_FDB_PER_SECOND_H_
#define EOIB_FDB_PER_SECOND_H_

#include "absl/time/time.h"

namespace eoib {

// One thread at a time.
class PerSecond {
 public:
  explicit PerSecond(int most) : most_(most) {}

  bool HasLeft(absl::Time now) {
    if (now - since_ >= absl::Seconds(1)) {
      since_ = now;
      taken_ = 0;
    }
    return taken_ < most_;
  }
  void Take() { ++taken_; }
  // Takes one, if there is one left.
  bool TakeOne(absl::Time now) {
    if (!HasLeft(now)) return false;
    Take();
    return true;
  }

 private:
  const int most_;
  int taken_ = 0;  // in the second from
  absl::Time since_ = absl::InfinitePast();
};

}  // namespace eoib

#endif  // EOIB_FDB_PER_SECOND_H_
