// SubnetLink and PortSink: the seam inside the software fabric, between a port of the HCA
// (soft_port.h) and the subnet (subnet.h). In one process the link calls a Subnet directly; across
// processes it is a socket (fabric_client.h, fabric_server.h) to eoib-fabricd. The subnet never
// sees a datagram: it connects ports by rings.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LINK_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/fault_rule.h"
#include "vswitch/wire/ib/mad.h"

namespace eoib::softhca {

class CountersPage;  // counters_page.h
class RingMemory;    // ring_memory.h

// The queue pair numbers that a registration may use. A new process gets a range at random, never
// its predecessor's; a process that registers again with a restarted fabricd may keep its own.
struct QpnRange {
  Qpn first;
  uint32_t count = 0;

  bool Contains(Qpn qpn) const {
    return qpn.value() >= first.value() && qpn.value() - first.value() < count;
  }
};

// The subnet that made a ring: the upper half of the ring's identifier, which is random for each
// run of a subnet.
constexpr uint64_t SubnetOfRing(uint64_t ring) { return ring >> 32; }

inline constexpr Lid kPermissiveLid{0xffff};  // for directed-route packets (IBA 1.4 §14.2.1.2)
inline constexpr size_t kMaxPKeys = 128;      // entries of a port's P_Key table
// Bytes of a MAD that is a table (sa_table.h): 65,535 paths.
inline constexpr size_t kMaxMad = 4 << 20;

// A port as the subnet manager has configured it.
struct PortConfig {
  bool active = false;  // link up and configured
  Guid node_guid;
  Guid port_guid;
  Gid gid;  // default subnet prefix and port GUID
  Lid lid;  // belongs to the port's name; survives restarts of its process
  Lid sm_lid;
  uint8_t mtu = 5;   // IbMtu's code: 4096
  uint8_t rate = 3;  // IBA rate code
  // The P_Key table; index 0 is the default partition unless configured otherwise.
  std::vector<PKey> pkeys;
  QpnRange qpns;
  // How often the port was asked to rejoin and resubscribe (CLIENT_REREGISTER)
  uint32_t reregistrations = 0;
};

// The source of a ring, as the subnet reports it.
struct SourceIdentity {
  Lid lid;
  Gid gid;
  std::vector<PKey> pkeys;
  QpnRange qpns;
};

// One end of a ring, on its way to the other port. In one process `local` is set; across processes
// these descriptors are: `data` (the records; the consumer maps it read-only), `index` (head, tail
// and flags), `space` (the producer's eventfd, which the consumer rings when it has made room), and
// `liveness` (the reading end of a pipe: it hangs up when the producer dies, and the producer's
// writing end reports an error when the consumer does).
struct RingEnd {
  uint64_t capacity = 0;  // bytes of data, a power of two
  UniqueFd data;
  UniqueFd index;
  UniqueFd space;
  UniqueFd liveness;
  std::shared_ptr<RingMemory> local;
};

// An owner's resources, passed at registration. The link duplicates the descriptor and shares the
// page.
struct PortResources {
  int doorbell = -1;                             // an eventfd; owners only
  std::shared_ptr<const CountersPage> counters;  // readable by the subnet at any time; owners only
};

// How a process uses a port.
enum class PortUse : uint8_t {
  kOwn,     // sends and receives datagrams: one process at a time
  kManage,  // sends MADs, with or without an owner: any number. Keeps the port up
  kQuery,   // reads the configuration: any number. Does not create the port
};

// The subnet's calls to a port. They come one at a time: from the link's thread (socket), or from
// inside a SubnetLink call of this or another port (in process). An implementation must not call
// its SubnetLink from within. Only an owner needs the calls that do nothing by default.
class PortSink {
 public:
  virtual ~PortSink() = default;

  // The port's configuration, at registration and at each change. `active` says whether the link is
  // up.
  virtual void OnPortConfig(const PortConfig& config) = 0;
  // A MAD for this port: an answer to this process, or a report, which all processes of the port
  // get. It has 256 bytes, or is a whole table (sa_table.h). `source` is the sender's LID as a
  // completion would show it; kPermissiveLid for an answer along a directed route.
  virtual void OnMad(Lid source, absl::Span<const uint8_t> mad) = 0;
  // `source` has made a ring to this port: consume it from now on. The subnet assigns ring
  // identifiers and never reuses them. If `end` is empty, this process had no descriptors left;
  // just close the ring.
  virtual void OnRingOffered(uint64_t ring, const SourceIdentity& source, RingEnd end) {}
  // The identity behind a ring changed (LID, P_Keys).
  virtual void OnSourceChanged(uint64_t ring, const SourceIdentity& source) {}
  // The other end of a ring is gone or closed it. A producer drops it and opens another when
  // needed; a consumer takes the records that are left, then drops it.
  virtual void OnRingClosed(uint64_t ring) {}
  // OpenRing(request) succeeded: the ring's identifier, and the destination's doorbell, which the
  // producer rings after writing. If the doorbell is null, this process had no descriptor left;
  // just close the ring. OnRingRefused: there is no such LID, or that port is down.
  virtual void OnRingOpened(uint64_t request, uint64_t ring, std::shared_ptr<UniqueFd> doorbell) {}
  virtual void OnRingRefused(uint64_t request) {}
  // The ports that receive a group's datagrams: each full member and non-member, including this
  // port if it joined. An empty list ends the group. All ports of the group's partition get the
  // list, because any of them may send; other ports get an empty list.
  virtual void OnGroup(Mlid mlid, const std::vector<Lid>& members) {}
  // Replaces the faults to simulate on datagrams to this port.
  virtual void OnFaults(const std::vector<FaultRule>& rules) {}
  // The link to the subnet is lost (fabricd died). Rings go on. The link registers again by itself;
  // then OnPortConfig is called.
  virtual void OnSubnetLost() {}
};

// The port's calls to its subnet. Any thread. A call blocks no longer than a socket write to a
// local process takes.
class SubnetLink {
 public:
  virtual ~SubnetLink() = default;

  // True if the other ports are in this process; then RingEnd::local suffices and no descriptors
  // are made.
  virtual bool in_process() const { return false; }

  // Registers the port under its name. The configuration comes by OnPortConfig, from within this
  // call or soon after. kAlreadyExists: a living process owns the port. kNotFound: a query names a
  // port that does not exist.
  virtual absl::Status Register(const std::string& name, const PortResources& resources,
                                PortUse use, PortSink* sink) = 0;
  // The sink is not called after it returns. An owner's rings, groups and QPN range end; the LID
  // stays with the name.
  virtual void Unregister() = 0;

  // OK while the subnet can be reached. Else what is wrong and what to do. Registration says so as
  // well.
  virtual absl::Status status() const { return absl::OkStatus(); }

  // Sends a MAD to the agent of its class at a LID, or along its directed route; LID 0 is the
  // subnet manager's. The answer, if any, comes by OnMad.
  virtual absl::Status SendMadTo(Lid destination, const Mad& mad) = 0;
  absl::Status SendMad(const Mad& mad) { return SendMadTo(Lid(), mad); }
  // Asks for a ring to the port with LID `destination`. OnRingOpened or OnRingRefused(request)
  // answers. The producer may write into the ring at once.
  virtual absl::Status OpenRing(uint64_t request, Lid destination, RingEnd end) = 0;
  virtual void CloseRing(uint64_t ring) = 0;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LINK_H_
