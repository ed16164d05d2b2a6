// Fuzzes the messages between a port and eoib-fabricd, either end of which may be hostile:
// arbitrary bytes with arbitrary descriptors through a socket, decoded as each message. An accepted
// message re-encodes the same, apart from unused bytes.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/check.h"
#include "vswitch/base/file.h"
#include "vswitch/fabric/softhca/fabric_protocol.h"

namespace eoib::softhca {
namespace {

constexpr size_t kLongest = 2 * kMaxMessage;  // longest packet; longer ones are refused

template <typename Message>
std::string BytesOf(const Message& message) {
  return Encode(message).bytes;
}

void CheckRefusal(const absl::Status& status) {
  EOIB_CHECK(status.code() == absl::StatusCode::kInvalidArgument && !status.message().empty());
}

void ClearUnused(PKeyTable* table) {
  for (size_t i = table->count; i < kMaxPKeys; ++i) table->pkeys[i] = 0;
}

// Decodes a message that FromMessage accepts and encodes it again.
PortConfigMessage Again(const PortConfigMessage& message) {
  return ToMessage(*FromMessage(message));
}
SourceMessage Again(const SourceMessage& message) {
  SourceMessage again = ToMessage(message.type, message.ring, *FromMessage(message));
  again.capacity = message.capacity;  // part of the RingEnd
  return again;
}
template <typename Message>
auto Again(const Message& message) -> decltype(ToMessage(*FromMessage(message))) {
  return ToMessage(*FromMessage(message));
}

// `message` without its unused bytes.
PortConfigMessage Meaning(PortConfigMessage message) {
  message.type = MessageType::kPortConfig;
  message.active = message.active != 0;
  message.reserved = 0;
  message.padding = 0;
  ClearUnused(&message.pkeys);
  return message;
}
SourceMessage Meaning(SourceMessage message) {
  message.padding = 0;
  ClearUnused(&message.pkeys);
  return message;
}
// For other messages, a second round trip must change nothing.
template <typename Message>
Message Meaning(const Message& message) {
  return Again(message);
}

template <typename Message>
void CheckValue(const Message& message) {
  const auto value = FromMessage(message);
  if (!value.ok()) return CheckRefusal(value.status());
  const Message again = Again(message);
  EOIB_CHECK(BytesOf(again) == BytesOf(Meaning(message)));
  EOIB_CHECK(FromMessage(again).ok() && BytesOf(Again(again)) == BytesOf(again));
}

void CheckGroup(GroupMessage message) {
  const absl::StatusOr<std::vector<Lid>> members = MembersOf(message);
  EOIB_CHECK(members.ok() == (message.count <= kMaxGroupMembers));
  if (!members.ok()) return CheckRefusal(members.status());
  message.type = MessageType::kGroup;
  std::fill(message.members + message.count, message.members + kMaxGroupMembers, 0);
  EOIB_CHECK(BytesOf(ToMessage(Mlid(message.mlid), *members)) == BytesOf(message));
}

void CheckFaults(const FaultsMessage& message) {
  const absl::StatusOr<std::vector<FaultRule>> rules = RulesOf(message);
  if (!rules.ok()) return CheckRefusal(rules.status());
  EOIB_CHECK(rules->size() == message.count);
  const absl::StatusOr<std::vector<FaultRule>> again = RulesOf(ToMessage(*rules));
  EOIB_CHECK(again.ok() && *again == *rules);
}

template <size_t N>
void CheckText(const char (&field)[N]) {
  const std::string text = TextOf(field, N);
  char again[N];
  std::memset(again, 0xee, N);
  PutText(text, again, N);
  EOIB_CHECK(again[N - 1] == 0 && TextOf(again, N) == text.substr(0, N - 1));
  EOIB_CHECK(std::count(again, again + N, 0) ==
             static_cast<long>(N - std::min(text.size(), N - 1)));
}

template <typename Message>
void CheckMessage(const Packet& packet) {
  const absl::StatusOr<Message> message = Decode<Message>(packet, packet.fds.size());
  EOIB_CHECK(message.ok() == (packet.bytes.size() == sizeof(Message)));
  if (!message.ok()) return CheckRefusal(message.status());
  CheckRefusal(Decode<Message>(packet, packet.fds.size() + 1).status());
  EOIB_CHECK(BytesOf(*message) == packet.bytes);
  if constexpr (requires { FromMessage(*message); }) CheckValue(*message);
  if constexpr (std::is_same_v<Message, GroupMessage>) CheckGroup(*message);
  if constexpr (std::is_same_v<Message, FaultsMessage>) CheckFaults(*message);
  if constexpr (requires { message->text; }) CheckText(message->text);
  if constexpr (requires { message->name; }) CheckText(message->name);
}

// An accepted MAD re-encodes the same.
void CheckMad(const Packet& packet) {
  const absl::StatusOr<AddressedMad> received = DecodeMad(packet);
  if (!received.ok()) return CheckRefusal(received.status());
  EOIB_CHECK(!received->mad.empty() && received->mad.size() <= kMaxMadPart && packet.fds.empty());
  EOIB_CHECK(EncodeMad(received->lid, received->mad, packet.type()).bytes == packet.bytes);
}

// Tries the packet as it is, then with the size of each message: a fuzzer hardly guesses the sizes.
template <typename... Messages>
void CheckMessages(const Packet& packet) {
  (CheckMessage<Messages>(packet), ...);
  const auto cut = [&](size_t size) {
    Packet fitting{packet.bytes, {}};
    fitting.bytes.resize(size);
    return fitting;
  };
  (CheckMessage<Messages>(cut(sizeof(Messages))), ...);
}

// The kinds of descriptors that a hostile peer may send for a ring or a doorbell.
enum Kind : size_t { kData, kUnsealed, kSmall, kEvents, kPipe, kFile, kIndex, kKinds };
constexpr uint64_t kMemory = 64 * 1024;

UniqueFd MakeMemory(uint64_t size, bool sealed) {
  UniqueFd fd(memfd_create("fuzz", MFD_ALLOW_SEALING | MFD_CLOEXEC));
  EOIB_CHECK(fd.valid() && ftruncate(fd.get(), static_cast<off_t>(size)) == 0);
  if (sealed)
    EOIB_CHECK(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  return fd;
}

UniqueFd MakePipe() {
  int ends[2];
  EOIB_CHECK(pipe2(ends, O_CLOEXEC) == 0);
  close(ends[1]);
  return UniqueFd(ends[0]);
}

int Descriptor(Kind kind) {
  static const UniqueFd* const fds =
      new UniqueFd[kKinds]{MakeMemory(kMemory, true),
                           MakeMemory(kMemory, false),
                           MakeMemory(4, true),
                           UniqueFd(eventfd(0, EFD_CLOEXEC)),
                           MakePipe(),
                           UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)),
                           MakeMemory(4096, true)};
  return fds[kind].get();
}

// Only its capacity and the kinds of its descriptors decide whether a RingEnd is accepted.
void CheckEnd(const std::vector<Kind>& kinds, Packet packet) {
  const auto message = Decode<OpenRingMessage>(packet, kRingDescriptors);
  if (!message.ok()) return;
  const uint64_t capacity = message->capacity;
  RingEnd end = FromDescriptors(capacity, std::move(packet.fds));
  const bool good =
      capacity == kMemory && kinds[0] == kData && kinds[1] == kIndex && kinds[2] == kEvents;
  const absl::Status status = CheckRingEnd(end);
  EOIB_CHECK(status.ok() == good);
  if (!good) CheckRefusal(status);
  const std::vector<UniqueFd> again = ToDescriptors(std::move(end));
  EOIB_CHECK(again.size() == kRingDescriptors &&
             IsEventFd(again[2].get()) == (kinds[2] == kEvents));
}

struct SocketPair {
  SocketPair() {
    int ends[2];
    EOIB_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    near = UniqueFd(ends[0]);
    far = UniqueFd(ends[1]);
    const int size = kLongest;  // the kernel doubles it: room for a few packets
    EOIB_CHECK(setsockopt(near.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) == 0);
  }
  UniqueFd near, far;
};

Packet MakePacket(absl::string_view bytes, const std::vector<Kind>& kinds) {
  Packet packet{std::string(bytes), {}};
  for (const Kind kind : kinds) packet.fds.push_back(Duplicate(Descriptor(kind)));
  return packet;
}

// Packets that a queue takes arrive once and in order, even if the reader is slow. It refuses
// packets beyond its limit.
void CheckOutbox(absl::string_view bytes) {
  constexpr size_t kRoom = 2, kPackets = 12;
  SocketPair sockets;
  PacketQueue queue(kRoom);
  size_t taken = 0, received = 0;
  for (size_t i = 0; i < kPackets; ++i) {
    const absl::Status status = queue.Send(sockets.near.get(), {absl::StrCat(i, ":", bytes), {}});
    EOIB_CHECK(status.ok() || status.code() == absl::StatusCode::kResourceExhausted);
    if (!status.ok()) break;
    ++taken;
  }
  for (absl::StatusOr<Packet> packet = ReceivePacket(sockets.far.get()); packet.ok();
       packet = ReceivePacket(sockets.far.get())) {
    EOIB_CHECK(packet->bytes == absl::StrCat(received++, ":", bytes) && packet->fds.empty());
    EOIB_CHECK(queue.Flush(sockets.near.get()).ok());
  }
  EOIB_CHECK(received == taken && queue.empty());
  sockets.far.reset();
  EOIB_CHECK(queue.Send(sockets.near.get(), {"x", {}}).code() == absl::StatusCode::kDataLoss);
  queue.Clear();
  EOIB_CHECK(queue.empty());
}

// Sends one packet through a socket.
absl::StatusOr<Packet> Transfer(Packet packet) {
  SocketPair sockets;
  PacketQueue queue(1);
  EOIB_CHECK(queue.Send(sockets.near.get(), std::move(packet)).ok() && queue.empty());
  return ReceivePacket(sockets.far.get());
}

void CheckPath(absl::string_view bytes) {
  const absl::StatusOr<sockaddr_un> address = UnixAddress(std::string(bytes));
  const bool names_a_file = !bytes.empty() && !absl::StrContains(bytes, '\0');
  EOIB_CHECK(address.ok() == (names_a_file && bytes.size() < sizeof(sockaddr_un::sun_path)));
  if (address.ok()) EOIB_CHECK(std::memcmp(address->sun_path, bytes.data(), bytes.size()) == 0);
}

}  // namespace
}  // namespace eoib::softhca

