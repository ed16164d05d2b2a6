// PacketCapture: writes the packets of a port to a file, as they would be on a cable.
//
// The data path only copies what it sends or receives into a ring; a thread that may write to files builds the headers from LRH
// to VCRC and writes ERF records (wire/erf.h). A loopback is captured once, as it is sent.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_PACKET_CAPTURE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_PACKET_CAPTURE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "fdb/address.h"
#include "vswitch/fabric/softhca/outbound.h"
#include "vswitch/fabric/softhca/ring.h"
#include "vswitch/wire/erf.h"

namespace eoib::softhca {

class PacketCapture {
 public:
  static absl::StatusOr<std::unique_ptr<PacketCapture>> Open(const std::string& path);

  // Under the port's mutex. False if the ring is full: the packet is missing from the capture.
  bool Record(const RecordHeader& header, Lid slid, const Gid& sgid, const Gather& payload);
  // Writes what was recorded; any thread, without the port's mutex.
  absl::Status WriteOut() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Stands before the payload in the ring.
  struct Note {
    int64_t nanos;  // of the wall clock
    Gid sgid;
    Lid slid;
  };
  static constexpr uint64_t kCapacity = 4 * 1024 * 1024;

  PacketCapture(std::unique_ptr<ErfWriter> writer, const std::shared_ptr<RingMemory>& memory)
      : producer_(memory), consumer_(memory), writer_(std::move(writer)) {}
  absl::Status WritePacket(const RecordHeader& header, const uint8_t* record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  RingProducer producer_;  // under the port's mutex
  absl::Mutex mutex_;
  RingConsumer consumer_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ErfWriter> writer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_PACKET_CAPTURE_H_
