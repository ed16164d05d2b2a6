#include "control/subnet/group_membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/log.h"

namespace eoib {
namespace {

// Three refusals, within 300 ms, end a membership: a restarted SM may refuse until a full member
// has created the group again.
constexpr int kToleratedRefusals = 2;

// To join an existing group; as RFC 4391 §5 does for IPoIB's broadcast group.
constexpr uint64_t kJoinMask = mcm::kMgid | mcm::kPortGid | mcm::kJoinState | mcm::kPKey;
// To create a group (IBA 1.4 §15.2.5.17.2), with the MTU and rate of this port.
constexpr uint64_t kCreateMask = kJoinMask | mcm::kQKey | mcm::kMtuSelector | mcm::kMtu |
                                 mcm::kTrafficClass | mcm::kRateSelector | mcm::kRate | mcm::kSl |
                                 mcm::kFlowLabel | mcm::kHopLimit | mcm::kScope;
// The default of RFC 1700 and of the kernel. On RoCE the hop limit is IP's: with 1 a packet is not
// routed, with 0 not sent.
constexpr uint8_t kEthernetHopLimit = 64;

std::string TooLarge(int group_mtu, int port_mtu) {
  return absl::StrCat("the group's MTU is ", group_mtu, " and this port's is ", port_mtu,
                      ": raise the port's (settings of OpenSM, switch and HCA), or make the group "
                      "with the mtu= of the smallest port (OpenSM: partitions.conf)");
}

}  // namespace

uint8_t HopLimit(const GroupParameters& parameters, bool ethernet_link_layer) {
  if (!ethernet_link_layer) return parameters.hop_limit.value_or(0);
  return std::max<uint8_t>(parameters.hop_limit.value_or(kEthernetHopLimit), 1);
}

GroupMembership::GroupMembership(const Options& options, Hca* hca, SaClient* sa,
                                 AddressHandles* handles, UdEndpoint* endpoint, const Clock* clock,
                                 OnChange on_change)
    : options_(options),
      hca_(hca),
      sa_(sa),
      handles_(handles),
      endpoint_(endpoint),
      clock_(clock),
      on_change_(std::move(on_change)) {}

void GroupMembership::Join() { Step(Event::kJoin); }

void GroupMembership::Renew() {
  renew_ = true;
  Step(Event::kJoin);
}

void GroupMembership::OnCreated() {
  // Otherwise we created it, or it existed before.
  if (!joined_.has_value() || !trouble_.empty()) Step(Event::kSubnetChanged);
}

void GroupMembership::OnDeleted() { Step(Event::kSubnetChanged); }

void GroupMembership::Run() {
  if (clock_->Now() >= retry_at_) Step(Event::kDue);
}

void GroupMembership::Lost(absl::string_view why) {
  Step(Event::kLost);
  trouble_ = std::string(why);
  Forget();
}

void GroupMembership::Return() { Step(Event::kReturn); }

// The answers to Request and Explain make the other steps.
void GroupMembership::Step(Event event) {
  switch (event) {
    case Event::kJoin:
      if (IsLeaving() || endpoint_ == nullptr) return;
      backoff_.Reset();
      return Request(/*create=*/false);
    case Event::kSubnetChanged:
      if (!IsPending()) return Step(Event::kJoin);
      join_again_ = true;
      return;
    case Event::kDue:
      return Request(/*create=*/false);
    case Event::kLost:
      request_.Cancel();
      join_again_ = false;
      retry_at_ = absl::InfiniteFuture();
      if (state_ != State::kIdle && !IsLeaving()) state_ = State::kDown;
      return;
    case Event::kLeave:
      request_.Cancel();
      join_again_ = false;
      retry_at_ = absl::InfiniteFuture();
      // The SA knows nothing of us if nothing was asked.
      state_ =
          state_ == State::kReturning || state_ == State::kLeaving ? State::kLeaving : State::kLeft;
      return;
    case Event::kLeaveAnswered:
      if (state_ == State::kLeaving) {
        state_ = State::kLeft;
        return;
      }
      state_ = State::kIdle;
      return Step(Event::kJoin);
    case Event::kReturn:
      if (state_ == State::kLeaving || state_ == State::kReturning) {
        state_ = State::kReturning;
        return;
      }
      if (state_ == State::kLeft) state_ = State::kIdle;
      return Step(Event::kJoin);
  }
}

void GroupMembership::Rebind(UdEndpoint* endpoint, PKey pkey) {
  endpoint_ = endpoint;
  options_.pkey = pkey;
  const absl::optional<Mlid> before = std::exchange(attached_, absl::nullopt);
  if (endpoint_ == nullptr || !before.has_value() || !joined_.has_value()) return;
  // If this fails, Adopt tries again and reports it when the SA has answered the following Renew.
  if (endpoint_->SetQKey(joined_->qkey).ok() && endpoint_->Attach(options_.mgid, *before).ok())
    attached_ = before;
}

// The forwarder stops using the handle before it is given back.
void GroupMembership::Forget() {
  if (!joined_.has_value()) return;
  const AhIndex ah = joined_->ah;
  joined_.reset();
  on_change_(joined_);
  PutHandle(ah);
}

absl::StatusOr<AhIndex> GroupMembership::MakeHandle(const McMemberRecord& record) const {
  if (options_.without_group) return AhIndex::None();
  return handles_->Get({options_.mgid.gid(), record.mlid.value(), record.sl},
                       {record.traffic_class, record.hop_limit, record.flow_label, record.rate});
}

void GroupMembership::PutHandle(AhIndex ah) const {
  if (!ah.IsNone()) handles_->Put(ah);
}

McMemberRecord GroupMembership::BaseRecord(const HcaPortInfo& port) const {
  McMemberRecord record = options_.like.value_or(McMemberRecord());
  record.mgid = options_.mgid;
  record.mlid = Mlid();
  record.port_gid = port.gid;
  record.pkey = options_.pkey;
  record.scope = options_.mgid.gid().bytes()[1] & 0xf;
  record.join_state = options_.join_state;
  if (!SetsParameters()) return record;
  const GroupParameters& parameters = options_.parameters;
  record.qkey = options_.qkey;
  record.mtu = parameters.mtu.has_value() ? MtuCode(*parameters.mtu) : port.mtu;
  // 0: no limit; not every RoCE HCA can enforce a static rate.
  record.rate = port.ethernet_link_layer ? 0 : port.rate;
  record.sl = parameters.sl;
  record.traffic_class = parameters.traffic_class;
  record.hop_limit = HopLimit(parameters, port.ethernet_link_layer);
  return record;
}

absl::Status GroupMembership::CheckMtu(const HcaPortInfo& port) const {
  if (options_.parameters.mtu.value_or(0) <= MtuBytes(port.mtu)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the VES's mtu is ", *options_.parameters.mtu, " and the port's active MTU ",
                   MtuBytes(port.mtu),
                   port.ethernet_link_layer ? "; raise the MTU of its network device, then take "
                                              "that down and up"
                                            : ""));
}

