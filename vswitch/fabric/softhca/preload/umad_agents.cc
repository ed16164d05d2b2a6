#include "vswitch/fabric/softhca/preload/umad_agents.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "vswitch/fabric/softhca/subnet_link.h"
#include "vswitch/wire/ib/sa_mad.h"
#include "vswitch/wire/ib/sa_table.h"

namespace eoib::softhca {
namespace {

// The common header, IBA 1.4 §13.4.3.
constexpr size_t kClassByte = 1, kVersionByte = 2, kMethodByte = 3, kTidOffset = 8,
                 kHeaderSize = 24;
constexpr uint8_t kResponseBit = 0x80;

bool IsDirected(uint8_t mgmt_class) {
  return mgmt_class == static_cast<uint8_t>(MgmtClass::kSubnDirected);
}

bool IsSubnetManagement(uint8_t mgmt_class) {
  return IsDirected(mgmt_class) || mgmt_class == static_cast<uint8_t>(MgmtClass::kSubnLid);
}

// TrapRepress is a response without the response bit (§13.4.5).
bool IsResponse(absl::Span<const uint8_t> mad) {
  return (mad[kMethodByte] & kResponseBit) != 0 ||
         mad[kMethodByte] == static_cast<uint8_t>(MadMethod::kTrapRepress);
}

uint64_t TidOf(absl::Span<const uint8_t> mad) {
  uint64_t tid;
  std::memcpy(&tid, &mad[kTidOffset], sizeof(tid));
  return be64toh(tid);
}

void SetTid(uint64_t tid, Mad* mad) {
  const uint64_t wire = htobe64(tid);
  std::memcpy(&(*mad)[kTidOffset], &wire, sizeof(wire));
}

}  // namespace

// ---- Files and agents.

void UmadAgents::CloseFile(int file) {
  for (auto next = agents_.begin(); next != agents_.end();) {
    const auto agent = next++;
    if (agent->second.file == file) Unregister(file, agent->second.number);
  }
  files_.erase(file);
}

std::map<UmadAgents::AgentNumber, UmadAgents::Agent>::iterator UmadAgents::Find(int file,
                                                                                int agent) {
  return std::find_if(agents_.begin(), agents_.end(), [&](const auto& entry) {
    return entry.second.file == file && entry.second.number == agent;
  });
}

int UmadAgents::Register(int file, const Registration& registration, int* agent) {
  if (files_.count(file) == 0) return EINVAL;
  for (const auto& [number, other] : agents_) {
    const Registration& taken = other.registration;
    const bool same = taken.mgmt_class == registration.mgmt_class &&
                      taken.class_version == registration.class_version;
    if (same && (taken.methods & registration.methods).any()) return EINVAL;
  }
  int number = 0;
  while (Find(file, number) != agents_.end()) ++number;
  if (number >= static_cast<int>(kMaxAgents)) return ENOMEM;
  agents_[next_agent_++] = Agent{file, number, registration};
  *agent = number;
  return 0;
}

int UmadAgents::Unregister(int file, int agent) {
  const auto found = Find(file, agent);
  if (found == agents_.end()) return EINVAL;
  std::erase_if(pending_, [found](const auto& request) {
    return request.first.second >> 32 == found->first;
  });
  agents_.erase(found);
  return 0;
}

// ---- Sending.

int UmadAgents::Send(int file, const UmadPacket& packet, absl::Duration timeout, int retries,
                     absl::Time now) {
  const auto agent = Find(file, packet.agent);
  if (agent == agents_.end() || packet.mad.size() != kMadSize) return EINVAL;
  Outgoing wire;
  std::copy(packet.mad.begin(), packet.mad.end(), wire.mad.begin());
  const uint8_t mgmt_class = wire.mad[kClassByte];
  wire.destination = Lid(ntohs(packet.address.lid));
  if (IsDirected(mgmt_class)) {
    wire.destination = Lid();
  } else if (!wire.destination.IsValid()) {
    return EINVAL;
  }
  if (!IsResponse(wire.mad))
    SetTid(uint64_t{agent->first} << 32 | (TidOf(wire.mad) & 0xffff'ffff), &wire.mad);
  if (timeout > absl::ZeroDuration() && !IsResponse(wire.mad)) {
    PendingRequest& request = pending_[{mgmt_class, TidOf(wire.mad)}];
    // The kernel refuses a second request with the transaction ID of one that it waits for.
    if (request.deadline > now) return EINVAL;
    request = PendingRequest{packet, wire, timeout, retries, now + timeout};
    request.packet.mad.assign(wire.mad.begin(), wire.mad.begin() + kHeaderSize);
  }
  outgoing_.push_back(wire);
  return 0;
}

void UmadAgents::Run(absl::Time now) {
  for (auto next = pending_.begin(); next != pending_.end();) {
    const auto current = next++;
    PendingRequest& request = current->second;
    if (request.deadline > now) continue;
    if (request.retries_left-- > 0) {
      request.deadline = now + request.timeout;
      outgoing_.push_back(request.wire);
      continue;
    }
    ReturnUnanswered(request);
    pending_.erase(current);
  }
}

void UmadAgents::ReturnUnanswered(const PendingRequest& request) {
  UmadPacket packet = request.packet;
  packet.status = ETIMEDOUT;
  const auto agent = agents_.find(static_cast<AgentNumber>(TidOf(request.wire.mad) >> 32));
  if (agent != agents_.end()) Queue(agent->second.file, std::move(packet));
}

absl::Time UmadAgents::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [key, request] : pending_) next = std::min(next, request.deadline);
  return next;
}

// ---- Receiving.

void UmadAgents::Receive(Lid source, absl::Span<const uint8_t> mad) {
  if (!IsResponse(mad)) return DeliverUnsolicited(source, mad);
  const auto agent = agents_.find(static_cast<AgentNumber>(TidOf(mad) >> 32));
  if (agent == agents_.end()) return;
  if (IsSaTable(mad) && !agent->second.registration.rmpp) return;
  const auto request = FindPending(source, mad);
  if (request == pending_.end()) return;
  pending_.erase(request);
  Deliver(agent->second, source, mad);
}

// Only the LID that was asked may answer; a directed route is not checked (mad.c,
// ib_find_send_mad).
UmadAgents::PendingRequests::iterator UmadAgents::FindPending(Lid source,
                                                              absl::Span<const uint8_t> mad) {
  const auto request = pending_.find({mad[kClassByte], TidOf(mad)});
  if (request == pending_.end() || IsDirected(mad[kClassByte])) return request;
  return request->second.wire.destination == source ? request : pending_.end();
}

void UmadAgents::DeliverUnsolicited(Lid source, absl::Span<const uint8_t> mad) {
  for (const auto& [number, agent] : agents_) {
    const Registration& wanted = agent.registration;
    if (wanted.mgmt_class != mad[kClassByte] || wanted.class_version != mad[kVersionByte]) continue;
    if (wanted.methods.test(mad[kMethodByte] & ~kResponseBit)) return Deliver(agent, source, mad);
  }
}

void UmadAgents::Deliver(const Agent& agent, Lid source, absl::Span<const uint8_t> mad) {
  UmadPacket packet;
  packet.agent = agent.number;
  packet.address.lid = htons(source.value());
  packet.address.qpn = htonl(IsSubnetManagement(mad[kClassByte]) ? 0 : 1);
  packet.mad.assign(mad.begin(), mad.end());
  Queue(agent.file, std::move(packet));
}

void UmadAgents::Queue(int file, UmadPacket packet) {
  std::deque<UmadPacket>& queue = files_.at(file);
  if (queue.size() < kMaxWaiting) queue.push_back(std::move(packet));
}

const UmadPacket* UmadAgents::Front(int file) const {
  const auto found = files_.find(file);
  return found == files_.end() || found->second.empty() ? nullptr : &found->second.front();
}

void UmadAgents::Pop(int file) { files_.at(file).pop_front(); }

}  // namespace eoib::softhca
