#include "control/subnet/partition_queue_pair.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/log.h"

namespace eoib {

PartitionQueuePair::PartitionQueuePair(const Options& options,
                                       const FabricPort::Resources& resources, BufferPool* pool,
                                       const Gid& gid)
    : options_(options), resources_(resources), pool_(pool), identity_{{0, options.pkey}, gid} {}

std::string PartitionQueuePair::QpnText() const {
  return endpoint_ != nullptr ? endpoint_->qpn().ToString() : "none";
}

absl::StatusOr<PartitionQueuePair::Identity> PartitionQueuePair::LookUp() const {
  const absl::StatusOr<Hca::PKeyIndex> entry = resources_.hca->FindPKey(options_.pkey);
  if (!entry.ok())
    return absl::Status(entry.status().code(),
                        absl::StrCat(options_.owner, ": ", entry.status().message()));
  const absl::StatusOr<HcaPortInfo> port = resources_.hca->QueryPort();
  if (!port.ok()) return port.status();
  return Identity{*entry, port->gid};
}

void PartitionQueuePair::NoteLoss(const ibv_async_event& event) {
  lost_ |= endpoint_ != nullptr && endpoint_->IsLostBy(event);
}

bool PartitionQueuePair::NoteFailure() {
  if (endpoint_ == nullptr || !endpoint_->failed() || std::exchange(lost_, true)) return false;
  LogWarning(absl::StrCat(options_.owner, ": queue pair ", QpnText(),
                          " is in error and does not come back; making another one"));
  return true;
}

bool PartitionQueuePair::NeedsReplacement() const {
  const absl::StatusOr<Identity> now = LookUp();
  if (lost_) return true;
  // Outside the partition there must be none.
  if (absl::IsNotFound(now.status())) return endpoint_ != nullptr;
  // If the HCA does not answer, assume no change.
  if (!now.ok() || endpoint_ == nullptr) return endpoint_ == nullptr;
  return now->gid != identity_.gid || now->entry.index != identity_.entry.index ||
         now->entry.pkey != identity_.entry.pkey;
}

absl::Status PartitionQueuePair::Replace(absl::FunctionRef<void(UdEndpoint* endpoint)> rebind) {
  lost_ = false;
  const absl::StatusOr<Identity> now = LookUp();
  if (!now.ok()) return now.status();
  UdEndpoint::Options options = options_.endpoint;
  options.pkey_index = now->entry.index;
  auto endpoint =
      UdEndpoint::Create(resources_.hca, resources_.pd, pool_, resources_.handles, options);
  if (!endpoint.ok()) return endpoint.status();
  identity_ = *now;
  rebind(endpoint->get());  // before the assignment destroys the old queue pair
  endpoint_ = *std::move(endpoint);
  LogInfo(absl::StrCat(options_.owner, ": QPN ", QpnText(), ", P_Key ", pkey().ToString(),
                       " at index ", now->entry.index));
  return absl::OkStatus();
}

}  // namespace eoib
