// RmppReceiver: puts a table together that an SA sends in segments (IBA 1.4 §13.6.6, the receiver of a transfer).
//
// One object for one answer. Segments may come late, twice and in any order within the window that was granted; the table is
// bounded in bytes, so that no SA can make us hold more than that. The sender repeats what is not acknowledged, so there is no
// timer here: who gives up an answer (its deadline is the question's) calls GiveUp for the MAD that ends the sender's attempt.
//
// The first segment decides which transfer it is: a repeated question may be answered twice, under transaction IDs that differ
// above MadTransport::kTidMask, and segments of two answers do not make one.
//
// One thread.
#ifndef EOIB_VSWITCH_FABRIC_RMPP_RECEIVER_H_
#define EOIB_VSWITCH_FABRIC_RMPP_RECEIVER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/wire/ib/mad.h"
#include "vswitch/wire/ib/rmpp.h"

namespace eoib {

class RmppReceiver {
 public:
  struct Options {
    size_t max_bytes = 4 << 20;  // of the table: 65,536 PathRecords
    uint32_t window = 64;        // segments that the sender may be ahead of our acknowledgement
  };
  enum class Progress : uint8_t {
    kIgnored,  // not of this transfer, or a segment that is no use
    kMore,     // a segment that was missing
    kDone,     // the table is complete
    kFailed,   // the transfer is over, without a table: failure() says why
  };

  explicit RmppReceiver(const Options& options) : options_(options) {}

  // Takes a MAD whose RMPP header is active. *reply is what has to be sent, if anything: ACK, STOP or ABORT. Complete, it goes
  // on acknowledging what the sender repeats.
  Progress Accept(const Mad& mad, absl::optional<Mad>* reply);
  // ABORT for the sender, if a segment of its has come.
  absl::optional<Mad> GiveUp() const;

  bool started() const { return next_ > 1; }
  bool done() const { return done_; }
  // kDone: the records, each at a multiple of the attribute offset, which is in any segment's SA header.
  absl::Span<const uint8_t> table() const { return table_; }
  // kFailed: the code of table 158, ours or the sender's.
  RmppStatus failure() const { return failure_; }

 private:
  // What is wrong with a segment of data; kNormal: nothing.
  RmppStatus Check(const RmppHeader& header) const;
  RmppStatus CheckLength(const RmppHeader& header) const;
  Progress EndedBySender(const RmppHeader& header);
  Progress Refuse(const Mad& mad, RmppStatus status, absl::optional<Mad>* reply);
  bool Has(uint32_t segment) const;
  void Keep(const RmppHeader& header, const Mad& mad);
  void AcknowledgeAtTheWindowsEnd(uint32_t segment, absl::optional<Mad>* reply);
  Mad Acknowledgement() const;

  const Options options_;
  Mad first_{};                 // the first segment, whose headers our replies have
  uint32_t next_ = 1;           // all segments below have come
  uint32_t granted_ = 1;        // the last segment that the sender may send now: before our first ACK, one (§13.6.6.2)
  uint32_t last_ = 0;           // the segment with the Last flag; 0: not seen
  size_t last_size_ = 0;        // bytes of the table in it
  uint32_t announced_ = 0;      // the payload length in the first segment; 0: it did not say
  std::deque<bool> ahead_;      // whether next_ + i has come already
  std::vector<uint8_t> table_;  // 200 bytes a segment, until it is complete
  bool done_ = false;
  RmppStatus failure_ = RmppStatus::kNormal;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_RMPP_RECEIVER_H_
