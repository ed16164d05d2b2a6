// HelloProtocol: what the gateways of a pair say to each other on their IPoIB link, and the election that follows from it.
//
// It says this gateway's hellos, judges those of others, and remembers for a while who the others are. A hello counts if it is
// this pair's, comes from the address that is in it, and from a GID among the peers, if the operator has listed them.
//
// Hellos go through the group that RFC 4391 §4 maps their address to, which gateways alone join, and hosts receive none. Every
// gateway hears hellos in both that group and the link's broadcast group. It says its own
//   - in their group while it is a member of that;
//   - in the broadcast group while it is not, once it has listened;
//   - in the broadcast group too while another gateway says hello there and not in the group: that one is no member;
//   - in the broadcast group too as a candidate that has heard another gateway in the last 10 s, and for 1 s as an answer to
//     such a candidate. What two active ones would pass round for ever goes through the broadcast group; so none takes over
//     just because nothing arrives in their own.
//
// One thread: the one that owns the link's data path.
#ifndef EOIB_GATEWAY_HELLO_PROTOCOL_H_
#define EOIB_GATEWAY_HELLO_PROTOCOL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "fdb/address.h"
#include "fdb/clock.h"
#include "gateway/election.h"
#include "gateway/hello.h"
#include "gateway/ipoib/interface.h"
#include "gateway/translation/aged_table.h"

namespace eoib::gateway {

class HelloProtocol {
 public:
  static constexpr size_t kMaxOthers = 64;

  struct Options {
    Pair pair;
    uint8_t priority = 100;
    // GIDs of the ports of the pair's gateways, this one's own perhaps among them. Nothing: a hello of any GID counts.
    absl::optional<std::vector<Gid>> peers;
  };
  struct Counters {
    uint64_t sent = 0;      // hellos given to the link: two if one goes to both groups
    uint64_t received = 0;  // of whichever pair, damaged ones among them
    uint64_t unlisted = 0;  // of these, of this pair from a GID that is not among the peers
    uint64_t forged = 0;    // of these, from another address than the one in them
  };
  using OnOthers = std::function<void(std::vector<IpoibAddress>)>;

  // `link` and `clock` outlive it. `on_others` hears the addresses of the other gateways whenever they change.
  HelloProtocol(const Options& options, ipoib::Interface* link, const Clock* clock, OnOthers on_others);

  // Whether `packet` is a hello, of whichever pair; then it is nobody else's to have.
  bool OnPacket(const ipoib::Packet& packet);
  // The link's state has changed.
  void OnLinkState();
  // Whether the VES has its flood group. Not at first; a gateway between one side and nothing stands back.
  void SetVesUp(bool up);
  // To be called at NextDeadline().
  void Run();
  absl::Time NextDeadline() const;

  const Election& election() const { return election_; }
  const char* WhyDown() const;  // the election is; else empty
  const Counters& counters() const { return counters_; }
  // Whether this gateway was in the hellos' own group when it said hello last.
  bool in_group() const { return in_group_; }

 private:
  struct Other {
    absl::Time in_group = absl::InfinitePast();  // when it was last heard in the hellos' own group
    bool outside = false;                        // it says hello in the broadcast group alone
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

  const Options options_;
  ipoib::Interface* const link_;
  const Clock* const clock_;
  const OnOthers on_others_;
  Election election_;
  absl::optional<ipoib::LinkState> state_;
  bool ves_up_ = false;
  translation::AgedTable<IpoibAddress, Other> others_{kMaxOthers};
  absl::optional<IpoibLink> listened_;  // to the hellos' group there
  bool in_group_ = false;
  absl::Time answer_all_until_ = absl::InfinitePast();  // a candidate asks in the broadcast group
  Counters counters_;
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_HELLO_PROTOCOL_H_
