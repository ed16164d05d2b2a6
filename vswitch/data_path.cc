#include "vswitch/data_path.h"

#include "vswitch/base/clock.h"

namespace eoib {
namespace {

constexpr absl::Duration kLastSends = absl::Milliseconds(20);  // how long to wait for completions

}  // namespace

void DataPath::SendLast(Forwarder* forwarder) {
  if (!forwarder->PollMessages()) return;
  while (forwarder->PollMessages()) {
  }
  const MonotonicClock clock;
  const absl::Time deadline = clock.Now() + kLastSends;
  while (forwarder->HasSendsInFlight() && clock.Now() < deadline) forwarder->Housekeep();
}

}  // namespace eoib
