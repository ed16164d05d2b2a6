// SaClient: asks the subnet administrator, over a MadTransport: joins and leaves multicast groups, resolves paths.
//
// Asynchronous and single-threaded: requests return at once, callbacks run from Run(). Every request is answered exactly once:
// by the SA's record, by the SA's error, or by kDeadlineExceeded after the last retry. A request that the transport refused or
// the SA did not answer is repeated with the same transaction ID (IBA 1.4 §13.4.6.4), at doubling intervals. A response with an
// unknown transaction ID, of another attribute, for another group or path, or malformed is counted and ignored. SA status
// "busy" counts as no answer. Requests still outstanding when the client is destroyed are not answered.
#ifndef EOIB_VSWITCH_FABRIC_SA_CLIENT_H_
#define EOIB_VSWITCH_FABRIC_SA_CLIENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "fdb/address.h"
#include "fdb/clock.h"
#include "vswitch/fabric/mad_transport.h"
#include "vswitch/wire/sa_mad.h"

namespace eoib {

class SaClient {
 public:
  struct Options {
    absl::Duration first_timeout = absl::Milliseconds(250);
    int attempts = 5;        // 250, 500, 1000, 2000, 4000 ms
    uint64_t first_tid = 1;  // its low 24 bits (MadTransport::kTidMask)
  };
  struct Counters {
    uint64_t requests = 0, retries = 0, timeouts = 0, errors = 0, ignored = 0;
  };
  using GroupCallback = std::function<void(absl::StatusOr<McMemberRecord>)>;
  using PathCallback = std::function<void(absl::StatusOr<PathRecord>)>;

  // `mads` and `clock` outlive the client.
  SaClient(MadTransport* mads, const Clock* clock, const Options& options);
  SaClient(const SaClient&) = delete;
  SaClient& operator=(const SaClient&) = delete;

  // SubnAdmSet(MCMemberRecord): joins, creating the group if `component_mask` has what that takes. The record in the answer is
  // the group's.
  void Join(const McMemberRecord& record, uint64_t component_mask, GroupCallback done);
  // SubnAdmDelete(MCMemberRecord).
  void Leave(const McMemberRecord& record, GroupCallback done);
  // SubnAdmGet(MCMemberRecord).
  void QueryGroup(const McMemberRecord& record, uint64_t component_mask, GroupCallback done);
  // SubnAdmGet(PathRecord) from `sgid` to `dgid` in the partition of `pkey`, one reversible path.
  void QueryPath(const Gid& sgid, const Gid& dgid, PKey pkey, PathCallback done);

  // Takes what arrived, repeats what is due, runs callbacks.
  void Run();
  // When Run has something to do though nothing arrives; InfiniteFuture if never.
  absl::Time NextDeadline() const;
  int fd() const { return mads_->fd(); }
  const Counters& counters() const { return counters_; }

 private:
  struct Request {
    std::string what;  // for messages: "join ff12:e01b:..."
    SaHeader header;
    Mad mad;
    McMemberRecord group;  // what was asked for; the answer must be about the same
    PathRecord path;
    GroupCallback group_done;  // one of the two is set
    PathCallback path_done;
    int attempts_left = 0;
    absl::Duration timeout;
    absl::Time deadline;
    absl::Status last_error;  // of the transport
  };
  using Outstanding = absl::flat_hash_map<uint64_t, Request>;

  void AskGroup(absl::string_view verb, MadMethod method, const McMemberRecord& record, uint64_t component_mask,
                GroupCallback done);
  uint64_t NewTid();
  void Start(Request request);
  void Transmit(Request* request);
  void TransmitDue();
  bool Accept(const Mad& mad);
  bool AcceptGroup(Outstanding::iterator it, const Mad& mad);
  bool AcceptPath(Outstanding::iterator it, const Mad& mad);
  void Fail(uint64_t tid, const absl::Status& status);

  MadTransport* const mads_;
  const Clock* const clock_;
  const Options options_;
  uint64_t next_tid_;
  Outstanding outstanding_;  // by transaction ID
  Counters counters_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_SA_CLIENT_H_
