// GroupMembership: this port's membership in one multicast group, and what its record says.
//
// One group of each partition is its constitution (a VES's flood group, IPoIB's broadcast group: RFC 4391 §5): Q_Key, MTU, SL,
// rate, traffic class and hop limit of all that is sent there come from its record. The first full member creates it;
// everybody else joins what is there. Both may happen at once on several hosts: all ask for the same parameters, so whoever
// comes second joins. Other groups are created like the constitution (§10), or have to exist for who only sends to them. A
// limited member cannot create a group (its P_Key would be the group's) and waits for a full one. What the record says is
// checked before it is believed, and a refusal is explained, for which the group is asked for: an SA refuses a port whose MTU
// or rate is below the group's without saying so. A refused join is repeated after 100 ms, doubling up to 16 s, and at once
// when the subnet says that the group is there; an unanswered one after 100 ms.
//
// Control thread only.
#ifndef EOIB_CONTROL_GROUP_MEMBERSHIP_H_
#define EOIB_CONTROL_GROUP_MEMBERSHIP_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/config.h"
#include "fdb/clock.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/sa_client.h"
#include "vswitch/fabric/ud_endpoint.h"

namespace eoib {

// Of the groups that `parameters` make, and on an Ethernet link layer of all paths. There it is 1 at least.
uint8_t HopLimit(const GroupParameters& parameters, bool ethernet_link_layer);

class GroupMembership {
 public:
  struct Options {
    Mgid mgid;
    PKey pkey;  // as in the port's table: full or limited
    QKey qkey;  // this and what follows: for a group that has to be created
    GroupParameters parameters;
    // Another group than the constitution, whose record is here: it is created like that one, and one that differs from it in
    // Q_Key or has a smaller MTU is refused.
    absl::optional<McMemberRecord> like;
    uint8_t join_state = kFullMember;  // or kNonMember, kSendOnlyNonMember; only a full member creates
    bool may_create = true;
    const char* what = "flood group";         // in messages
    bool quiet = false;                       // a refusal is nothing that an operator has to know of
    std::function<void()> on_failed = [] {};  // a join was refused or not answered
  };
  // What the record says, for the forwarder and the ports.
  struct Joined {
    AhIndex ah;
    Mlid mlid;
    QKey qkey;
    int mtu_bytes;  // of the group: a UD payload, so the header of the encapsulation and what it carries
    McMemberRecord record;
  };
  using OnChange = std::function<void(const absl::optional<Joined>&)>;

  // `sa` is null on an Ethernet link layer, which has none: the group is then what the options say it is, for each member by
  // itself. All pointers outlive the object. `on_change` hears of each join, and of the loss of the group (nothing).
  GroupMembership(const Options& options, Hca* hca, SaClient* sa, AddressHandles* handles, UdEndpoint* endpoint,
                  const Clock* clock, OnChange on_change);
  ~GroupMembership();

  // Joins, or joins again: the SM may have forgotten us. Membership that is confirmed unchanged stays as it is, without a gap.
  void Join();
  // The same, and puts address handle and attachment into effect anew: the link was away, a LID changed.
  void Renew();
  // The subnet says that the group was created, or deleted.
  void OnCreated();
  void OnDeleted();
  // The port went down: the SM forgets us. Attached QPs stay attached.
  void Lost(absl::string_view why);
  // Another queue pair takes the former one's place, with that P_Key; null: there is none now, Lost with a reason comes before.
  // It is attached at once if the former one was; Renew follows.
  void Rebind(UdEndpoint* endpoint, PKey pkey);
  // Detaches and tells the SA; `done` is called when it has answered or given up: at once, if there is nobody to tell. It may
  // destroy this object.
  void Leave(std::function<void()> done);

  // Repeats what is due.
  void Run();
  absl::Time NextDeadline() const { return retry_at_; }

  const absl::optional<Joined>& joined() const { return joined_; }
  // Not joined, and the SA had no group, or none for us, when it was asked last. An SA that does not answer refuses nothing.
  bool refused() const { return refused_ && !joined_.has_value(); }
  const Mgid& mgid() const { return options_.mgid; }
  // Why there is no membership, for `eoibctl show`.
  const std::string& trouble() const { return trouble_; }

 private:
  void Request(bool create);
  void Answered(bool create, uint64_t attempt, absl::StatusOr<McMemberRecord> answer);
  void Explain(const absl::Status& refusal, uint64_t attempt);
  void Refused(const absl::Status& why);
  absl::Status Check(const McMemberRecord& record) const;
  void Adopt(const McMemberRecord& record);
  void Fail(const absl::Status& why);
  void Forget();
  absl::Status PutIntoEffect(const McMemberRecord& record);
  void AskSoon();
  McMemberRecord BaseRecord(const HcaPortInfo& port) const;
  absl::Status CheckLike(const McMemberRecord& record) const;
  absl::Status CheckMtu(const HcaPortInfo& port) const;
  bool Attaches() const { return options_.join_state != kSendOnlyNonMember; }
  bool Creates() const { return options_.may_create && options_.join_state == kFullMember && options_.pkey.IsFullMember(); }
  bool IsConstitution() const { return !options_.like.has_value(); }

  Options options_;
  Hca* const hca_;
  SaClient* const sa_;
  AddressHandles* const handles_;
  UdEndpoint* endpoint_;
  const Clock* const clock_;
  const OnChange on_change_;

  absl::optional<Joined> joined_;
  absl::optional<Mlid> attached_;
  std::string trouble_ = "not asked yet";
  bool leaving_ = false;
  bool renew_ = false;    // attach again though the MLID is the same
  bool asking_ = false;   // the SA has our question
  bool again_ = false;    // and a refusal may be from before the group was created
  bool asked_ = false;    // the SA may have made us a member
  bool refused_ = false;  // by the last answer
  uint64_t attempt_ = 0;  // answers to earlier attempts are stale
  absl::Duration backoff_;
  absl::Time retry_at_ = absl::InfiniteFuture();
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace eoib

#endif  // EOIB_CONTROL_GROUP_MEMBERSHIP_H_
