// PacketCapture: writes a port's packets to a file, from LRH to VCRC, as ERF records
// (wire/ib/erf.h).
//
// Callers hand over headers and payload, which are copied into a buffer of fixed size. A thread of
// the capture adds the CRCs and writes the other buffer meanwhile. If the file is slow and the
// buffer fills up, packets are dropped from the capture and counted; callers never wait for the
// file, nor for the reader of a fifo.
#ifndef EOIB_VSWITCH_FABRIC_PACKET_CAPTURE_H_
#define EOIB_VSWITCH_FABRIC_PACKET_CAPTURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/fabric/capture_options.h"
#include "vswitch/fabric/capture_report.h"
#include "vswitch/wire/ib/erf.h"
#include "vswitch/wire/ib/ib_headers.h"

namespace eoib {

class PacketCapture {
 public:
  // The origin of the headers: as on the cable, or rebuilt (wire_format.md, "Captures").
  enum class Origin : uint8_t { kCable = 0, kRebuilt = 1 };

  struct Packet {
    UdHeaders headers;   // their lengths count the payload and an immediate's 4 bytes
    bool global = true;  // false: no GRH, but `headers` are made as if it had one
    absl::optional<be32> immediate;
  };

  // Creates the file; like ErfWriter::Open it overwrites nothing. `comment`, if not empty, is the
  // first record.
  static absl::StatusOr<std::unique_ptr<PacketCapture>> Open(const CaptureOptions& options,
                                                             Origin origin = Origin::kCable,
                                                             absl::string_view comment = {});
  // Continues the file of `writer`, whose path is that of `options`.
  static std::unique_ptr<PacketCapture> Adopt(std::unique_ptr<ErfWriter> writer,
                                              const CaptureOptions& options);
  // Closes the file and ignores an error.
  ~PacketCapture();
  PacketCapture(const PacketCapture&) = delete;
  PacketCapture& operator=(const PacketCapture&) = delete;

  // Any thread. Holds a mutex during the copy. `copy` writes the `length` bytes of payload and
  // returns. False if the packet was dropped from the capture, though its filter and limit allow
  // it.
  bool Record(const Packet& packet, size_t length, absl::FunctionRef<void(uint8_t* to)> copy)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Any thread.
  CaptureReport report() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Writes what was recorded, ends the capture and waits for the file. One thread.
  CaptureReport Close() ABSL_LOCKS_EXCLUDED(mutex_);
  // Hca::StopCapture: closes `capture`, which is null if none runs on that HCA.
  static absl::StatusOr<CaptureReport> Stop(std::unique_ptr<PacketCapture> capture,
                                            absl::string_view hca_name);

  // Bytes in each of the two buffers.
  static constexpr size_t kCapacity = 4 * 1024 * 1024;

 private:
  // Precedes each payload in a buffer.
  struct Note {
    int64_t nanos;      // wall-clock time
    uint32_t length;    // of the payload
    uint32_t recorded;  // bytes of it that follow
    bool global;
    bool has_immediate;
    be32 immediate;
    UdHeaders headers;
  };
  static constexpr absl::Duration kTick = absl::Milliseconds(20);

  PacketCapture(std::unique_ptr<ErfWriter> writer, const CaptureOptions& options);
  void Start();
  void Run();
  bool WaitForWork() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status WriteAll();
  absl::Status WritePacket(const Note& note, absl::Span<const uint8_t> data);
  absl::Status WriteRecord(absl::Time time, absl::Span<const absl::Span<const uint8_t>> pieces,
                           size_t length);
  bool MayWait() const ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string path_;
  const size_t snap_length_;
  const uint64_t limit_;
  std::thread thread_;

  mutable absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
  CaptureFilter filter_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<uint8_t[]> filling_ ABSL_GUARDED_BY(mutex_);
  size_t filled_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t packets_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t missed_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);

  // Used by the capture's thread only.
  const std::unique_ptr<ErfWriter> writer_;
  std::unique_ptr<uint8_t[]> writing_;
  size_t to_write_ = 0;
  bool reached_limit_ = false;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_PACKET_CAPTURE_H_
