#include "vswitch/fabric/softhca/port_messages.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {
namespace {

absl::Status TakeRingOffered(Packet packet, PortSink* sink) {
  const absl::StatusOr<SourceMessage> message =
      Decode<SourceMessage>(packet, packet.fds_lost ? 0 : kRingDescriptors);
  if (!message.ok()) return message.status();
  const absl::StatusOr<SourceIdentity> source = FromMessage(*message);
  if (!source.ok()) return source.status();
  RingEnd end;
  if (!packet.fds_lost) end = FromDescriptors(message->capacity, std::move(packet.fds));
  sink->OnRingOffered(message->ring, *source, std::move(end));
  return absl::OkStatus();
}

absl::Status TakeSourceChanged(const Packet& packet, PortSink* sink) {
  const absl::StatusOr<SourceMessage> message = Decode<SourceMessage>(packet);
  if (!message.ok()) return message.status();
  const absl::StatusOr<SourceIdentity> source = FromMessage(*message);
  if (!source.ok()) return source.status();
  sink->OnSourceChanged(message->ring, *source);
  return absl::OkStatus();
}

absl::Status TakeGroup(const Packet& packet, PortSink* sink) {
  const absl::StatusOr<GroupMessage> message = Decode<GroupMessage>(packet);
  if (!message.ok()) return message.status();
  const absl::StatusOr<std::vector<Lid>> members = MembersOf(*message);
  if (!members.ok()) return members.status();
  sink->OnGroup(Mlid(message->mlid), *members);
  return absl::OkStatus();
}

absl::Status TakeFaults(const Packet& packet, PortSink* sink) {
  const absl::StatusOr<FaultsMessage> message = Decode<FaultsMessage>(packet);
  if (!message.ok()) return message.status();
  const absl::StatusOr<std::vector<FaultRule>> rules = RulesOf(*message);
  if (!rules.ok()) return rules.status();
  sink->OnFaults(*rules);
  return absl::OkStatus();
}

absl::Status TakeRingClosed(const Packet& packet, PortSink* sink) {
  const absl::StatusOr<RingMessage> message = Decode<RingMessage>(packet);
  if (message.ok()) sink->OnRingClosed(message->ring);
  return message.status();
}

}  // namespace

absl::Status PortMessages::Deliver(Packet packet, PortSink* sink) {
  switch (packet.type()) {
    case MessageType::kMad:
    case MessageType::kMadPart:
      return TakeMad(packet, sink);
    case MessageType::kRingOffered:
      return TakeRingOffered(std::move(packet), sink);
    case MessageType::kSourceChanged:
      return TakeSourceChanged(packet, sink);
    case MessageType::kRingClosed:
      return TakeRingClosed(packet, sink);
    case MessageType::kGroup:
      return TakeGroup(packet, sink);
    case MessageType::kFaults:
      return TakeFaults(packet, sink);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("a message of unknown type ", static_cast<uint32_t>(packet.type())));
  }
}

absl::Status PortMessages::TakeMad(const Packet& packet, PortSink* sink) {
  const absl::StatusOr<AddressedMad> received = DecodeMad(packet);
  if (!received.ok()) return received.status();
  mad_.insert(mad_.end(), received->mad.begin(), received->mad.end());
  const bool whole = packet.type() == MessageType::kMad;
  if (mad_.size() > kMaxMad || (whole && mad_.size() < kSaRecordOffset)) {
    return absl::InvalidArgumentError(absl::StrCat("a MAD of ", mad_.size(), " bytes"));
  }
  if (whole) sink->OnMad(received->lid, std::exchange(mad_, {}));
  return absl::OkStatus();
}

}  // namespace eoib::softhca
