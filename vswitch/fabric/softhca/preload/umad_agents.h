// UmadAgents: the kernel's handling of MADs between programs and a port (mad.c and user_mad.c in
// drivers/infiniband/core, Linux 6.x), for one process and one port.
//
// A file stands for an open /dev/infiniband/umadN: it has agents and a queue of received MADs. Like
// the kernel:
//
// - A request carries its agent's number in the upper 32 bits of its transaction ID, by which the
// answer finds the agent. An
//   unsolicited MAD goes to the agent that registered for its class, version and method.
// - A response is accepted only while a request waits for it, and only from the LID that was asked.
// A request without an
//   answer is retried as often as its sender asked, then returned with status ETIMEDOUT and the 24
//   bytes of its header.
// - An agent that registered with RMPP gets a whole table behind the headers of its first segment.
// The software subnet sends it
//   so.
//
// Unlike the kernel: a request is at most one MAD long, RMPP is supported in class SubnAdm only,
// and an agent without RMPP, which would acknowledge segments itself, gets no tables.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_UMAD_AGENTS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_UMAD_AGENTS_H_

#include <infiniband/umad.h>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ib/mad.h"

namespace eoib::softhca {

// The packet of umad_send and umad_recv.
struct UmadPacket {
  int agent = 0;
  int status = 0;            // 0, or ETIMEDOUT
  ib_mad_addr_t address{};   // destination, or source
  std::vector<uint8_t> mad;  // 256 bytes; more: a table; 24: the header of an unanswered request
};

// No threads and no clock: the owner passes the time.
class UmadAgents {
 public:
  static constexpr size_t kMaxAgents = UMAD_CA_MAX_AGENTS;  // of a file
  // Received MADs that a file keeps for a program that does not read.
  static constexpr size_t kMaxWaiting = 1024;

  struct Registration {
    uint8_t mgmt_class = 0;
    uint8_t class_version = 0;
    std::bitset<128> methods;  // unsolicited methods
    bool rmpp = false;
  };
  struct Outgoing {
    Lid destination;  // invalid along a directed route
    Mad mad;
  };

  // The owner chooses the file numbers. Errors are errno values.
  void OpenFile(int file) { files_[file]; }
  void CloseFile(int file);
  // *agent is the lowest free number. EINVAL: another agent registered one of the methods. ENOMEM:
  // too many agents.
  int Register(int file, const Registration& registration, int* agent);
  // Drops the agent's waiting requests. EINVAL: no such agent.
  int Unregister(int file, int agent);

  // EINVAL: no such agent, not the size of a MAD, no destination, or a request with this
  // transaction ID is waiting. Without a timeout no answer is expected.
  int Send(int file, const UmadPacket& packet, absl::Duration timeout, int retries, absl::Time now);
  void Receive(Lid source, absl::Span<const uint8_t> mad);
  // Retries or gives up requests whose deadline has passed.
  void Run(absl::Time now);
  absl::Time NextDeadline() const;  // InfiniteFuture if no request waits

  // The MADs to send, in this order.
  std::vector<Outgoing> TakeOutgoing() { return std::exchange(outgoing_, {}); }
  // The first MAD in a file's queue, or null. It stays until Pop.
  const UmadPacket* Front(int file) const;
  void Pop(int file);

 private:
  struct Agent {
    int file;
    int number;
    Registration registration;
  };
  struct PendingRequest {
    UmadPacket packet;
    Outgoing wire;
    absl::Duration timeout;
    int retries_left;
    absl::Time deadline;
  };
  // Never reused; the upper half of a TID.
  using AgentNumber = uint32_t;
  // By class and transaction ID.
  using PendingRequests = std::map<std::pair<uint8_t, uint64_t>, PendingRequest>;

  std::map<AgentNumber, Agent>::iterator Find(int file, int agent);
  PendingRequests::iterator FindPending(Lid source, absl::Span<const uint8_t> mad);
  void DeliverUnsolicited(Lid source, absl::Span<const uint8_t> mad);
  void Deliver(const Agent& agent, Lid source, absl::Span<const uint8_t> mad);
  void ReturnUnanswered(const PendingRequest& request);
  void Queue(int file, UmadPacket packet);

  std::map<int, std::deque<UmadPacket>> files_;
  std::map<AgentNumber, Agent> agents_;
  AgentNumber next_agent_ = 1;
  PendingRequests pending_;
  std::vector<Outgoing> outgoing_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_UMAD_AGENTS_H_
