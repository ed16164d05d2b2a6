// The messages between a port and eoib-fabricd: one message in each packet of an AF_UNIX
// SOCK_SEQPACKET socket, with descriptors beside it.
//
// Messages are structs of fixed size in host byte order, since both ends run on one machine. In
// kMad, the MAD follows the struct; a table that is longer than a message comes in some kMadPart
// and a kMad. The registration carries a version. Decode and the From functions check sizes, counts
// and numbers of descriptors before anything is used.
//
// clang-format off
//   port to fabricd    kRegister (an owner's has 2 descriptors: doorbell, counters), kMad, kOpenRing (4: RingEnd), kCloseRing
//   fabricd to port    kRegistered (after the first kPortConfig), kPortConfig, kMad, kMadPart, kRingOffered (4: RingEnd),
//                      kSourceChanged, kRingClosed, kRingOpened (1: doorbell), kRingRefused, kGroup, kFaults
// clang-format on
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_FABRIC_PROTOCOL_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_FABRIC_PROTOCOL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/port_name.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

inline constexpr uint32_t kProtocolVersion = 6;
inline constexpr size_t kMaxGroupMembers = 1024;  // in a message; a socket's subnet has fewer ports
inline constexpr size_t kMaxText = 256;
inline constexpr size_t kRingDescriptors = 4;      // data, index, space, liveness
inline constexpr size_t kRegisterDescriptors = 2;  // doorbell, counters
inline constexpr char kNoDescriptor[] = "no descriptor is left: raise LimitNOFILE (ulimit -n)";

enum class MessageType : uint32_t {
  kRegister = 1,
  kMad = 3,
  kOpenRing = 4,
  kCloseRing = 5,
  kRegistered = 16,
  kPortConfig = 17,
  kRingOffered = 18,
  kSourceChanged = 19,
  kRingClosed = 20,
  kRingOpened = 21,
  kRingRefused = 22,
  kGroup = 23,
  kFaults = 24,
  kMadPart = 25,
};

struct RegisterMessage {
  MessageType type = MessageType::kRegister;
  uint32_t version = kProtocolVersion;
  uint32_t use = 0;            // PortUse
  uint32_t requested_lid = 0;  // 0: any
  uint32_t requested_qpn = 0;
  uint32_t requested_qpns = 0;  // 0: any
  char name[kMaxPortName + 1] = {};
};
// For kMad and kMadPart.
struct MadMessage {
  MessageType type = MessageType::kMad;
  uint32_t lid = 0;  // to fabricd: the destination, 0: the SM; from fabricd: the source
};
struct OpenRingMessage {
  MessageType type = MessageType::kOpenRing;
  uint32_t destination = 0;
  uint64_t request = 0;
  uint64_t capacity = 0;
};
// For kCloseRing and kRingClosed.
struct RingMessage {
  MessageType type = MessageType::kCloseRing;
  uint32_t reserved = 0;
  uint64_t ring = 0;
};
struct RegisteredMessage {
  MessageType type = MessageType::kRegistered;
  uint32_t code = 0;  // absl::StatusCode
  char text[kMaxText] = {};
};
struct PKeyTable {
  uint32_t count = 0;
  uint16_t pkeys[kMaxPKeys] = {};
};
struct PortConfigMessage {
  MessageType type = MessageType::kPortConfig;
  uint16_t lid = 0, sm_lid = 0;
  uint64_t node_guid = 0, port_guid = 0;
  uint8_t gid[Gid::kSize] = {};
  uint8_t active = 0, mtu = 0, rate = 0, reserved = 0;
  uint32_t first_qpn = 0, qpns = 0;
  PKeyTable pkeys;
  uint32_t reregistrations = 0;
  uint32_t padding = 0;
};
// For kRingOffered, and for kSourceChanged without capacity and descriptors.
struct SourceMessage {
  MessageType type = MessageType::kRingOffered;
  uint32_t lid = 0;
  uint64_t ring = 0;
  uint64_t capacity = 0;
  uint8_t gid[Gid::kSize] = {};
  uint32_t first_qpn = 0, qpns = 0;
  PKeyTable pkeys;
  uint32_t padding = 0;
};
// For kRingOpened and kRingRefused.
struct RingOpenedMessage {
  MessageType type = MessageType::kRingOpened;
  uint32_t reserved = 0;
  uint64_t request = 0;
  uint64_t ring = 0;  // 0: refused
};
struct GroupMessage {
  MessageType type = MessageType::kGroup;
  uint16_t mlid = 0;
  uint16_t count = 0;
  uint16_t members[kMaxGroupMembers] = {};
};
struct FaultMessage {
  uint8_t source[Gid::kSize] = {};
  uint32_t any_source = 0;  // not 0: `source` is not used
  uint32_t loss_ppm = 0, duplicate_ppm = 0, reorder_ppm = 0;
  uint64_t delay_nanos = 0;
  uint64_t seed = 0;
};
struct FaultsMessage {
  MessageType type = MessageType::kFaults;
  uint32_t count = 0;
  FaultMessage rules[kMaxFaultRules] = {};
};
inline constexpr size_t kMaxMadPart = 64 << 10;
inline constexpr size_t kMaxMessage =
    std::max({sizeof(GroupMessage), sizeof(FaultsMessage), sizeof(MadMessage) + kMaxMadPart});