void GroupMembership::Request(bool create) {
  retry_at_ = absl::InfiniteFuture();
  request_.Cancel();
  state_ = create ? State::kCreating : State::kJoining;
  const absl::StatusOr<HcaPortInfo> port = hca_->QueryPort();
  if (!port.ok()) return Fail(port.status());
  if (!port->active) return Fail(absl::UnavailableError(PortTrouble(*port)));
  const absl::Status fits = CheckMtu(*port);
  if (!fits.ok() && (create || sa_ == nullptr)) return Fail(fits);
  if (sa_ == nullptr) return Adopt(BaseRecord(*port));
  // If the port's speed has no rate code that we know (a newer HCA), leave the rate to the SA.
  const McMemberRecord record = BaseRecord(*port);
  const uint64_t create_mask =
      IsRateCode(record.rate) ? kCreateMask : kCreateMask & ~(mcm::kRateSelector | mcm::kRate);
  sa_->Join(record, create ? create_mask : kJoinMask,
            request_.Await([this, create](const absl::StatusOr<McMemberRecord>& answer) {
              Answered(create, answer);
            }));
}

void GroupMembership::Answered(bool create, const absl::StatusOr<McMemberRecord>& answer) {
  if (answer.ok()) return Adopt(*answer);
  if (std::exchange(join_again_, false)) return Step(Event::kJoin);
  const bool refused = !absl::IsDeadlineExceeded(answer.status());
  if (refused && !create && Creates()) return Request(/*create=*/true);
  if (!refused) return Fail(answer.status());
  Explain(answer.status());
}

