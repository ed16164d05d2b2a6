// GroupAttachments: the multicast groups to which a queue pair is attached. On an Ethernet link
// layer the port's network device is a member of each group too (netdev_multicast.h).
#ifndef EOIB_VSWITCH_FABRIC_GROUP_ATTACHMENTS_H_
#define EOIB_VSWITCH_FABRIC_GROUP_ATTACHMENTS_H_

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/netdev_multicast.h"

namespace eoib {

// Any thread.
class GroupAttachments {
 public:
  // `hca` and `qp` outlive the object.
  GroupAttachments(Hca* hca, ibv_qp* qp, bool ethernet) : hca_(hca), qp_(qp), ethernet_(ethernet) {}
  // Detaches the queue pair from all groups.
  ~GroupAttachments();
  GroupAttachments(const GroupAttachments&) = delete;
  GroupAttachments& operator=(const GroupAttachments&) = delete;

  absl::Status Attach(const Mgid& mgid, Mlid mlid) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Detach(const Mgid& mgid, Mlid mlid) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status JoinOnNetdev(const Mgid& mgid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Failed(int error, absl::string_view verb, absl::string_view preposition,
                      const Mgid& mgid, Mlid mlid) const;

  Hca* const hca_;
  ibv_qp* const qp_;
  const bool ethernet_;
  absl::Mutex mutex_;
  std::vector<std::pair<Mgid, Mlid>> groups_ ABSL_GUARDED_BY(mutex_);
  NetdevMulticast netdev_groups_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_GROUP_ATTACHMENTS_H_
