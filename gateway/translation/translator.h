// Translator: translates between the frames of one VLAN of a VES and the packets of one IPoIB link,
// so that the hosts of both sides share one IP subnet (README.md). It does no I/O: it sends to a
// Sink, reads the time from a Clock, and does later work in Tick(). The caller saves the tables and
// elects the active gateway.
//
// Threads: one; in a GatewayPort its worker. The sink is called on it, and must not call back.
// Bytes of a packet are valid during the call only.
//
// Invariants: the parts of the translation share the TranslationState, which the translator owns.
// Each frame and packet crosses, or is dropped for one reason; a held one counts when that is known
// (Settle).
#ifndef EOIB_GATEWAY_TRANSLATION_TRANSLATOR_H_
#define EOIB_GATEWAY_TRANSLATION_TRANSLATOR_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gateway/link/interface.h"
#include "gateway/translation/announcements.h"
#include "gateway/translation/arp_translation.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/delivery.h"
#include "gateway/translation/nd_translation.h"
#include "gateway/translation/options.h"
#include "gateway/translation/packet_translation.h"
#include "gateway/translation/querier.h"
#include "gateway/translation/saved_tables.h"
#include "gateway/translation/sink.h"
#include "gateway/translation/solicitation_sender.h"
#include "gateway/translation/translation_state.h"
#include "vswitch/base/clock.h"
#include "vswitch/wire/checksum.h"

namespace eoib::translation {

// A row of `gateway neigh show`.
struct NeighborRow {
  enum class Side : uint8_t { kEthernet, kIpoib };
  enum class State : uint8_t {
    kReachable,  // heard within alive_for
    kStale,
    kSilent,  // solicited, without an answer yet
  };
  IpAddr ip;
  Side side = Side::kEthernet;
  MacAddr mac;           // its address on Ethernet
  IpoibAddress ipoib;    // its address on IPoIB; for an Ethernet host the gateway's own
  uint16_t ordinal = 0;  // for an IPoIB host
  absl::Duration age;
  State state = State::kReachable;
};

class Translator {
 public:
  // `clock` and `sink` outlive it. Starts active, with the IPoIB link down.
  Translator(const Options& options, const Clock* clock, Sink* sink);
  // Puts into effect what an operator may configure of `options`, except the MTU: limits of
  // stations and neighbors, the rate of solicitations, prefixes, routers, the sources of ICMP
  // errors, and whether it queries. The tables stay.
  void Change(const Options& options);

  // Takes a frame of the VLAN, untagged, from the destination MAC on. Completes its checksum in
  // place if `checksum` asks for it.
  void FromEthernet(absl::Span<uint8_t> frame, const ChecksumRequest& checksum);
  // Takes a TCP or UDP super-frame of the VLAN as the IP packets that it stands for, with complete
  // checksums. Their bytes may change. It counts as one frame, and what becomes of the first packet
  // becomes of all.
  void SuperFrameFromEthernet(const EthernetInfo& info, NextPacket next);
  // Takes a packet of the link. Its bytes may change.
  void FromIpoib(const ipoib::Packet& packet);

  // Counts a packet of the link that the caller has put behind the one before, in a frame that went
  // to Ethernet.
  void CountJoined();

  // Sets the state of the interface; call it first and after each change. If the gateway's own
  // address has changed, it announces all hosts.
  void OnLinkState(const absl::optional<ipoib::LinkState>& link);
  void SetEthernetMtu(uint32_t mtu) { state_.output.SetEthernetMtu(mtu); }
  // An inactive gateway learns and sends nothing. A gateway that becomes active announces all
  // hosts.
  void SetActive(bool active);
  // Sets the addresses of other gateways to this link, whose packets are no host's. Forgets
  // stations at these addresses.
  void SetOtherGateways(std::vector<IpoibAddress> gateways) {
    state_.SetOtherGateways(std::move(gateways));
  }

  // Call it at NextDeadline(). Each of the calls above may change that.
  void Tick();
  absl::Time NextDeadline() const;

  // The tables to keep over a restart, and a number that grows when stations or neighbors change.
  SavedTables Save() const;
  uint64_t changes() const { return state_.stations.changes() + state_.neighbors.changes(); }
  // Restores saved tables. Call it before the first packet. The gateway announces the hosts as soon
  // as the link is up.
  void Restore(const SavedTables& saved);

  // Copies all state of `other` that decides over a packet, so that a trace can run a packet
  // without changing `other`. Requires the same options, and that this one has had no packets.
  // Ignore the sink's calls meanwhile.
  void CopyFrom(const Translator& other);

  const Counters& counters() const { return state_.counters; }
  std::vector<NeighborRow> Dump() const;
  std::vector<OnLink::Row> Routes() const { return state_.on_link.Dump(state_.clock->Now()); }
  // Forgets learned prefixes and routers; returns their number.
  size_t FlushRoutes() { return state_.on_link.Flush(); }
  // Sizes of tables, for tests and `show`.
  const TranslationState& state() const { return state_; }

 private:
  Drop TranslateFrame(absl::Span<uint8_t> frame, const ChecksumRequest& checksum);
  Drop TranslateSuperFrame(const EthernetInfo& info, NextPacket next);
  Drop TranslateIpv6Frame(const EthernetInfo& info, absl::Span<uint8_t> payload);
  Drop TranslatePacket(const ipoib::Packet& packet);
  Drop TranslateIpv6Packet(const ipoib::Packet& packet);
  void Settle(Drop drop);
  void AnnounceAll();
  void AnnounceIfDue();
  void Announce(const Announcement& announcement);
  void SolicitIpoib(const Solicitation& solicitation);
  void Expire();
  NeighborRow::State StateOf(absl::Time heard, bool silent) const;

  TranslationState state_;
  SolicitationSender sender_;
  Delivery delivery_;
  Querier querier_;
  ArpTranslation arp_;
  NdTranslation nd_;
  PacketTranslation packets_;
  Announcements announcements_;
  IpoibAddress announced_own_;                   // the own address that IPoIB hosts know
  bool unannounced_ = true;                      // announce all hosts once the output can send
  absl::Time ages_from_ = absl::InfinitePast();  // no ageing before
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_TRANSLATOR_H_
