// RecordingSink: a PortSink for tests that records the subnet's calls.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_RECORDING_SINK_FOR_TEST_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_RECORDING_SINK_FOR_TEST_H_

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// The first 256 bytes of a recorded MAD.
inline Mad MadOf(absl::Span<const uint8_t> bytes) {
  Mad mad{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), mad.size()), mad.begin());
  return mad;
}

// Thread-safe. A test reads the record with Get, or waits for a condition on it.
class RecordingSink final : public PortSink {
 public:
  struct Offer {
    SourceIdentity source;
    RingEnd end;
  };
  struct Record {
    std::vector<PortConfig> configs;
    std::vector<std::vector<uint8_t>> mads;
    std::vector<Lid> mad_sources;                       // one for each MAD
    std::map<uint64_t, std::shared_ptr<Offer>> offers;  // by ring
    std::map<uint64_t, SourceIdentity> changed;         // by ring, the latest
    std::vector<uint64_t> closed;
    // Request -> ring, doorbell.
    std::map<uint64_t, std::pair<uint64_t, std::shared_ptr<UniqueFd>>> opened;
    std::set<uint64_t> refused;  // requests
    // Groups with members.
    std::map<Mlid, std::vector<Lid>> groups;
    std::vector<std::vector<FaultRule>> faults;
    int lost = 0;
    std::string order;  // one letter for each call
  };

  Record Get() const {
    absl::MutexLock lock(&mutex_);
    return record_;
  }
  // False if the condition is not met within ten seconds.
  bool WaitFor(std::function<bool(const Record&)> looks_right) const {
    absl::MutexLock lock(&mutex_);
    const auto done = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return looks_right(record_); };
    return mutex_.AwaitWithTimeout(absl::Condition(&done), absl::Seconds(10));
  }

  void OnPortConfig(const PortConfig& config) override {
    absl::MutexLock lock(&mutex_);
    record_.configs.push_back(config);
    record_.order += 'P';
  }
  void OnMad(Lid source, absl::Span<const uint8_t> mad) override {
    absl::MutexLock lock(&mutex_);
    record_.mad_sources.push_back(source);
    record_.mads.emplace_back(mad.begin(), mad.end());
    record_.order += 'M';
  }
  void OnRingOffered(uint64_t ring, const SourceIdentity& source, RingEnd end) override {
    absl::MutexLock lock(&mutex_);
    record_.offers[ring] = std::make_shared<Offer>(Offer{source, std::move(end)});
    record_.order += 'O';
  }
  void OnSourceChanged(uint64_t ring, const SourceIdentity& source) override {
    absl::MutexLock lock(&mutex_);
    record_.changed[ring] = source;
    record_.order += 'S';
  }
  void OnRingClosed(uint64_t ring) override {
    absl::MutexLock lock(&mutex_);
    record_.closed.push_back(ring);
    record_.order += 'C';
  }
  void OnRingOpened(uint64_t request, uint64_t ring, std::shared_ptr<UniqueFd> doorbell) override {
    absl::MutexLock lock(&mutex_);
    record_.opened[request] = {ring, std::move(doorbell)};
    record_.order += 'R';
  }
  void OnRingRefused(uint64_t request) override {
    absl::MutexLock lock(&mutex_);
    record_.refused.insert(request);
    record_.order += 'X';
  }
  void OnGroup(Mlid mlid, const std::vector<Lid>& members) override {
    absl::MutexLock lock(&mutex_);
    record_.groups[mlid] = members;
    if (members.empty()) record_.groups.erase(mlid);
    record_.order += 'G';
  }
  void OnFaults(const std::vector<FaultRule>& rules) override {
    absl::MutexLock lock(&mutex_);
    record_.faults.push_back(rules);
    record_.order += 'F';
  }
  void OnSubnetLost() override {
    absl::MutexLock lock(&mutex_);
    ++record_.lost;
    record_.order += 'L';
  }

 private:
  mutable absl::Mutex mutex_;
  Record record_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_RECORDING_SINK_FOR_TEST_H_