// A message and the descriptors beside it.
struct Packet {
  std::string bytes;
  std::vector<UniqueFd> fds;
  bool fds_lost = false;  // descriptors were sent, but this process had no room for them

  // The first word; kRegister for an empty packet, which no peer sends.
  MessageType type() const;
  // The version in a registration. It follows the type in every version of the protocol.
  absl::optional<uint32_t> version() const;
};

template <typename Message>
Packet Encode(const Message& message, std::vector<UniqueFd> fds = {}) {
  // No padding, so that no uninitialised memory leaks to another process.
  static_assert(std::has_unique_object_representations_v<Message> &&
                sizeof(Message) <= kMaxMessage);
  return Packet{std::string(reinterpret_cast<const char*>(&message), sizeof(message)),
                std::move(fds)};
}
// kInvalidArgument unless the packet has exactly this size and this many descriptors.
absl::Status CheckPacket(const Packet& packet, size_t size, size_t fds);
template <typename Message>
absl::StatusOr<Message> Decode(const Packet& packet, size_t fds = 0) {
  if (absl::Status status = CheckPacket(packet, sizeof(Message), fds); !status.ok()) return status;
  Message message;
  std::memcpy(&message, packet.bytes.data(), sizeof(message));
  return message;
}

// A MAD, or a part of one, in a packet, whose bytes it uses.
struct AddressedMad {
  Lid lid;
  absl::Span<const uint8_t> mad;  // 1 to kMaxMadPart bytes
};
// `type`: kMad or kMadPart.
Packet EncodeMad(Lid lid, absl::Span<const uint8_t> mad, MessageType type = MessageType::kMad);
// kInvalidArgument if the packet has another length, descriptors, or a LID of more than 16 bits.
absl::StatusOr<AddressedMad> DecodeMad(const Packet& packet);

PortConfigMessage ToMessage(const PortConfig& config);
absl::StatusOr<PortConfig> FromMessage(const PortConfigMessage& message);
SourceMessage ToMessage(MessageType type, uint64_t ring, const SourceIdentity& source);
absl::StatusOr<SourceIdentity> FromMessage(const SourceMessage& message);
GroupMessage ToMessage(Mlid mlid, const std::vector<Lid>& members);
absl::StatusOr<std::vector<Lid>> MembersOf(const GroupMessage& message);
FaultsMessage ToMessage(const std::vector<FaultRule>& rules);
absl::StatusOr<std::vector<FaultRule>> RulesOf(const FaultsMessage& message);
// PutText cuts the text to the field and ends it with a zero byte. TextOf stops at the field's end.
void PutText(absl::string_view text, char* field, size_t size);
std::string TextOf(const char* field, size_t size);

// The descriptors of a RingEnd, in the order of its members. FromDescriptors needs all four.
std::vector<UniqueFd> ToDescriptors(RingEnd end);
RingEnd FromDescriptors(uint64_t capacity, std::vector<UniqueFd> fds);
// Checks a ring from another process before it is passed on: memory that the consumer can map, and
// an eventfd.
absl::Status CheckRingEnd(const RingEnd& end);
bool IsEventFd(int fd);
// Duplicates a descriptor, closed at exec. Invalid if the process is out of descriptors.
UniqueFd Duplicate(int fd);

// Takes a packet from a non-blocking socket. kUnavailable: none now. kDataLoss: the other end is
// gone. kInvalidArgument: the packet was cut short. A packet whose descriptors were lost comes
// without any.
absl::StatusOr<Packet> ReceivePacket(int socket);

// A bounded queue in front of a non-blocking socket: packets that the kernel does not take wait in
// order. A stopped process at the other end therefore blocks no sender. Not thread-safe.
class PacketQueue {
 public:
  // The subject of a message: a group or a report.
  using Subject = std::pair<MessageType, uint64_t>;

  explicit PacketQueue(size_t limit) : limit_(limit) {}

  // kResourceExhausted if the queue is full; another error if the socket is broken.
  absl::Status Send(int socket, Packet packet);
  // Replaces a waiting message on the same subject. Not subject to the limit.
  absl::Status SendLatest(int socket, Packet packet, const Subject& subject);
  absl::Status Flush(int socket);
  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }
  void Clear();

 private:
  struct Waiting {
    Packet packet;
    absl::optional<Subject> subject;  // none: counts against the limit
  };

  absl::Status Add(int socket, Waiting waiting);
  void RemoveFirst();

  const size_t limit_;
  size_t counted_ = 0;  // messages of Send
  std::list<Waiting> waiting_;
  std::map<Subject, std::list<Waiting>::iterator> by_subject_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_FABRIC_PROTOCOL_H_
