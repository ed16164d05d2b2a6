// SaResponder: the subnet administrator of a software subnet: multicast groups and paths, asked for in real MADs.
//
// It knows nothing of sockets, threads or sinks: a MAD in, a MAD out, and a list of groups whose members changed.
//
// MCMemberRecord Set, Delete and Get (IBA 1.4 §15.2.5.17) and PathRecord Get (§15.2.5.16) are answered; other methods and
// attributes get the status that says so. What is not a request in SubnAdm's class and version is counted and dropped.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SA_RESPONDER_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SA_RESPONDER_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/types/optional.h"
#include "fdb/address.h"
#include "vswitch/fabric/softhca/subnet_link.h"
#include "vswitch/wire/sa_mad.h"

namespace eoib::softhca {

// The active ports, as the administrator finds them. Results live until the subnet changes.
class SaPorts {
 public:
  virtual ~SaPorts() = default;
  // Null if there is no such port, or it is not active.
  virtual const PortConfig* FindByGid(const Gid& gid) const = 0;
  virtual const PortConfig* FindByLid(Lid lid) const = 0;
};

struct MulticastGroup {
  McMemberRecord record;           // the group's: PortGID zero, no join state; the P_Key in its full form
  std::map<Gid, uint8_t> members;  // port GID -> JoinState bits, never 0

  bool HasFullMember() const;
  // Those that receive: full members and non-members, not send-only ones.
  std::vector<Gid> Receivers() const;
};

// Not thread-safe: the Subnet calls it under its mutex.
class SaResponder {
 public:
  static constexpr Mlid kFirstMlid{0xc001};
  static constexpr uint8_t kPacketLife = 18;  // 4.096 us * 2^18: about a second, as OpenSM has it

  struct Counters {
    uint64_t requests = 0;   // answered, with whatever status
    uint64_t errors = 0;     // of these, those answered with another status than 0
    uint64_t malformed = 0;  // dropped
  };

  // MLIDs run from kFirstMlid to `last_mlid`. `ports` outlives the responder.
  SaResponder(const SaPorts* ports, Mlid last_mlid) : ports_(ports), last_mlid_(last_mlid) {}

  // The answer to `mad` from the port of `requester`, or none if the MAD was dropped.
  absl::optional<Mad> Respond(const PortConfig& requester, const Mad& mad);
  // A port went down or away: its memberships end, and with its last full member a group does.
  void RemovePort(const Gid& port);

  const std::map<Mgid, MulticastGroup>& groups() const { return groups_; }
  // Null if no group has that MLID.
  const MulticastGroup* FindByMlid(Mlid mlid) const;
  // The MLIDs of groups that were made, changed their receivers or ended since the last call.
  std::set<Mlid> TakeChanged();
  const Counters& counters() const { return counters_; }

 private:
  SaStatus Dispatch(const PortConfig& requester, const SaHeader& header, const Mad& mad, Mad* reply);
  SaStatus DispatchMcMember(const PortConfig& requester, const SaHeader& header, const Mad& mad, Mad* reply);

  SaStatus Join(const PortConfig& requester, uint64_t mask, McMemberRecord* record);
  SaStatus Leave(const PortConfig& requester, uint64_t mask, McMemberRecord* record);
  SaStatus GetGroup(const PortConfig& requester, uint64_t mask, McMemberRecord* record) const;
  SaStatus CreateGroup(const PortConfig& requester, uint64_t mask, const McMemberRecord& wanted);
  absl::optional<Mlid> AllocateMlid(absl::optional<Mlid> wanted);
  void RemoveMembership(std::map<Mgid, MulticastGroup>::iterator group, const Gid& port, uint8_t bits);

  SaStatus GetPath(uint64_t mask, PathRecord* record) const;

  const SaPorts* const ports_;
  const Mlid last_mlid_;
  std::map<Mgid, MulticastGroup> groups_;
  std::map<Mlid, Mgid> mlids_;  // those in use
  std::set<Mlid> changed_;
  Counters counters_;
};

// The speed of an IBA rate code in Mb/s, since codes are not in the order of speeds (§15.2.5.16); 0 for a code that is none.
uint32_t RateMbps(uint8_t code);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SA_RESPONDER_H_
