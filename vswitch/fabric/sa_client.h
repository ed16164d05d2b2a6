// SaClient: the client of the subnet administrator. Over a MadTransport it joins and leaves
// multicast groups, queries paths and groups, registers and queries services, and subscribes to
// reports.
//
// It is asynchronous and single-threaded: requests return at once, and Run() calls the callbacks.
// Every request gets exactly one answer: the SA's record, the SA's error, or kDeadlineExceeded
// after the last retry. Requests that are outstanding when the client is destroyed get none.
// README.md, "SA client", describes retries, tables, reports and the limit on path queries.
#ifndef EOIB_VSWITCH_FABRIC_SA_CLIENT_H_
#define EOIB_VSWITCH_FABRIC_SA_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/mad_transport.h"
#include "vswitch/wire/ib/notice.h"
#include "vswitch/wire/ib/sa_mad.h"
#include "vswitch/wire/ib/service_record.h"

namespace eoib {

// Threads: one, which calls everything. A callback may start requests, so no iterator is held
// across one. A callback must not destroy the client, because Run goes on after it.
//
// Invariants: an outstanding request has a transaction ID of its own, and leaves the table before
// its callback runs. At most Options::path_queries queries for single paths are outstanding.
class SaClient {
 public:
  struct Options {
    absl::Duration first_timeout = absl::Milliseconds(250);
    int attempts = 5;           // 250, 500, 1000, 2000, 4000 ms
    uint64_t first_tid = 1;     // its low 24 bits (MadTransport::kTidMask)
    size_t path_queries = 256;  // outstanding queries for single paths; more wait in order
  };
  using GroupCallback = std::function<void(absl::StatusOr<McMemberRecord>)>;
  using PathCallback = std::function<void(absl::StatusOr<PathRecord>)>;
  using GroupsCallback = std::function<void(absl::StatusOr<std::vector<McMemberRecord>>)>;
  using PathsCallback = std::function<void(absl::StatusOr<std::vector<PathRecord>>)>;
  using ServiceCallback = std::function<void(absl::StatusOr<ServiceRecord>)>;
  using ServicesCallback = std::function<void(absl::StatusOr<std::vector<ServiceRecord>>)>;
  using SubscriptionCallback = std::function<void(absl::StatusOr<InformInfo>)>;
  using NoticeHandler = std::function<void(const Notice&)>;

  // `mads` and `clock` outlive the client.
  SaClient(MadTransport* mads, const Clock* clock, const Options& options);
  SaClient(const SaClient&) = delete;
  SaClient& operator=(const SaClient&) = delete;

  // SubnAdmSet(MCMemberRecord): joins the group, and creates it if `component_mask` has all
  // components that creation needs. The answer is the group's record.
  void Join(const McMemberRecord& record, uint64_t component_mask, GroupCallback done);
  // SubnAdmDelete(MCMemberRecord).
  void Leave(const McMemberRecord& record, GroupCallback done);
  // SubnAdmGet(MCMemberRecord).
  void QueryGroup(const McMemberRecord& record, uint64_t component_mask, GroupCallback done);
  // SubnAdmGet(PathRecord): one reversible path from `sgid` to `dgid` in the partition of `pkey`.
  void QueryPath(const Gid& sgid, const Gid& dgid, PKey pkey, PathCallback done);
  // The same for the path through `dlid`, one of the LIDs of the port. kNotFound: the port does not
  // have this LID.
  void QueryPathAt(const Gid& sgid, const Gid& dgid, Lid dlid, PKey pkey, PathCallback done);

  // SubnAdmGetTable(PathRecord): one reversible path from `sgid` to each port in the partition of
  // `pkey`.
  void QueryPaths(const Gid& sgid, PKey pkey, PathsCallback done);
  // SubnAdmGetTable(MCMemberRecord).
  void QueryGroups(const McMemberRecord& record, uint64_t component_mask, GroupsCallback done);

  // SubnAdmSet(ServiceRecord): registers the service of this port, or renews its lease. Its key is
  // zero.
  void RegisterService(const ServiceRecord& record, ServiceCallback done);
  // SubnAdmDelete(ServiceRecord): of the record with this service ID, GID and P_Key.
  void UnregisterService(const ServiceRecord& record, ServiceCallback done);
  // SubnAdmGetTable(ServiceRecord): all services with that service ID.
  void QueryServices(uint64_t service_id, ServicesCallback done);

