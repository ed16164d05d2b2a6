#include "vswitch/fabric/softhca/fabric_protocol.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/softhca/ring_memory.h"

namespace eoib::softhca {
namespace {

PKeyTable ToTable(const std::vector<PKey>& pkeys) {
  PKeyTable table;
  table.count = static_cast<uint32_t>(std::min(pkeys.size(), kMaxPKeys));
  for (uint32_t i = 0; i < table.count; ++i) table.pkeys[i] = pkeys[i].value();
  return table;
}

absl::StatusOr<std::vector<PKey>> FromTable(const PKeyTable& table) {
  if (table.count > kMaxPKeys)
    return absl::InvalidArgumentError(absl::StrCat("a P_Key table of ", table.count, " entries"));
  std::vector<PKey> pkeys;
  for (uint32_t i = 0; i < table.count; ++i) pkeys.push_back(PKey(table.pkeys[i]));
  return pkeys;
}

absl::Status CheckQpns(uint32_t first, uint32_t count) {
  if (first <= Qpn::kMax && count <= Qpn::kMax + 1 - first) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a range of ", count, " QPNs from ", first));
}

// Room for the descriptors of one message, aligned as CMSG wants it.
union ControlBuffer {
  cmsghdr align;
  char bytes[CMSG_SPACE(kRingDescriptors * sizeof(int))];
};

// Returns 0 or an errno.
int SendNow(int socket, const Packet& packet) {
  iovec bytes{const_cast<char*>(packet.bytes.data()), packet.bytes.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  ControlBuffer control{};
  if (!packet.fds.empty()) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(packet.fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(packet.fds.size() * sizeof(int));
    std::array<int, kRingDescriptors> fds;
    for (size_t i = 0; i < packet.fds.size(); ++i) fds[i] = packet.fds[i].get();
    std::memcpy(CMSG_DATA(header), fds.data(), packet.fds.size() * sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

void TakeDescriptors(msghdr* message, std::vector<UniqueFd>* fds) {
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
      fds->emplace_back(fd);
    }
  }
}

}  // namespace

MessageType Packet::type() const {
  MessageType type = MessageType::kRegister;
  if (bytes.size() >= sizeof(type)) std::memcpy(&type, bytes.data(), sizeof(type));
  return type;
}

absl::optional<uint32_t> Packet::version() const {
  uint32_t version;
  if (bytes.size() < sizeof(MessageType) + sizeof(version)) return absl::nullopt;
  std::memcpy(&version, bytes.data() + sizeof(MessageType), sizeof(version));
  return version;
}

absl::Status CheckPacket(const Packet& packet, size_t size, size_t fds) {
  if (packet.bytes.size() == size && packet.fds.size() == fds) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "message of type ", static_cast<uint32_t>(packet.type()), ": ", packet.bytes.size(),
      " bytes and ", packet.fds.size(), " descriptors instead of ", size, " and ", fds));
}

Packet EncodeMad(Lid lid, absl::Span<const uint8_t> mad, MessageType type) {
  MadMessage message;
  message.type = type;
  message.lid = lid.value();
  Packet packet = Encode(message);
  packet.bytes.append(mad.begin(), mad.end());
  return packet;
}

absl::StatusOr<AddressedMad> DecodeMad(const Packet& packet) {
  const size_t size = packet.bytes.size();
  if (size <= sizeof(MadMessage) || size > sizeof(MadMessage) + kMaxMadPart ||
      !packet.fds.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a MAD in ", size, " bytes, with ", packet.fds.size(), " descriptors"));
  }
  MadMessage message;
  std::memcpy(&message, packet.bytes.data(), sizeof(message));
  if (message.lid > UINT16_MAX)
    return absl::InvalidArgumentError(absl::StrCat("a MAD of LID ", message.lid));
  const auto* bytes = reinterpret_cast<const uint8_t*>(packet.bytes.data());
  return AddressedMad{Lid(static_cast<uint16_t>(message.lid)),
                      absl::MakeSpan(bytes, size).subspan(sizeof(message))};
}

PortConfigMessage ToMessage(const PortConfig& config) {
  PortConfigMessage message;
  message.lid = config.lid.value();
  message.sm_lid = config.sm_lid.value();
  message.node_guid = config.node_guid.value();
  message.port_guid = config.port_guid.value();
  config.gid.ToWire(message.gid);
  message.active = config.active;
  message.mtu = config.mtu;
  message.rate = config.rate;
  message.first_qpn = config.qpns.first.value();
  message.qpns = config.qpns.count;
  message.pkeys = ToTable(config.pkeys);
  message.reregistrations = config.reregistrations;
  return message;
}

absl::StatusOr<PortConfig> FromMessage(const PortConfigMessage& message) {
  absl::StatusOr<std::vector<PKey>> pkeys = FromTable(message.pkeys);
  if (!pkeys.ok()) return pkeys.status();
  if (absl::Status status = CheckQpns(message.first_qpn, message.qpns); !status.ok()) return status;
  PortConfig config;
  config.active = message.active != 0;
  config.node_guid = Guid(message.node_guid);
  config.port_guid = Guid(message.port_guid);
  config.gid = Gid::FromWire(message.gid);
  config.lid = Lid(message.lid);
  config.sm_lid = Lid(message.sm_lid);
  config.mtu = message.mtu;
  config.rate = message.rate;
  config.pkeys = *std::move(pkeys);
  config.qpns = QpnRange{Qpn(message.first_qpn), message.qpns};
  config.reregistrations = message.reregistrations;
  return config;
}

SourceMessage ToMessage(MessageType type, uint64_t ring, const SourceIdentity& source) {
  SourceMessage message;
  message.type = type;
  message.lid = source.lid.value();
  message.ring = ring;
  source.gid.ToWire(message.gid);
  message.first_qpn = source.qpns.first.value();
  message.qpns = source.qpns.count;
  message.pkeys = ToTable(source.pkeys);
  return message;
}

absl::StatusOr<SourceIdentity> FromMessage(const SourceMessage& message) {
  absl::StatusOr<std::vector<PKey>> pkeys = FromTable(message.pkeys);
  if (!pkeys.ok()) return pkeys.status();
  if (absl::Status status = CheckQpns(message.first_qpn, message.qpns); !status.ok()) return status;
  if (message.lid > Lid::kMax)
    return absl::InvalidArgumentError(absl::StrCat("a source with LID ", message.lid));
  SourceIdentity source;
  source.lid = Lid(static_cast<uint16_t>(message.lid));
  source.gid = Gid::FromWire(message.gid);
  source.pkeys = *std::move(pkeys);
  source.qpns = QpnRange{Qpn(message.first_qpn), message.qpns};
  return source;
}

GroupMessage ToMessage(Mlid mlid, const std::vector<Lid>& members) {
  GroupMessage message;
  message.mlid = mlid.value();
  message.count = static_cast<uint16_t>(std::min(members.size(), kMaxGroupMembers));
  for (size_t i = 0; i < message.count; ++i) message.members[i] = members[i].value();
  return message;
}

absl::StatusOr<std::vector<Lid>> MembersOf(const GroupMessage& message) {
  if (message.count > kMaxGroupMembers)
    return absl::InvalidArgumentError(absl::StrCat("a group of ", message.count, " ports"));
  std::vector<Lid> members;
  for (size_t i = 0; i < message.count; ++i) members.push_back(Lid(message.members[i]));
  return members;
}

FaultsMessage ToMessage(const std::vector<FaultRule>& rules) {
  FaultsMessage message;
  message.count = static_cast<uint32_t>(std::min(rules.size(), kMaxFaultRules));
  for (size_t i = 0; i < message.count; ++i) {
    const FaultRule& rule = rules[i];
    FaultMessage& to = message.rules[i];
    rule.source.value_or(Gid()).ToWire(to.source);
    to.any_source = !rule.source.has_value();
    to.loss_ppm = rule.loss_ppm;
    to.duplicate_ppm = rule.duplicate_ppm;
    to.reorder_ppm = rule.reorder_ppm;
    to.delay_nanos = static_cast<uint64_t>(absl::ToInt64Nanoseconds(rule.delay));
    to.seed = rule.seed;
  }
  return message;
}

absl::StatusOr<std::vector<FaultRule>> RulesOf(const FaultsMessage& message) {
  if (message.count > kMaxFaultRules)
    return absl::InvalidArgumentError(absl::StrCat(message.count, " rules of faults"));
  std::vector<FaultRule> rules(message.count);
  for (size_t i = 0; i < message.count; ++i) {
    const FaultMessage& from = message.rules[i];
    FaultRule& rule = rules[i];
    if (from.any_source == 0) rule.source = Gid::FromWire(from.source);
    rule.loss_ppm = from.loss_ppm;
    rule.duplicate_ppm = from.duplicate_ppm;
    rule.reorder_ppm = from.reorder_ppm;
    rule.delay = absl::Nanoseconds(from.delay_nanos);
    rule.seed = from.seed;
    if (absl::Status status = CheckFaultRule(rule); !status.ok()) return status;
  }
  return rules;
}

void PutText(absl::string_view text, char* field, size_t size) {
  const size_t length = std::min(text.size(), size - 1);
  std::copy_n(text.begin(), length, field);
  std::memset(field + length, 0, size - length);
}

std::string TextOf(const char* field, size_t size) {
  return std::string(field, strnlen(field, size));
}

std::vector<UniqueFd> ToDescriptors(RingEnd end) {
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(end.data));
  fds.push_back(std::move(end.index));
  fds.push_back(std::move(end.space));
  fds.push_back(std::move(end.liveness));
  return fds;
}

