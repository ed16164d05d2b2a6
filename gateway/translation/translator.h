// Translator: the gateway between the frames of one VLAN of a VES and the packets of one IPoIB link, so that both sides believe
// that they share one IP subnet.
//
// Ethernet hosts see each IPoIB host under a MAC address of its own (Stations). IPoIB hosts see all Ethernet hosts under one
// link-layer address, the gateway's, and the gateway tells them apart by their IP addresses (Neighbors). README.md has what
// becomes what.
//
// It does no I/O: what it sends goes to a Sink, what time it is says a Clock, and what it has to do later it does in Tick().
// The same inputs give the same outputs. One thread. Saving its tables, and deciding which of two gateways is active, are
// others'.
#ifndef EOIB_GATEWAY_TRANSLATION_TRANSLATOR_H_
#define EOIB_GATEWAY_TRANSLATION_TRANSLATOR_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/clock.h"
#include "gateway/ipoib/interface.h"
#include "gateway/translation/announcements.h"
#include "gateway/translation/arp_translation.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/delivery.h"
#include "gateway/translation/knowledge.h"
#include "gateway/translation/nd_translation.h"
#include "gateway/translation/options.h"
#include "gateway/translation/packet_translation.h"
#include "gateway/translation/querier.h"
#include "gateway/translation/questioner.h"
#include "gateway/translation/saved_tables.h"
#include "gateway/translation/sink.h"
#include "vswitch/wire/checksum.h"

namespace eoib::translation {

// A row of `gateway neigh show`.
struct NeighborRow {
  enum class Side : uint8_t { kEthernet, kIpoib };
  enum class State : uint8_t {
    kReachable,  // heard within alive_for
    kStale,
    kSilent,  // asked for, and has not answered yet
  };
  IpAddr ip;
  Side side = Side::kEthernet;
  MacAddr mac;           // under which Ethernet knows it
  IpoibAddress ipoib;    // under which IPoIB knows it: of Ethernet hosts the gateway's own
  uint16_t ordinal = 0;  // of an IPoIB host
  absl::Duration age;
  State state = State::kReachable;
};

class Translator {
 public:
  // `clock` and `sink` have to outlive it. Starts active, with the IPoIB link down.
  Translator(const Options& options, const Clock* clock, Sink* sink);

  // A frame of the VLAN, without its tag, from the destination MAC on. Its checksum is finished in it, if it is to be.
  void FromEthernet(absl::Span<uint8_t> frame, const ChecksumRequest& checksum);
  // A packet of the link. Its bytes may change.
  void FromIpoib(const ipoib::Packet& packet);

  // The state of the interface, at first and after each change. Where the gateway has another address now, everything is
  // announced again.
  void OnLinkState(const absl::optional<ipoib::LinkState>& link);
  void SetEthernetMtu(uint32_t mtu) { k_.output.SetEthernetMtu(mtu); }
  // Whether this gateway works, or another one does while this one learns. One that begins to work announces everything.
  void SetActive(bool active);
  // The addresses of other gateways to this link: what comes from there is no host's. Those that are known already as stations
  // are forgotten.
  void SetOtherGateways(std::vector<IpoibAddress> gateways) { k_.SetOtherGateways(std::move(gateways)); }

  // To be called at NextDeadline() or later, and when that changed; any call of the above may have changed it.
  void Tick();
  absl::Time NextDeadline() const;

  // What is to be known again after a restart, and how often it changed.
  SavedTables Save() const;
  uint64_t changes() const { return k_.stations.changes() + k_.neighbors.changes(); }
  // Takes what was saved, before anything was heard; announced as soon as the link is up.
  void Restore(const SavedTables& saved);

  // Knows from now on what another one knows, as far as that decides what becomes of a packet: for who asks what would, with a
  // sink of his own, and must not change anything. Requires the other's options, and that this one has heard nothing yet. What
  // the sink hears meanwhile means nothing.
  void Imitate(const Translator& other);

  const Counters& counters() const { return k_.counters; }
  std::vector<NeighborRow> Dump() const;
  // Sizes of tables, for tests and `show`.
  const Knowledge& knowledge() const { return k_; }

 private:
  Drop TranslateFrame(absl::Span<uint8_t> frame, const ChecksumRequest& checksum);
  Drop TranslateIpv6Frame(const EthernetInfo& info, absl::Span<uint8_t> payload);
  Drop TranslatePacket(const ipoib::Packet& packet);
  Drop TranslateIpv6Packet(const ipoib::Packet& packet);
  void Settle(Drop drop);
  void AnnounceAll();
  void AnnounceIfDue();
  void Announce(const Announcement& announcement);
  void AskIpoib(const Question& question);
  void Expire();
  NeighborRow::State StateOf(absl::Time heard, bool silent) const;

  Knowledge k_;
  Questioner questioner_;
  Delivery delivery_;
  Querier querier_;
  ArpTranslation arp_;
  NdTranslation nd_;
  PacketTranslation packets_;
  Announcements announcements_;
  IpoibAddress announced_own_;  // the address that IPoIB hosts know
  bool unannounced_ = true;     // there is something that others do not know; to be said once the output can send
  absl::Time ages_from_ = absl::InfinitePast();  // from when on hosts that are silent are forgotten
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_TRANSLATOR_H_
