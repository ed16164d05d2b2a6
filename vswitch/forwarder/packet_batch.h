// PacketBatch: the frames that a forwarder handles at a time, each with the results of the stages
// so far.
//
// A frame that ends in a stage is counted under its drop reason, freed and removed, so later stages
// see only the others.
#ifndef EOIB_VSWITCH_FORWARDER_PACKET_BATCH_H_
#define EOIB_VSWITCH_FORWARDER_PACKET_BATCH_H_

#include <array>
#include <cstddef>

#include "absl/base/optimization.h"
#include "fdb/fdb_key.h"
#include "fdb/vport.h"
#include "vswitch/base/drop_reason.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/fabric/ud_endpoint.h"
#include "vswitch/forwarder/forwarder_counters.h"
#include "vswitch/port/frame.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {

struct Packet {
  Frame frame;
  EthernetInfo ethernet;
  FdbKey source;
  FdbKey destination;
  VPortId to = VPortId::None();  // None: flood
  L4Checksum vouched = L4Checksum::kNone;
  bool is_segment = false;   // of a larger frame; `frame` starts with its extension
  bool is_impostor = false;  // its source is pinned to another port
  // Null: the frame came from a port. If it came in segments: the last one that came.
  const Datagram* datagram = nullptr;
};

// For the worker that owns the forwarder.
class PacketBatch {
 public:
  static constexpr size_t kCapacity = 64;

  // Both outlive the batch.
  PacketBatch(BufferPool* pool, ForwarderCounters* counters) : pool_(pool), counters_(counters) {}

  // Starts a new batch of `size` empty packets, at most kCapacity.
  void Start(size_t size) {
    for (size_t i = 0; i < size; ++i) packets_[i] = Packet();
    size_ = size;
  }
  size_t size() const { return size_; }
  Packet& operator[](size_t i) { return packets_[i]; }
  Packet* begin() { return packets_.data(); }
  Packet* end() { return packets_.data() + size_; }

  // Keeps the packets for which `step` returns kNone. Counts and frees the others.
  template <typename Step>
  void KeepIf(Step step) {
    size_t kept = 0;
    for (size_t i = 0; i < size_; ++i) {
      const DropReason reason = step(&packets_[i]);
      if (ABSL_PREDICT_FALSE(reason != DropReason::kNone)) {
        counters_->drop(reason).Add();
        pool_->Free(packets_[i].frame.buffer);
        continue;
      }
      if (kept != i) packets_[kept] = packets_[i];
      ++kept;
    }
    size_ = kept;
  }

  // Keeps the packets for which `step` returns true. The step has taken the others' buffers.
  template <typename Step>
  void TakeUnless(Step step) {
    size_t kept = 0;
    for (size_t i = 0; i < size_; ++i) {
      if (!step(&packets_[i])) continue;
      if (kept != i) packets_[kept] = packets_[i];
      ++kept;
    }
    size_ = kept;
  }

 private:
  BufferPool* const pool_;
  ForwarderCounters* const counters_;
  std::array<Packet, kCapacity> packets_;
  size_t size_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_PACKET_BATCH_H_
