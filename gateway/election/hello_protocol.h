// HelloProtocol: exchanges hellos with the other gateways of the pair on the IPoIB link, and runs
// the election on them. README.md, "Which one works", says where hellos go and which ones count.
// One thread: the one that owns the link's data path.
#ifndef EOIB_GATEWAY_ELECTION_HELLO_PROTOCOL_H_
#define EOIB_GATEWAY_ELECTION_HELLO_PROTOCOL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gateway/election/election.h"
#include "gateway/election/hello.h"
#include "gateway/link/aged_table.h"
#include "gateway/link/interface.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/counters.h"

namespace eoib::gateway {

// X(member, help)
#define EOIB_HELLO_COUNTERS(X)                                                           \
  X(hellos_sent, "hellos given to the IPoIB link; a hello to both groups counts twice")  \
  X(hellos_received, "hellos received, of any pair of gateways, including damaged ones") \
  X(forged_hellos, "hellos whose sender's address is not the one in the hello")          \
  X(unlisted_hellos, "hellos of this pair that came from a GID that `peers` does not list")

class HelloProtocol {
 public:
  static constexpr size_t kMaxOthers = 64;

  struct Options {
    Pair pair;
    uint8_t priority = 100;
    // Port GIDs of the pair's gateways; may include this one's own. Absent: a hello of any GID
    // counts.
    absl::optional<std::vector<Gid>> peers;
  };
  struct Counters {
    EOIB_COUNTERS(Counters, uint64_t, EOIB_HELLO_COUNTERS)
  };
  using OnOthers = std::function<void(std::vector<IpoibAddress>)>;

  // `link` and `clock` outlive it. It calls `on_others` with the other gateways' addresses when
  // they change.
  HelloProtocol(const Options& options, ipoib::Interface* link, const Clock* clock,
                OnOthers on_others);

  // Takes over priority and peers; the pair stays.
  void Change(const Options& options);

  // Handles `packet` if it is a hello of any pair. True if it was; the caller must not pass it on.
  bool OnPacket(const ipoib::Packet& packet);
  // The link's state has changed.
  void OnLinkState();
  // Whether the VES has its flood group; initially false. A gateway without a VES does not stand
  // for election.
  void SetVesUp(bool up);
  // Call it at NextDeadline().
  void Run();
  absl::Time NextDeadline() const;

  const Election& election() const { return election_; }
  const char* WhyDown() const;  // why this gateway does not stand for election; empty if it does
  const Counters& counters() const { return counters_; }
  // Whether this gateway was a member of the hello group when it last sent a hello.
  bool in_group() const { return in_group_; }

 private:
  struct Other {
    absl::Time in_group = absl::InfinitePast();  // when it was last heard in the hello group
    bool outside = false;                        // it sends to the broadcast group only
  };

  void OnHello(const ipoib::Packet& packet);
  bool IsPeer(const Gid& gid) const;
  void Remember(const Election::Hello& hello, bool broadcast);
  void ForgetSilent();
  void TellOthers() const;
  void RestartElection();
  void Listen();
  void Say(const Election::Hello& hello);
  void SendTo(const IpoibGroup& group, absl::Span<const uint8_t> packet);
  bool NeedsBroadcast() const;
  absl::Time NextForget() const;

  Options options_;
  ipoib::Interface* const link_;
  const Clock* const clock_;
  const OnOthers on_others_;
  Election election_;
  absl::optional<ipoib::LinkState> state_;
  bool ves_up_ = false;
  AgedTable<IpoibAddress, Other> others_{kMaxOthers};
  absl::optional<IpoibLink> listened_;  // the link whose hello group is listened to
  bool in_group_ = false;
  // Answer a candidate of the broadcast group until then.
  absl::Time answer_all_until_ = absl::InfinitePast();
  Counters counters_;
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_ELECTION_HELLO_PROTOCOL_H_
