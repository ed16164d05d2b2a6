// RmppSender: sends tables in segments (IBA 1.4 §13.6).
//
// The first segment goes alone; what its ACK allows goes next, and so on until the last one is acknowledged. What is not
// acknowledged in time is sent again from there on, some times; then, or if the receiver breaks the rules, the transaction is
// aborted. A receiver may stop or abort it at any time.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_RMPP_SENDER_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_RMPP_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/wire/ib/rmpp.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {

// Not thread-safe: the Subnet calls it under its mutex.
class RmppSender {
 public:
  struct Options {
    absl::Duration timeout = absl::Milliseconds(500);  // for an ACK
    int transmissions = 4;                             // of a segment
    absl::Duration total = absl::Seconds(40);          // for all of a table, however busily it is acknowledged
    uint32_t ahead = 64;                               // segments beyond the last that was acknowledged, whatever the window
    size_t tables_per_port = 8;                        // at once
    size_t bytes = 16 << 20;                           // of all tables together
  };
  struct Counters {
    uint64_t tables = 0;
    uint64_t segments = 0;
    uint64_t repeated = 0;  // segments
    uint64_t completed = 0;
    uint64_t stopped = 0;  // by the receiver: STOP or ABORT
    uint64_t aborted = 0;  // by us: given up, or the receiver broke the rules
    uint64_t refused = 0;  // not begun: too many, or too large
    uint64_t strays = 0;   // of no table that is under way
  };

  explicit RmppSender(Options options) : options_(options) {}
  RmppSender() : RmppSender(Options()) {}

  // Begins to send `table`; `header` is that of each segment. False if there are too many already. A request that was
  // repeated, with a transaction that is still under way, changes nothing.
  bool Start(const MadEndpoint& to, const SaHeader& header, std::vector<uint8_t> table, absl::Time now,
             std::vector<OutgoingMad>* out);
  // A MAD of `from` with RMPP active.
  void Receive(const MadEndpoint& from, const Mad& mad, absl::Time now, std::vector<OutgoingMad>* out);
  void RemovePort(const Gid& port);
  void Clear();

  // Repeats what was not acknowledged in time, or gives up.
  void Run(absl::Time now, std::vector<OutgoingMad>* out);
  // InfiniteFuture if nothing is under way.
  absl::Time NextDeadline() const;

  size_t under_way() const { return transfers_.size(); }
  const Counters& counters() const { return counters_; }

 private:
  struct Transfer {
    SaHeader header;
    std::vector<uint8_t> table;
    uint32_t segments = 1;
    uint32_t acked = 0;   // the last segment that arrived, with all before it
    uint32_t sent = 0;    // the last segment that was sent
    uint32_t window = 1;  // the last segment that the receiver has room for (1 until it says so)
    int transmissions_left = 0;
    absl::Time deadline;  // of the next ACK
    absl::Time end;       // of all
  };
  using Transfers = std::map<std::pair<MadEndpoint, uint64_t>, Transfer>;  // by receiver and transaction ID

  void SendWindow(const MadEndpoint& to, Transfer* transfer, absl::Time now, std::vector<OutgoingMad>* out);
  void TakeAck(Transfers::iterator transfer, const RmppHeader& ack, absl::Time now, std::vector<OutgoingMad>* out);
  void Abort(Transfers::iterator transfer, RmppStatus status, std::vector<OutgoingMad>* out);
  Transfers::iterator Erase(Transfers::iterator transfer);

  const Options options_;
  Transfers transfers_;
  size_t bytes_ = 0;  // of their tables
  Counters counters_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_RMPP_SENDER_H_