// Reads the group's record to explain the refusal: an SA refuses a port with a smaller MTU without
// saying so. The answer does not change the refusal.
void GroupMembership::Explain(const absl::Status& refusal) {
  McMemberRecord record;
  record.mgid = options_.mgid;
  state_ = State::kExplaining;
  sa_->QueryGroup(
      record, mcm::kMgid,
      request_.Await([this, refusal](const absl::StatusOr<McMemberRecord>& group) {
        if (std::exchange(join_again_, false)) return Step(Event::kJoin);
        std::string more;
        if (group.ok()) {
          more = std::string(Check(*group).message());
        } else if (!options_.pkey.IsFullMember() && !absl::IsDeadlineExceeded(group.status())) {
          more = "a limited member cannot create the group: a full member has to be there first";
        }
        Refused(absl::Status(refusal.code(),
                             absl::StrCat(refusal.message(), more.empty() ? "" : "; ", more)));
      }));
}

// A refusal ends a membership only if it is repeated (kToleratedRefusals). A restarted SM has no
// group for a limited member to join until a full member has created it; and an SM that is silent
// may come back and still know us.
void GroupMembership::Refused(const absl::Status& why) {
  if (backoff_.pauses() >= kToleratedRefusals) Forget();
  Fail(why, State::kRefused);
}

// Whether the record is valid and this port can use the group. The SA's answer is input from the
// wire: trust none of it.
absl::Status GroupMembership::Check(const McMemberRecord& record) const {
  const int mtu = MtuBytes(record.mtu);
  if (mtu == 0)
    return absl::InternalError(
        absl::StrCat("the group's record has the invalid MTU code ", record.mtu));
  if (record.rate != 0 && !IsRateCode(record.rate)) {
    return absl::InternalError(
        absl::StrCat("the group's record has the invalid rate code ", record.rate));
  }
  if (!record.pkey.SamePartition(options_.pkey)) {
    return absl::InternalError(absl::StrCat("the group's record has P_Key ", record.pkey.ToString(),
                                            ", of another partition"));
  }
  if (!record.mlid.IsValid()) {
    return absl::InternalError(absl::StrCat("the group's record has MLID ", record.mlid.ToString(),
                                            ", which is not a multicast LID"));
  }
  if (const absl::Status unlike = CheckLike(record); !unlike.ok()) return unlike;
  const absl::StatusOr<HcaPortInfo> port = hca_->QueryPort();
  if (!port.ok()) return port.status();
  if (MtuBytes(port->mtu) < mtu)
    return absl::FailedPreconditionError(TooLarge(mtu, MtuBytes(port->mtu)));
  return absl::OkStatus();
}

// RFC 4391 §10: "The MGID MUST use the same P_Key, Q_Key, SL, MTU, and HopLimit as those used in
// the broadcast-GID." SL and hop limit are not checked: a sender takes them from this record.
absl::Status GroupMembership::CheckLike(const McMemberRecord& record) const {
  if (SetsParameters()) return absl::OkStatus();
  if (record.qkey != options_.like->qkey) {
    return absl::FailedPreconditionError(
        absl::StrCat("the group's Q_Key is ", record.qkey.ToString(), ", not ",
                     options_.like->qkey.ToString(), " as that of the link"));
  }
  if (MtuBytes(record.mtu) < MtuBytes(options_.like->mtu)) {
    return absl::FailedPreconditionError(absl::StrCat("the group's MTU is ", MtuBytes(record.mtu),
                                                      ", below the link's ",
                                                      MtuBytes(options_.like->mtu)));
  }
  return absl::OkStatus();
}