  // SubnAdmSet(InformInfo): starts or stops reports of `trap`, from any port, to this port.
  void Subscribe(SmTrap trap, SubscriptionCallback done);
  void Unsubscribe(SmTrap trap, SubscriptionCallback done);
  // Sets the handler of reports. Run() calls it once for each report.
  void OnNotice(NoticeHandler handler) { on_notice_ = std::move(handler); }
  // False if another program receives the reports, so that a subscription would be useless.
  bool ReceivesReports() const { return mads_->ReceivesReports(); }

  // Handles received MADs, retries what is due and runs callbacks.
  void Run();
  // When to call Run even if no MAD arrives; InfiniteFuture if never.
  absl::Time NextDeadline() const;
  int fd() const { return mads_->fd(); }
  // Received MADs that answered no request.
  uint64_t ignored() const { return ignored_; }

 private:
  // The records of an answer: one, or one at each multiple of `stride`.
  struct Records {
    absl::Span<const uint8_t> bytes;
    size_t stride;
  };
  // Calls the user's callback with an accepted answer.
  using Completion = std::function<void()>;
  // The typed end of a request: decodes the answer, or reports a failure.
  struct Handlers {
    // Returns null if the records do not answer the request.
    std::function<Completion(const Records&)> take;
    std::function<void(const absl::Status&)> fail;
  };
  struct Request {
    std::string what;  // for messages: "join ff12:e01b:..."
    SaHeader header;
    Mad mad;
    Handlers handlers;
    bool waits_in_order = false;  // a query for a single path
    int attempts_left = 0;
    absl::Duration timeout;
    absl::Time deadline;
    absl::Status last_error;  // the transport's
  };
  using Outstanding = absl::flat_hash_map<uint64_t, Request>;
  struct LatestReport {
    uint64_t tid;
    Notice notice;
    absl::Time at;
  };

  template <typename Record>
  using Decoder = absl::StatusOr<Record> (*)(absl::Span<const uint8_t>);
  template <typename Record>
  static Handlers ForOne(Decoder<Record> decode, std::function<bool(const Record&)> is_wanted,
                         std::function<void(absl::StatusOr<Record>)> done);
  template <typename Record>
  static Handlers ForMany(Decoder<Record> decode, std::function<bool(const Record&)> is_wanted,
                          std::function<void(absl::StatusOr<std::vector<Record>>)> done);

  Request GroupRequest(absl::string_view verb, MadMethod method, const McMemberRecord& record,
                       uint64_t component_mask) const;
  void StartGroupRequest(absl::string_view verb, MadMethod method, const McMemberRecord& record,
                         uint64_t component_mask, GroupCallback done);
  void StartPathRequest(std::string what, const PathRecord& record, uint64_t component_mask,
                        PathCallback done);
  Request PathRequest(std::string what, MadMethod method, const PathRecord& record,
                      uint64_t component_mask) const;
  static Request ServiceRequest(std::string what, MadMethod method, const ServiceRecord& record,
                                uint64_t component_mask);
  void Inform(SmTrap trap, bool subscribe, SubscriptionCallback done);
  uint64_t NewTid();
  void Start(Request request);
  void StartWaiting();
  void Transmit(Request* request);
  void TransmitDue();
  bool Accept(absl::Span<const uint8_t> mad);
  bool AcceptReport(const SaHeader& header, absl::Span<const uint8_t> mad);
  bool IsRepeated(uint64_t tid, const Notice& notice);
  bool AcceptTable(Outstanding::iterator it, const SaHeader& header, absl::Span<const uint8_t> mad);
  bool AcceptRecords(Outstanding::iterator it, const Records& records);
  Request Remove(Outstanding::iterator it);
  void Fail(Outstanding::iterator it, const absl::Status& status);

  MadTransport* const mads_;
  const Clock* const clock_;
  const Options options_;
  uint64_t next_tid_;
  Outstanding outstanding_;  // by transaction ID
  size_t path_queries_ = 0;  // single paths among these
  std::deque<Request> waiting_;
  NoticeHandler on_notice_ = [](const Notice&) {};
  std::deque<LatestReport> latest_reports_;  // the latest, oldest first
  uint64_t ignored_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_SA_CLIENT_H_
