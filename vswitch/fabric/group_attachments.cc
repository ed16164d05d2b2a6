#include "vswitch/fabric/group_attachments.h"

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/rebuilt_capture.h"

namespace eoib {
namespace {

ibv_gid WireGid(const Mgid& mgid) {
  ibv_gid gid;
  mgid.gid().ToWire(gid.raw);
  return gid;
}

}  // namespace

GroupAttachments::~GroupAttachments() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [mgid, mlid] : groups_) {
    const ibv_gid gid = WireGid(mgid);
    hca_->verbs().detach_mcast(qp_, &gid, mlid.value());
    if (RebuiltCapture* capture = hca_->rebuilt_capture()) capture->Detached(mgid);
  }
}

// "attach QP 0x48 to ff12:e01b:... (MLID 0xc001) on mlx5_0/1: Invalid argument".
absl::Status GroupAttachments::Failed(int error, absl::string_view verb,
                                      absl::string_view preposition, const Mgid& mgid,
                                      Mlid mlid) const {
  return absl::ErrnoToStatus(
      error, absl::StrCat(verb, " QP ", Qpn(qp_->qp_num).ToString(), preposition, mgid.ToString(),
                          " (MLID ", mlid.ToString(), ") on ", hca_->name()));
}

absl::Status GroupAttachments::Attach(const Mgid& mgid, Mlid mlid) {
  const ibv_gid gid = WireGid(mgid);
  absl::MutexLock lock(&mutex_);
  if (const int error = hca_->verbs().attach_mcast(qp_, &gid, mlid.value()); error != 0) {
    return Failed(error, "attach", " to ", mgid, mlid);
  }
  if (absl::Status status = JoinOnNetdev(mgid); !status.ok()) {
    hca_->verbs().detach_mcast(qp_, &gid, mlid.value());
    return status;
  }
  groups_.emplace_back(mgid, mlid);
  if (RebuiltCapture* capture = hca_->rebuilt_capture()) capture->Attached(mgid, mlid);
  return absl::OkStatus();
}

absl::Status GroupAttachments::JoinOnNetdev(const Mgid& mgid) {
  if (!ethernet_) return absl::OkStatus();
  const absl::StatusOr<ibv_gid_entry> gid = hca_->QueryGidEntry();
  if (!gid.ok()) return gid.status();
  return netdev_groups_.Join(static_cast<int>(gid->ndev_ifindex), mgid);
}

absl::Status GroupAttachments::Detach(const Mgid& mgid, Mlid mlid) {
  const ibv_gid gid = WireGid(mgid);
  absl::MutexLock lock(&mutex_);
  if (const int error = hca_->verbs().detach_mcast(qp_, &gid, mlid.value()); error != 0) {
    return Failed(error, "detach", " from ", mgid, mlid);
  }
  netdev_groups_.Leave(mgid);
  if (RebuiltCapture* capture = hca_->rebuilt_capture()) capture->Detached(mgid);
  std::erase(groups_, std::make_pair(mgid, mlid));
  return absl::OkStatus();
}

}  // namespace eoib
