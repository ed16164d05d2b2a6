// GroupMembership: this port's membership in one multicast group, and the parameters from the
// group's record.
//
// A VES's flood group, and IPoIB's broadcast group (RFC 4391 §5), set the Q_Key, MTU, SL, rate,
// traffic class and hop limit of their partition. The first full member creates the group, and all
// others join it. Other groups are created with the same parameters (§10). A limited member waits
// for a full member, because a group gets the P_Key of its creator.
//
// Threads: the control thread. `on_change` runs inside of its functions.
//
// Invariants: only the answer to the last request counts (request_). A membership holds one use of
// its address handle, and gives it back only after `on_change` has told of another one or of none.
// The queue pair is attached to one MLID at a time. After Leave nothing is joined until Return.
#ifndef EOIB_CONTROL_SUBNET_GROUP_MEMBERSHIP_H_
#define EOIB_CONTROL_SUBNET_GROUP_MEMBERSHIP_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/config/config.h"
#include "vswitch/base/backoff.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/request_handle.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/sa_client.h"
#include "vswitch/fabric/ud_endpoint.h"

namespace eoib {

// The hop limit of a group made with `parameters`. On an Ethernet link layer it applies to all
// paths, and is at least 1.
uint8_t HopLimit(const GroupParameters& parameters, bool ethernet_link_layer);

class GroupMembership {
 public:
  struct Options {
    Mgid mgid;
    PKey pkey;  // as in the port's P_Key table: full or limited member
    QKey qkey;  // this and `parameters`: used if we create the group
    GroupParameters parameters;
    // For any other group: the record of the group that sets the parameters. This group is created
    // with them; a group with another Q_Key or a smaller MTU is refused.
    absl::optional<McMemberRecord> like;
    // Or kNonMember, kSendOnlyNonMember; only a full member creates.
    uint8_t join_state = kFullMember;
    bool may_create = true;
    // No group is joined, and there is no address handle: the options alone set the parameters, as
    // on an Ethernet link layer.
    bool without_group = false;
    const char* what = "flood group";         // its name in messages
    bool quiet = false;                       // do not log failures
    std::function<void()> on_failed = [] {};  // a join was refused or not answered
  };
  // The group's parameters, for the forwarder and the ports.
  struct Joined {
    AhIndex ah;
    Mlid mlid;
    QKey qkey;
    int mtu_bytes;  // of the group: the UD payload, so encapsulation header and frame
    McMemberRecord record;
  };
  using OnChange = std::function<void(const absl::optional<Joined>&)>;

  // `sa` is null on an Ethernet link layer or without a group: the options alone set the
  // parameters. All other pointers outlive the object. `on_change` is called after each join, and
  // with nullopt when the group is lost.
  GroupMembership(const Options& options, Hca* hca, SaClient* sa, AddressHandles* handles,
                  UdEndpoint* endpoint, const Clock* clock, OnChange on_change);

  // Joins, or joins again because the SM may have forgotten us. A membership that the SA confirms
  // continues without a gap.
  void Join();
  // As Join, and replaces the address handle and the attachment: after a link that was down, or a
  // LID change.
  void Renew();
  // The subnet reported that the group was created, or deleted.
  void OnCreated();
  void OnDeleted();
  // The port went down, so the SM forgets us. Attached QPs stay attached.
  void Lost(absl::string_view why);
  // Replaces the queue pair; the new one has that P_Key. It is attached at once if the former one
  // was; Renew follows. Null: there is no queue pair now; call Lost with a reason before.
  void Rebind(UdEndpoint* endpoint, PKey pkey);
  // Detaches and leaves the group, and joins no more. Calls `done` when the SA has answered or
  // given up; at once if there is no SA to tell. `done` may destroy this object.
  void Leave(std::function<void()> done);
  // After Leave: joins again, as soon as the SA has answered that.
  void Return();

  // Retries a join that is due.
  void Run();
  absl::Time NextDeadline() const { return retry_at_; }

  const absl::optional<Joined>& joined() const { return joined_; }
  // Not joined, and the SA's last answer was a refusal. A timeout is no refusal.
  bool refused() const { return state_ == State::kRefused && !joined_.has_value(); }
  const Mgid& mgid() const { return options_.mgid; }
  // Why there is no membership, or why renewing it failed; for `eoibctl show`.
  const std::string& trouble() const { return trouble_; }

 private:
  // The last request to the SA, and its answer. In each state an earlier membership (joined_) may
  // still hold.
  enum class State {
    kIdle,        // we have sent no request
    kJoining,     // we have asked to join
    kCreating,    // we have asked to create the group
    kExplaining,  // the SA refused, and we have asked for the group's record
    kMember,      // the SA has confirmed the membership
    kFailed,      // a request failed, or the SA did not answer; we repeat it
    kRefused,     // the SA refused; we repeat the request
    kDown,        // the port went down
    kLeaving,     // we have asked to leave: the SA might take a join for older than that
    kReturning,   // the same, and we join after the answer
    kLeft,
  };
  enum class Event { kJoin, kSubnetChanged, kDue, kLost, kLeave, kLeaveAnswered, kReturn };

  void Step(Event event);
  bool IsPending() const {
    return state_ == State::kJoining || state_ == State::kCreating || state_ == State::kExplaining;
  }
  bool IsLeaving() const {
    return state_ == State::kLeaving || state_ == State::kReturning || state_ == State::kLeft;
  }
  void Request(bool create);
  void Answered(bool create, const absl::StatusOr<McMemberRecord>& answer);
  void Explain(const absl::Status& refusal);
  void Refused(const absl::Status& why);
  absl::Status Check(const McMemberRecord& record) const;
  void Adopt(const McMemberRecord& record);
  void Fail(const absl::Status& why, State state = State::kFailed);
  void Forget();
  absl::StatusOr<AhIndex> MakeHandle(const McMemberRecord& record) const;
  void PutHandle(AhIndex ah) const;
  absl::Status PutIntoEffect(const McMemberRecord& record);
  McMemberRecord BaseRecord(const HcaPortInfo& port) const;
  absl::Status CheckLike(const McMemberRecord& record) const;
  absl::Status CheckMtu(const HcaPortInfo& port) const;
  bool Attaches() const {
    return !options_.without_group && options_.join_state != kSendOnlyNonMember;
  }
  bool Creates() const {
    return options_.may_create && options_.join_state == kFullMember &&
           options_.pkey.IsFullMember();
  }
  bool SetsParameters() const { return !options_.like.has_value(); }

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
  State state_ = State::kIdle;
  // While a request is pending: its refusal may predate the creation of the group, so join after
  // it.
  bool join_again_ = false;
  bool renew_ = false;  // attach again, even if the MLID is the same
  RequestHandle request_, leave_;
  Backoff backoff_{absl::Milliseconds(100), absl::Seconds(16)};
  absl::Time retry_at_ = absl::InfiniteFuture();
};

}  // namespace eoib

#endif  // EOIB_CONTROL_SUBNET_GROUP_MEMBERSHIP_H_
