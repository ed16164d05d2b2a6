// The seam inside the software fabric, between an HCA (rings, queue pairs: soft_port.h) and the subnet (LIDs, P_Keys, groups,
// SA: subnet.h).
//
// A port holds a SubnetLink and gives it a PortSink. In one process the link is a direct call into a Subnet; across processes
// it is a socket to eoib-fabricd (fabric_client.h and fabric_server.h), which holds the Subnet. Either way the subnet never
// sees a datagram: it introduces ports to one another, and rings between them carry the datagrams.
//
// Trust. What a receiver believes about a datagram's source (LID, GID, P_Keys, QPN range) is what the subnet said in
// SourceIdentity, never what the ring's bytes say.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LINK_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "fdb/address.h"
#include "vswitch/fabric/softhca/fault_rule.h"
#include "vswitch/fabric/unique_fd.h"
#include "vswitch/wire/mad.h"

namespace eoib::softhca {

class CountersPage;  // counters_page.h
class RingMemory;    // ring_memory.h

// The range of queue pair numbers a registration may use; a new one, at random, for each registration, so that a restarted
// process never has the QPNs of its predecessor.
struct QpnRange {
  Qpn first;
  uint32_t count = 0;

  bool Contains(Qpn qpn) const { return qpn.value() >= first.value() && qpn.value() - first.value() < count; }
};

// Which subnet has made a ring: the upper half of its identifier, at random for each run of a subnet.
constexpr uint64_t SubnetOfRing(uint64_t ring) { return ring >> 32; }

inline constexpr Lid kPermissiveLid{0xffff};  // of packets along a directed route (IBA 1.4 §14.2.1.2)
inline constexpr size_t kMaxPKeys = 128;      // of a port's P_Key table

// A port as the subnet manager has configured it.
struct PortConfig {
  bool active = false;  // link up and configured
  Guid node_guid;
  Guid port_guid;
  Gid gid;  // default subnet prefix and port GUID
  Lid lid;  // stays with the port's name over restarts of its process
  Lid sm_lid;
  uint8_t mtu = 5;          // IbMtu's code: 4096
  uint8_t rate = 3;         // IBA rate code
  std::vector<PKey> pkeys;  // the P_Key table; index 0 is the default partition unless configured otherwise
  QpnRange qpns;
  uint32_t reregistrations = 0;  // how often the port was asked to join and subscribe anew (CLIENT_REREGISTER)
};

// The source of a ring, in the subnet's words.
struct SourceIdentity {
  Lid lid;
  Gid gid;
  std::vector<PKey> pkeys;
  QpnRange qpns;
};

// One end of a ring on its way to the other port. Across processes the descriptors are set; in one process `local` is.
// Descriptors: `data` (the records; the consumer maps it read-only), `index` (head, tail and flags), `space` (the producer's
// eventfd, rung when a consumer made room that was wanted), `liveness` (a pipe's reading end: it hangs up when the producer has
// died, and the writing end, which the producer keeps, is in error when the consumer has).
struct RingEnd {
  uint64_t capacity = 0;  // bytes of data, a power of two
  UniqueFd data;
  UniqueFd index;
  UniqueFd space;
  UniqueFd liveness;
  std::shared_ptr<RingMemory> local;
};

// What a port shows of itself at its registration. The link duplicates the descriptors and shares the pages.
struct PortResources {
  int doorbell = -1;                             // an eventfd; an owner's only
  std::shared_ptr<const CountersPage> counters;  // what the port counts, for the subnet to read at any time; likewise
};

// What a process wants of a port.
enum class PortUse : uint8_t {
  kOwn,     // to send and receive datagrams: one process at a time
  kManage,  // to send MADs, beside the owner or without one: any number. While there is one, the port is up
  kQuery,   // to be told its configuration: any number. Such a process makes no port
};

// What a subnet tells a port. Calls come one at a time, from the link's thread (socket) or from inside a SubnetLink call or
// another port's (in process); an implementation must not call its SubnetLink from within.
class PortSink {
 public:
  virtual ~PortSink() = default;

  // The port's configuration, at registration and whenever it changes. The link is up or down by `active`.
  virtual void OnPortConfig(const PortConfig& config) = 0;
  // A MAD for this port: an answer to one that this process has sent, or a report, which all processes of the port hear of.
  // `source` is the sender's LID as a completion would show it: of an answer along a directed route, kPermissiveLid.
  virtual void OnMad(Lid source, const Mad& mad) = 0;
  // `source` has made a ring to this port: consume it from now on. Ring identifiers are the subnet's and never reused. An end
  // that is empty has found no room among this process's descriptors: the ring is only to be closed.
  virtual void OnRingOffered(uint64_t ring, const SourceIdentity& source, RingEnd end) = 0;
  // The identity behind a ring changed (LID, P_Keys).
  virtual void OnSourceChanged(uint64_t ring, const SourceIdentity& source) = 0;
  // The other end of a ring is gone, or closed it: a producer drops it and opens another when it needs one; a consumer takes
  // what is still in it, then drops it.
  virtual void OnRingClosed(uint64_t ring) = 0;
  // The answer to OpenRing(request): the ring's identifier and the destination's doorbell, which the producer rings after
  // writing (null if this process had no room for it: the ring is only to be closed). Or a refusal: no such LID, or that port
  // is down.
  virtual void OnRingOpened(uint64_t request, uint64_t ring, std::shared_ptr<UniqueFd> doorbell) = 0;
  virtual void OnRingRefused(uint64_t request, const std::string& why) = 0;
  // The member ports of a multicast group: every port that joined as full member or non-member, this one too if it did. An
  // empty list ends the group. Any member of the group's partition may send, so all of them are told; other ports are told that
  // the group has no members.
  virtual void OnGroup(Mlid mlid, const std::vector<Lid>& members) = 0;
  // The faults to simulate on datagrams to this port, in place of those it was told before.
  virtual void OnFaults(const std::vector<FaultRule>& rules) = 0;
  // The link to the subnet is lost (fabricd died). Rings go on. The link re-registers by itself, and OnPortConfig tells when.
  virtual void OnSubnetLost() = 0;
};

// What a port tells its subnet. Any thread; never blocks for longer than a socket write to a local process.
class SubnetLink {
 public:
  virtual ~SubnetLink() = default;

  // True if the other ports live in this process: RingEnd::local is then enough, and no descriptors are made.
  virtual bool in_process() const { return false; }

  // Registers the port under its name, offering `resources.doorbell` to those who will make rings to it. The
  // configuration comes by OnPortConfig, from within this call or soon after. kAlreadyExists: a living process owns the port;
  // kNotFound: it is only to be queried, and there is none of that name.
  virtual absl::Status Register(const std::string& name, const PortResources& resources, PortUse use, PortSink* sink) = 0;
  // No call to the sink is made after it returns. An owner's rings, groups and QPN range end; the LID stays with the name.
  virtual void Unregister() = 0;

  // Sends a MAD to whatever answers its class at a LID, or along its directed route; 0: the subnet manager's. The answer, if
  // there is one, comes by OnMad.
  virtual absl::Status SendMadTo(Lid destination, const Mad& mad) = 0;
  absl::Status SendMad(const Mad& mad) { return SendMadTo(Lid(), mad); }
  // Asks for a ring to the port of `destination`; answered by OnRingOpened or OnRingRefused(request). The producer may write
  // into the ring at once.
  virtual absl::Status OpenRing(uint64_t request, Lid destination, RingEnd end) = 0;
  virtual void CloseRing(uint64_t ring) = 0;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LINK_H_