RingEnd FromDescriptors(uint64_t capacity, std::vector<UniqueFd> fds) {
  RingEnd end;
  end.capacity = capacity;
  end.data = std::move(fds[0]);
  end.index = std::move(fds[1]);
  end.space = std::move(fds[2]);
  end.liveness = std::move(fds[3]);
  return end;
}

absl::Status CheckRingEnd(const RingEnd& end) {
  if (absl::Status status = RingMemory::Check(end.data.get(), end.index.get(), end.capacity);
      !status.ok())
    return status;
  if (!IsEventFd(end.space.get()))
    return absl::InvalidArgumentError("a ring's space descriptor is not an eventfd");
  return absl::OkStatus();
}

bool IsEventFd(int fd) {
  char target[64];
  const ssize_t length =
      readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), target, sizeof(target));
  return length > 0 &&
         absl::string_view(target, static_cast<size_t>(length)) == "anon_inode:[eventfd]";
}

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

absl::StatusOr<Packet> ReceivePacket(int socket) {
  std::array<char, kMaxMessage + 1> buffer;
  iovec bytes{buffer.data(), buffer.size()};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  ssize_t received;
  do {
    received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    return absl::UnavailableError("nothing to receive");
  if (received < 0)
    return absl::DataLossError(absl::StrCat("receive a message: ", std::strerror(errno)));

  Packet packet;
  TakeDescriptors(&message, &packet.fds);
  // The kernel cuts descriptors off if the message has too many, or if this process has reached its
  // limit.
  const bool fds_cut = (message.msg_flags & MSG_CTRUNC) != 0;
  if ((message.msg_flags & MSG_TRUNC) != 0)
    return absl::InvalidArgumentError("a message is too long");
  if (fds_cut && packet.fds.size() == kRingDescriptors)
    return absl::InvalidArgumentError("a message has too many descriptors");
  // The message had room, so this process is out of descriptors. The sender has done nothing wrong.
  packet.fds_lost = fds_cut;
  if (fds_cut) packet.fds.clear();
  // An empty packet looks like the end of the connection, and no peer sends one.
  if (received == 0) return absl::DataLossError("the other end has closed the connection");
  packet.bytes.assign(buffer.data(), static_cast<size_t>(received));
  return packet;
}

absl::Status PacketQueue::Send(int socket, Packet packet) {
  if (counted_ >= limit_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("send a message: ", limit_, " are waiting already"));
  }
  ++counted_;
  return Add(socket, {std::move(packet), absl::nullopt});
}

