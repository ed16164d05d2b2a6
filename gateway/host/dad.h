// Dad: duplicate address detection, and the defence of addresses in use: RFC 4862 §5.4 with the
// nonce of RFC 7527 for IPv6, RFC 5227 for IPv4 (README.md, "Addresses", has the differences). Both
// share one state machine:
//
//     tentative: a random wait, then probes --no answer--> assigned: announcements, then defended
//         |
//     another interface uses it, or probes for it as well: duplicate, until Start
//
// ArpResponder and NdResponder report claims, and send for it. One thread. It calls Sender and
// Owner from its own methods; the Owner may call Start and Stop.
#ifndef EOIB_GATEWAY_HOST_DAD_H_
#define EOIB_GATEWAY_HOST_DAD_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/clock.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ipoib_address.h"

namespace eoib::endpoint {

// RFC 7527 §4.1: at least 6 bytes, which is one unit of an option.
using DadNonce = std::array<uint8_t, 6>;

class Dad {
 public:
  struct Options {
    // At most: PROBE_WAIT, MAX_RTR_SOLICITATION_DELAY.
    absl::Duration first_wait = absl::Milliseconds(200);
    int probes4 = 3;  // PROBE_NUM
    // After a probe that could not be sent.
    absl::Duration retry = absl::Milliseconds(20);
    // Up to twice as much: PROBE_MIN, PROBE_MAX.
    absl::Duration probe_interval4 = absl::Milliseconds(200);
    absl::Duration last_wait4 = absl::Milliseconds(500);  // ANNOUNCE_WAIT
    // DupAddrDetectTransmits (RFC 4862 §5.1)
    int probes6 = 1;
    absl::Duration last_wait6 = absl::Seconds(1);  // RetransTimer
    // ANNOUNCE_NUM; RFC 4861 §7.2.6 allows 3.
    int announcements = 2;
    absl::Duration announce_interval = absl::Seconds(2);  // ANNOUNCE_INTERVAL
    absl::Duration defend_interval = absl::Seconds(10);   // DEFEND_INTERVAL
  };

  class Sender {
   public:
    virtual ~Sender() = default;
    // Sends an ARP probe, or a solicitation from ::. False if that is not possible yet.
    virtual bool Probe(const IpAddr& address, const DadNonce& nonce) = 0;
    // Sends a gratuitous ARP, or an unsolicited advertisement with the override flag.
    virtual void Announce(const IpAddr& address) = 0;
  };
  class Owner {
   public:
    virtual ~Owner() = default;
    // May be used now; announced next, unless the owner stops it.
    virtual void OnUnique(const IpAddr& address) = 0;
    virtual void OnDuplicate(const IpAddr& address, const absl::optional<IpoibAddress>& rival) = 0;
    // Another interface uses an address that is assigned here. `announced`: Dad has just defended
    // it.
    virtual void OnContested(const IpAddr& address, const absl::optional<IpoibAddress>& rival,
                             bool announced) = 0;
  };
  // Uniform over all 64-bit numbers.
  using Random = std::function<uint64_t()>;

  // The pointers outlive it.
  Dad(const Options& options, const Clock* clock, Random random, Sender* sender, Owner* owner);
  Dad(const Dad&) = delete;
  Dad& operator=(const Dad&) = delete;

  // Starts detection; `address` is tentative, whatever its state was.
  void Start(const IpAddr& address);
  void Stop(const IpAddr& address);
  // The link has come up. Detection of tentative addresses restarts; assigned ones are announced,
  // because neighbours may have another queue pair for them.
  void OnLinkUp();
  // Sending stops; tentative addresses stay tentative.
  void OnLinkDown();

  // Another interface claims `address`; `rival` is its link-layer address, if known.
  void OnClaim(const IpAddr& address, const absl::optional<IpoibAddress>& rival);
  // Another interface probes for `address`. If it is assigned, the caller has to answer.
  void OnProbe(const IpAddr& address, const absl::optional<IpoibAddress>& rival,
               absl::Span<const uint8_t> nonce);

  void Tick();
  absl::Time Next() const;

 private:
  enum class Phase : uint8_t { kProbing, kAnnouncing, kAssigned, kDuplicate };
  struct Entry {
    Phase phase = Phase::kProbing;
    int sent = 0;  // probes, then announcements
    absl::Time timer = absl::InfiniteFuture();
    absl::Time defended = absl::InfinitePast();
    DadNonce nonce{};
  };

  absl::Duration UpTo(absl::Duration longest);
  DadNonce MakeNonce();
  void Begin(Entry* entry);
  void BeginAnnouncing(Entry* entry);
  void RunProbing(const IpAddr& address, Entry* entry);
  void OnFree(const IpAddr& address, Entry* entry);
  void RunAnnouncing(const IpAddr& address, Entry* entry);
  // True if it has announced the address.
  bool Defend(const IpAddr& address, Entry* entry);
  void GiveUp(const IpAddr& address, const absl::optional<IpoibAddress>& rival, Entry* entry);

  const Options options_;
  const Clock* const clock_;
  const Random random_;
  Sender* const sender_;
  Owner* const owner_;
  bool link_up_ = false;
  std::map<IpAddr, Entry> entries_;  // few: one for each address of the host
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_DAD_H_