// Input: a byte for the number of descriptors (up to five, one more than any message has), a byte
// for the kind of each, then a message.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace eoib::softhca;  // NOLINT: the entry point has no namespace
  if (size == 0) return 0;
  const size_t count = data[0] % (kRingDescriptors + 1);
  if (size < 1 + count) return 0;
  std::vector<Kind> kinds;
  for (size_t i = 0; i < count; ++i) kinds.push_back(static_cast<Kind>(data[1 + i] % kKinds));
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1 + count,
                                std::min(size - 1 - count, kLongest));

  absl::StatusOr<Packet> packet = Transfer(MakePacket(bytes, kinds));
  EOIB_CHECK(packet.ok() || bytes.empty() || bytes.size() > kMaxMessage);
  CheckPath(bytes);
  if (!packet.ok()) return 0;
  EOIB_CHECK(packet->bytes == bytes && packet->fds.size() == count);
  CheckMessages<RegisterMessage, MadMessage, OpenRingMessage, RingMessage, RegisteredMessage,
                PortConfigMessage, SourceMessage, RingOpenedMessage, GroupMessage, FaultsMessage>(
      *packet);
  CheckMad(*packet);
  CheckEnd(kinds, *std::move(packet));
  if (bytes.size() <= kMaxMessage - 3) CheckOutbox(bytes);
  return 0;
}
