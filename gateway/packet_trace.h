// PacketTrace: what a gateway would do with a packet now, in words for an operator, without doing it.
//
// The packet goes through a translation that imitates the gateway's, and what comes out is written down instead of sent; so the
// answer is that of the code that will decide, and nothing is learned, counted or asked. What the gateway's port does before
// its translation (tags, hellos) is repeated here.
//
// Imitate: the thread of the gateway's translation. Everything else: one thread, control's.
#ifndef EOIB_GATEWAY_PACKET_TRACE_H_
#define EOIB_GATEWAY_PACKET_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/clock.h"
#include "gateway/translation/translator.h"
#include "vswitch/wire/ipoib_address.h"

namespace eoib::gateway {

// A packet that an operator asks about.
struct TracedPacket {
  enum class Side : uint8_t { kEthernet, kIpoib };
  Side side = Side::kEthernet;
  std::vector<uint8_t> bytes;           // from the destination MAC on, or from the 4-byte IPoIB header on
  absl::optional<IpoibAddress> source;  // of one from IPoIB, unless the gateway would not know it
  bool group = false;                   // of one from IPoIB: it came through a multicast group

  // "ethernet HEX", or "ipoib HEX SOURCE|- [group]". HEX may have colons.
  static absl::StatusOr<TracedPacket> Parse(absl::Span<const std::string> words);
};

class PacketTrace final : private translation::Sink {
 public:
  // `options` are the gateway's; `clock` outlives this.
  PacketTrace(const translation::Options& options, Vid vlan, const Clock* clock);

  void Imitate(const translation::Translator& gateway);
  // What becomes of it. Once.
  std::string Run(TracedPacket packet);

 private:
  void RunFrame(absl::Span<uint8_t> frame);
  void RunDatagram(const TracedPacket& packet, absl::Span<uint8_t> datagram);
  std::string Verdict(const translation::Counters& before) const;
  // translation::Sink
  void ToEthernet(MacAddr destination, MacAddr source, uint16_t ethertype, absl::Span<const uint8_t> payload) override;
  void ToIpoib(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) override;
  void ToIpoibGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpoibGroup& group, bool beyond_link) override;
  void Listen(const IpoibGroup& group) override;
  void Unlisten(const IpoibGroup& group) override;

  const Vid vlan_;
  translation::Translator translator_;
  std::string before_;   // why it does not come to the translation; empty if it does
  std::string outputs_;  // a line or two for each
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_PACKET_TRACE_H_
