// UmadAgents: what the kernel does with MADs between programs and a port (drivers/infiniband/core, mad.c and user_mad.c of
// Linux 6.x), for one process and its one port.
//
// A file is what a program has opened (/dev/infiniband/umadN there): it has agents, and a queue of what arrived for them. As
// the kernel:
//
// - A request has the number of its agent in the upper 32 bits of its transaction ID; a response keeps its own, by which
//   the answer finds its agent. What comes unasked goes to the agent that registered for its class, version and method.
// - A response is taken only while a request waits for it, from the LID that was asked. A request that nobody answers is sent
//   again as often as its sender said, then comes back with status ETIMEDOUT and the 24 bytes of its header.
// - An agent that registered with RMPP gets a table put together, behind the headers of its first segment; segments are
//   acknowledged here. One without gets segments as they come, and acknowledges them itself.
//
// Otherwise than there: no request is longer than one MAD, and RMPP is known in the class SubnAdm only.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_UMAD_AGENTS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_UMAD_AGENTS_H_

#include <infiniband/umad.h>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "fdb/address.h"
#include "vswitch/fabric/rmpp_receiver.h"
#include "vswitch/wire/mad.h"

namespace eoib::softhca {

// What umad_send is given and umad_recv gives.
struct UmadPacket {
  int agent = 0;
  int status = 0;            // 0, or ETIMEDOUT
  ib_mad_addr_t address{};   // where to, or where from
  std::vector<uint8_t> mad;  // 256 bytes; longer: a table; 24: the header of what was not answered
};

// No threads and no clock: who owns it says what time it is.
class UmadAgents {
 public:
  static constexpr size_t kMaxAgents = UMAD_CA_MAX_AGENTS;  // of a file
  static constexpr size_t kMaxWaiting = 1024;               // arrivals that a file keeps for a program which does not read

  struct Registration {
    uint8_t mgmt_class = 0;
    uint8_t class_version = 0;
    std::bitset<128> methods;  // that come unasked
    bool rmpp = false;
  };
  struct Outgoing {
    Lid destination;  // not valid along a directed route
    Mad mad;
  };

  // Files are named by their owner. Errors are errno values.
  void OpenFile(int file) { files_[file]; }
  void CloseFile(int file);
  // *agent is the lowest number that is free. EINVAL: another agent has one of the methods; ENOMEM: too many agents.
  int Register(int file, const Registration& registration, int* agent);
  // What waits for its answers is forgotten. EINVAL: there is no such agent.
  int Unregister(int file, int agent);

  // EINVAL: no such agent, not the size of a MAD, no destination, or the same question is being asked already. Without a
  // timeout nobody waits for an answer.
  int Send(int file, const UmadPacket& packet, absl::Duration timeout, int retries, absl::Time now);
  void Receive(Lid source, const Mad& mad, absl::Time now);
  // Sends again, or gives up, what was not answered in time.
  void Run(absl::Time now);
  absl::Time NextDeadline() const;  // InfiniteFuture: nothing waits

  // To be sent, in this order.
  std::vector<Outgoing> TakeOutgoing() { return std::exchange(outgoing_, {}); }
  // The first that arrived at a file, or null; it stays until Pop.
  const UmadPacket* Front(int file) const;
  void Pop(int file);

 private:
  struct Agent {
    int file;
    int number;
    Registration registration;
  };
  struct Question {
    UmadPacket packet;
    Outgoing wire;
    absl::Duration timeout;
    int retries_left;
    absl::Time deadline;                  // for the answer; once it has come, for what its sender repeats
    bool answered = false;                // kept to acknowledge the table's last segment again
    std::unique_ptr<RmppReceiver> table;  // null until a segment comes
    Mad first_segment{};
  };
  using AgentNumber = uint32_t;                                        // of all agents that ever were: the upper half of a TID
  using Questions = std::map<std::pair<uint8_t, uint64_t>, Question>;  // by class and transaction ID

  std::map<AgentNumber, Agent>::iterator Find(int file, int agent);
  Questions::iterator QuestionOf(Lid source, const Mad& mad);
  void TakeAnswer(Questions::iterator question, Lid source, const Mad& mad);
  void TakeSegment(Questions::iterator question, Lid source, const Mad& mad, absl::Time now);
  void TakeUnasked(Lid source, const Mad& mad);
  void Arrive(const Agent& agent, Lid source, std::vector<uint8_t> mad);
  void GiveBack(const Question& question);
  void Queue(int file, UmadPacket packet);

  std::map<int, std::deque<UmadPacket>> files_;
  std::map<AgentNumber, Agent> agents_;
  AgentNumber next_agent_ = 1;
  Questions questions_;
  std::vector<Outgoing> outgoing_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_UMAD_AGENTS_H_
