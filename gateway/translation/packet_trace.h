// PacketTrace: tells an operator what a gateway would do with a packet now, without doing it
// (`gateway trace`). It copies the state of the gateway's Translator into one of its own, and
// prints that one's output. It repeats the steps of GatewayPort before the translation (tags,
// hellos).
//
// CopyFrom runs on the thread of the gateway's translation, everything else on the control thread.
#ifndef EOIB_GATEWAY_TRANSLATION_PACKET_TRACE_H_
#define EOIB_GATEWAY_TRANSLATION_PACKET_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gateway/translation/translator.h"
#include "vswitch/base/clock.h"
#include "vswitch/wire/ip/ipoib_address.h"

namespace eoib::gateway {

// A packet to trace, as the operator gave it.
struct TracedPacket {
  enum class Side : uint8_t { kEthernet, kIpoib };
  Side side = Side::kEthernet;
  // From the destination MAC on, or from the 4-byte IPoIB header on.
  std::vector<uint8_t> bytes;
  // kIpoib: the sender; absent if the gateway would not know it.
  absl::optional<IpoibAddress> source;
  bool group = false;  // kIpoib: came through a multicast group

  // "ethernet HEX", or "ipoib HEX SOURCE|- [group]". HEX may have colons.
  static absl::StatusOr<TracedPacket> Parse(absl::Span<const std::string> words);
};

class PacketTrace final : private translation::Sink {
 public:
  // `options` are the gateway's; `clock` outlives this.
  PacketTrace(const translation::Options& options, Vid vlan, const Clock* clock);

  void CopyFrom(const translation::Translator& gateway);
  // The text for the operator. Call it once.
  std::string Run(TracedPacket packet);

 private:
  void RunFrame(absl::Span<uint8_t> frame);
  void RunDatagram(const TracedPacket& packet, absl::Span<uint8_t> datagram);
  std::string Verdict(const translation::Counters& before) const;
  // translation::Sink
  void ToEthernet(MacAddr destination, MacAddr source, uint16_t ethertype,
                  absl::Span<const uint8_t> payload) override;
  void ToIpoib(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) override;
  void ToIpoibGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpoibGroup& group,
                    bool beyond_link) override;
  void Listen(const IpoibGroup& group) override;
  void Unlisten(const IpoibGroup& group) override;

  const Vid vlan_;
  translation::Translator translator_;
  std::string before_;   // why the packet does not reach the translation; empty if it does
  std::string outputs_;  // one or two lines for each packet that would be sent
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_TRANSLATION_PACKET_TRACE_H_
