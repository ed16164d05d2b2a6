#include "gateway/election/uplink_hello.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "control/vport/vport_speaker.h"
#include "vswitch/base/byte_order.h"

namespace eoib::gateway {
namespace {

constexpr uint8_t kKind = 1, kVersion = 1;

struct HelloWire {
  uint8_t first_byte = VPortSpeaker::kFirstByte;
  uint8_t kind = kKind;
  uint8_t version = kVersion;
  uint8_t priority = 0;
  be16 pkey;
  be16 runs;
  be64 sequence;
  std::array<uint8_t, Gid::kSize> from{}, successor{};
  std::array<char, UplinkHello::kMaxName + 1> uplink{};  // padded with zeros
};
static_assert(sizeof(HelloWire) == 64);

struct RunWire {
  be16 first, last;
  uint8_t claim = 0;
  uint8_t reserved = 0;
};
static_assert(sizeof(RunWire) == 6);

}  // namespace

std::vector<uint8_t> EncodeUplinkHello(const UplinkHello& hello) {
  HelloWire wire;
  wire.priority = hello.priority;
  wire.pkey = hello.ves.Full().value();
  wire.runs = static_cast<uint16_t>(hello.runs.size());
  wire.sequence = hello.sequence;
  hello.from.ToWire(wire.from.data());
  hello.successor.ToWire(wire.successor.data());
  std::copy(hello.uplink.begin(), hello.uplink.end(), wire.uplink.begin());
  std::vector<uint8_t> bytes(sizeof(wire) + hello.runs.size() * sizeof(RunWire));
  WriteWire(wire, bytes.data());
  uint8_t* at = bytes.data() + sizeof(wire);
  for (const UplinkHello::Run& run : hello.runs) {
    RunWire one;
    one.first = run.first.value();
    one.last = run.last.value();
    one.claim = static_cast<uint8_t>(run.claim);
    WriteWire(one, at);
    at += sizeof(one);
  }
  return bytes;
}

absl::optional<UplinkHello> DecodeUplinkHello(absl::Span<const uint8_t> payload) {
  if (payload.size() < sizeof(HelloWire)) return absl::nullopt;
  const auto wire = ReadWire<HelloWire>(payload.data());
  const size_t runs = wire.runs.value();
  if (wire.first_byte != VPortSpeaker::kFirstByte || wire.kind != kKind || wire.version != kVersion)
    return absl::nullopt;
  if (runs > UplinkHello::kMaxRuns || payload.size() < sizeof(wire) + runs * sizeof(RunWire))
    return absl::nullopt;
  UplinkHello hello;
  hello.ves = PKey(wire.pkey.value());
  hello.from = Gid::FromWire(wire.from.data());
  hello.successor = Gid::FromWire(wire.successor.data());
  hello.priority = wire.priority;
  hello.sequence = wire.sequence.value();
  const auto end = std::find(wire.uplink.begin(), wire.uplink.end(), '\0');
  hello.uplink.assign(wire.uplink.begin(), end);
  if (end == wire.uplink.end() || hello.from.IsZero() || hello.from.IsMulticast())
    return absl::nullopt;
  for (uint32_t i = 0, next = 0; i < runs; ++i) {
    const auto run = ReadWire<RunWire>(payload.data() + sizeof(wire) + i * sizeof(RunWire));
    const uint16_t first = run.first.value(), last = run.last.value();
    if (first < next || first > last || last > Vid::kMax ||
        run.claim > static_cast<uint8_t>(UplinkHello::Claim::kRelease))
      return absl::nullopt;
    hello.runs.push_back({Vid(first), Vid(last), static_cast<UplinkHello::Claim>(run.claim)});
    next = last + 1u;
  }
  return hello;
}

}  // namespace eoib::gateway
