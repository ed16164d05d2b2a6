// Subscriptions: this port's subscriptions to the subnet's traps 64 to 67 (a port or a group
// appeared or disappeared).
//
// Traps only speed up recovery. A failed request is retried after a second, doubling up to a
// minute. An SA forgets the subscriptions when it restarts and when our port goes down, so every
// refresh renews them.
//
// Control thread.
#ifndef EOIB_CONTROL_SUBNET_SUBSCRIPTIONS_H_
#define EOIB_CONTROL_SUBNET_SUBSCRIPTIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "vswitch/base/backoff.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/request_handle.h"
#include "vswitch/fabric/sa_client.h"

namespace eoib {

class Subscriptions {
 public:
  static constexpr std::array<SmTrap, 4> kTraps = {SmTrap::kGidInService, SmTrap::kGidOutOfService,
                                                   SmTrap::kGroupCreated, SmTrap::kGroupDeleted};

  // Both outlive the object.
  Subscriptions(SaClient* sa, const Clock* clock);
  Subscriptions(const Subscriptions&) = delete;
  Subscriptions& operator=(const Subscriptions&) = delete;

  // Subscribes, or subscribes again.
  void Renew();
  // Unsubscribes. Calls `done` when every request was answered or has timed out.
  void End(std::function<void()> done);

  // Retries if a retry is due.
  void Run();
  absl::Time NextDeadline() const { return retry_at_; }

  bool complete() const { return subscribed_ == kTraps.size(); }
  // For `eoibctl show`: "subscribed", or why not.
  std::string Show() const;

 private:
  void Answered(const absl::Status& status);

  SaClient* const sa_;
  const Clock* const clock_;
  bool may_be_subscribed_ = false;  // the SA may count us as subscribed
  // The last round.
  std::array<RequestHandle, kTraps.size()> requests_;
  size_t subscribed_ = 0;
  size_t answered_ = 0;
  std::string trouble_;  // why the subscription is not complete; empty: it is, or no answer yet
  Backoff backoff_{absl::Seconds(1), absl::Minutes(1)};
  absl::Time retry_at_ = absl::InfiniteFuture();
};

}  // namespace eoib

#endif  // EOIB_CONTROL_SUBNET_SUBSCRIPTIONS_H_