// A failure leaves an existing membership as it was; repeated refusals end it (Refused).
void GroupMembership::Adopt(const McMemberRecord& record) {
  if (sa_ != nullptr) {
    if (const absl::Status unfit = Check(record); !unfit.ok()) return Refused(unfit);
  }
  const int mtu = MtuBytes(record.mtu);
  const absl::StatusOr<AhIndex> ah = MakeHandle(record);
  if (!ah.ok()) return Fail(ah.status());
  const absl::Status status = PutIntoEffect(record);
  if (!status.ok()) {
    PutHandle(*ah);
    return Fail(status);
  }
  const absl::optional<Joined> before = joined_;
  state_ = State::kMember;
  joined_ = Joined{*ah, record.mlid, record.qkey, mtu, record};
  trouble_.clear();
  backoff_.Reset();
  join_again_ = false;
  on_change_(joined_);
  if (before.has_value()) PutHandle(before->ah);
}

absl::Status GroupMembership::PutIntoEffect(const McMemberRecord& record) {
  absl::Status status = SetsParameters() ? endpoint_->SetQKey(record.qkey) : absl::OkStatus();
  if (!status.ok() || !Attaches()) return status;
  if (std::exchange(renew_, false) && attached_ == record.mlid) {
    endpoint_->Detach(options_.mgid, *attached_).IgnoreError();
    attached_.reset();
  }
  if (attached_ == record.mlid) return absl::OkStatus();
  // Detach first: HCAs identify an attachment by its MGID, so a later detach from the former MLID
  // would undo the new one.
  const absl::optional<Mlid> before = std::exchange(attached_, absl::nullopt);
  if (before.has_value()) endpoint_->Detach(options_.mgid, *before).IgnoreError();
  status = endpoint_->Attach(options_.mgid, record.mlid);
  if (status.ok()) {
    attached_ = record.mlid;
  } else if (before.has_value() && endpoint_->Attach(options_.mgid, *before).ok()) {
    attached_ = before;
  }
  return status;
}

void GroupMembership::Fail(const absl::Status& why, State state) {
  state_ = state;
  if (trouble_ != why.message() && !options_.quiet) {
    const std::string what =
        absl::StrCat(options_.what, options_.without_group ? "" : " " + options_.mgid.ToString());
    LogWarning(absl::StrCat("join ", what, ": ", why.message(), "; retrying"));
  }
  trouble_ = std::string(why.message());
  // A timeout put no load on the SA; do not back off, to be back as soon as the SA is.
  if (absl::IsDeadlineExceeded(why)) backoff_.Reset();
  retry_at_ = clock_->Now() + backoff_.Pause();
  options_.on_failed();
}

void GroupMembership::Leave(std::function<void()> done) {
  const bool is_known = state_ != State::kIdle && !IsLeaving();  // the SA may count us as a member
  Step(Event::kLeave);
  if (attached_.has_value()) endpoint_->Detach(options_.mgid, *attached_).IgnoreError();
  attached_.reset();
  Forget();
  const absl::StatusOr<HcaPortInfo> port = hca_->QueryPort();
  if (sa_ == nullptr || !port.ok() || !is_known) return done();
  state_ = State::kLeaving;
  sa_->Leave(BaseRecord(*port), leave_.Await(
                                    [this, done](const absl::StatusOr<McMemberRecord>&) {
                                      Step(Event::kLeaveAnswered);
                                      done();
                                    },
                                    [done](const absl::StatusOr<McMemberRecord>&) { done(); }));
}

}  // namespace eoib
