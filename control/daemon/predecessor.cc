#include "control/daemon/predecessor.h"

#include <poll.h>

namespace eoib {
namespace {

constexpr absl::Duration kTryAgain = absl::Milliseconds(20);

}  // namespace

bool PredecessorWait::operator()() const {
  pollfd told = {signals_, POLLIN, 0};  // poll also serves as the sleep
  return clock_->Now() < end_ && poll(&told, 1, static_cast<int>(absl::ToInt64Milliseconds(kTryAgain))) == 0;
}

}  // namespace eoib