absl::Status PacketQueue::SendLatest(int socket, Packet packet, const Subject& subject) {
  const auto before = by_subject_.find(subject);
  if (before == by_subject_.end()) return Add(socket, {std::move(packet), subject});
  before->second->packet = std::move(packet);
  return Flush(socket);
}

absl::Status PacketQueue::Add(int socket, Waiting waiting) {
  waiting_.push_back(std::move(waiting));
  if (waiting_.back().subject.has_value())
    by_subject_[*waiting_.back().subject] = std::prev(waiting_.end());
  return Flush(socket);
}

void PacketQueue::RemoveFirst() {
  const absl::optional<Subject>& subject = waiting_.front().subject;
  subject.has_value() ? void(by_subject_.erase(*subject)) : void(--counted_);
  waiting_.pop_front();
}

void PacketQueue::Clear() {
  counted_ = 0;
  waiting_.clear();
  by_subject_.clear();
}

absl::Status PacketQueue::Flush(int socket) {
  while (!waiting_.empty()) {
    const int error = SendNow(socket, waiting_.front().packet);
    if (error == EAGAIN || error == EWOULDBLOCK) return absl::OkStatus();
    if (error != 0)
      return absl::DataLossError(absl::StrCat("send a message: ", std::strerror(error)));
    RemoveFirst();
  }
  return absl::OkStatus();
}

}  // namespace eoib::softhca
