// Dad: whether an address that this host is about to use is somebody else's already, and what to do if somebody says so later.
//
// IPv6: RFC 4862 §5.4, with the nonce of RFC 7527 by which a host knows its own solicitation when a loop brings it back. IPv4:
// the probes and announcements of RFC 5227. Both are the same machine here:
//
//     tentative: a random wait, then probes --nobody answers--> assigned: announcements, then defended
//         |
//     somebody uses it, or probes for it as well: duplicate
//
// A probe that cannot be sent yet, because the group to ask in is not joined, is none (RFC 4862 §5.4.2 joins first): it is
// tried until it can.
//
// While an address is tentative nobody answers for it, and nothing is sent from it. A duplicate stays one until it is started
// anew.
//
// Deliberate divergences. RFC 5227 §1.1 has an address probed for 5 to 9 s, with networks in mind whose ports are deaf for
// seconds when they come up; a fabric with a subnet manager is not like that, and the times here make it 0.9 to 1.5 s. After
// the link was down, addresses are announced, not probed again (§2.1): their connections have lasted over it. And of §2.4's
// ways to defend, it is the one of hosts whose address others rely on (c): it is kept, and announced at most every 10 s; else
// any neighbour takes away the address of a server by saying so.
//
// Knows no packets: ArpResponder and NdResponder tell it who claims what, and send what it asks for. One thread. The Speaker's
// and the Owner's methods are called from within its own; the Owner's may start and stop addresses.
#ifndef EOIB_GATEWAY_ENDPOINT_DAD_H_
#define EOIB_GATEWAY_ENDPOINT_DAD_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/clock.h"
#include "vswitch/wire/ip_addr.h"
#include "vswitch/wire/ipoib_address.h"

namespace eoib::endpoint {

using DadNonce = std::array<uint8_t, 6>;  // RFC 7527 §4.1: at least 6 bytes, which is one unit of an option

class Dad {
 public:
  struct Options {
    absl::Duration first_wait = absl::Milliseconds(200);       // up to: PROBE_WAIT, MAX_RTR_SOLICITATION_DELAY
    int probes4 = 3;                                           // PROBE_NUM
    absl::Duration retry = absl::Milliseconds(20);             // of a probe that could not be sent
    absl::Duration probe_interval4 = absl::Milliseconds(200);  // to twice as much: PROBE_MIN, PROBE_MAX
    absl::Duration last_wait4 = absl::Milliseconds(500);       // ANNOUNCE_WAIT
    int probes6 = 1;                                           // DupAddrDetectTransmits (RFC 4862 §5.1)
    absl::Duration last_wait6 = absl::Seconds(1);              // RetransTimer
    int announcements = 2;                                     // ANNOUNCE_NUM; RFC 4861 §7.2.6 allows 3
    absl::Duration announce_interval = absl::Seconds(2);       // ANNOUNCE_INTERVAL
    absl::Duration defend_interval = absl::Seconds(10);        // DEFEND_INTERVAL
  };

  // Who sends.
  class Speaker {
   public:
    virtual ~Speaker() = default;
    // Does anybody have it? An ARP probe, a solicitation from ::. False: nobody can be asked yet.
    virtual bool Probe(const IpAddr& address, const DadNonce& nonce) = 0;
    // It is here. A gratuitous ARP, an unsolicited advertisement with the override flag.
    virtual void Announce(const IpAddr& address) = 0;
  };
  // Who has the addresses.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnUnique(const IpAddr& address) = 0;  // may be used from now on; announced then, if it is not stopped
    virtual void OnDuplicate(const IpAddr& address, const absl::optional<IpoibAddress>& rival) = 0;
    // Somebody uses an address that is assigned here. `announced`: again, because that was not done lately.
    virtual void OnContested(const IpAddr& address, const absl::optional<IpoibAddress>& rival, bool announced) = 0;
  };
  // Uniform over all numbers.
  using Random = std::function<uint64_t()>;

  // All stay the caller's but `random`.
  Dad(const Options& options, const Clock* clock, Random random, Speaker* speaker, Owner* owner);
  Dad(const Dad&) = delete;
  Dad& operator=(const Dad&) = delete;

  // `address` is tentative from now on, whatever it was.
  void Start(const IpAddr& address);
  void Stop(const IpAddr& address);
  // The link has come up. What is tentative begins anew; what is assigned is announced: to neighbours who knew another queue
  // pair.
  void OnLinkUp();
  // Nothing is sent; what is tentative stays so.
  void OnLinkDown();

  bool IsTentative(const IpAddr& address) const;
  bool IsAssigned(const IpAddr& address) const;

  // Another interface says that it has `address`: `rival`, as far as that is known.
  void OnClaim(const IpAddr& address, const absl::optional<IpoibAddress>& rival);
  // Another interface would like to have it, and probes. An assigned address is then to be answered for by the caller.
  void OnProbe(const IpAddr& address, const absl::optional<IpoibAddress>& rival, absl::Span<const uint8_t> nonce);

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
  void Run(const IpAddr& address, Entry* entry);
  void RunProbing(const IpAddr& address, Entry* entry);
  void OnFree(const IpAddr& address, Entry* entry);
  void RunAnnouncing(const IpAddr& address, Entry* entry);
  // True if it was announced.
  bool Defend(const IpAddr& address, Entry* entry);
  void GiveUp(const IpAddr& address, const absl::optional<IpoibAddress>& rival, Entry* entry);

  const Options options_;
  const Clock* const clock_;
  const Random random_;
  Speaker* const speaker_;
  Owner* const owner_;
  bool link_up_ = false;
  std::map<IpAddr, Entry> entries_;  // a handful
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_DAD_H_
