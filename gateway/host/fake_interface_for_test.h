// A fake IPoIB link: records what is sent, and has the state that the test sets. Test only.
#ifndef EOIB_GATEWAY_HOST_FAKE_INTERFACE_FOR_TEST_H_
#define EOIB_GATEWAY_HOST_FAKE_INTERFACE_FOR_TEST_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gateway/link/interface.h"

namespace eoib::endpoint {

class FakeInterface final : public ipoib::Interface {
 public:
  struct Sent {
    IpoibType type;
    std::vector<uint8_t> payload;
    absl::optional<IpoibAddress> to;   // of Send
    absl::optional<IpoibGroup> group;  // of SendToGroup
    bool beyond_link = false;
  };

  absl::optional<ipoib::LinkState> state() const override {
    ++state_reads_;
    return state_;
  }
  int state_reads() const { return state_reads_; }
  void SetState(absl::optional<ipoib::LinkState> state) { state_ = std::move(state); }

  void Send(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) override {
    ++requested_;
    sent_.push_back({type, {payload.begin(), payload.end()}, to, absl::nullopt});
  }
  void SendToGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpoibGroup& group,
                   bool beyond_link) override {
    ++requested_;
    sent_.push_back({type, {payload.begin(), payload.end()}, absl::nullopt, group, beyond_link});
  }
  bool Reaches(const IpoibGroup&) override { return reaches_; }
  void SetReaches(bool reaches) { reaches_ = reaches; }
  void Listen(const IpoibGroup& group) override {
    if (!groups_.insert(ToMgid(group).ToString()).second) ++listened_twice_;
  }
  void Unlisten(const IpoibGroup& group) override {
    if (groups_.erase(ToMgid(group).ToString()) == 0) ++listened_twice_;
  }

  std::vector<Sent> Take() { return std::exchange(sent_, {}); }
  const std::vector<Sent>& sent() const { return sent_; }
  uint64_t requested() const { return requested_; }
  // MGIDs as text.
  const std::set<std::string>& groups() const { return groups_; }
  int listened_twice() const { return listened_twice_; }  // also counts Unlisten without Listen

 private:
  absl::optional<ipoib::LinkState> state_;
  std::vector<Sent> sent_;
  uint64_t requested_ = 0;
  std::set<std::string> groups_;
  int listened_twice_ = 0;
  mutable int state_reads_ = 0;
  bool reaches_ = true;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_FAKE_INTERFACE_FOR_TEST_H_
