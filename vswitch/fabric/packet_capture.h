// PacketCapture: writes the packets of a port to a file, from LRH to VCRC.
//
// Who sends and receives hands over headers and payload, which are copied; a thread of the capture's own adds the CRCs and
// writes ERF records (wire/erf.h). There are two buffers of a fixed size: one is filled while the other is written. When the
// one is full because the file is slow, packets are missing from the capture and counted; nobody waits for the file.
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
#include "vswitch/fabric/capture_report.h"
#include "vswitch/wire/byte_order.h"
#include "vswitch/wire/erf.h"
#include "vswitch/wire/ib_headers.h"

namespace eoib {

class PacketCapture {
 public:
  // Where the headers come from: as on the cable, or rebuilt (wire_format.md, "Captures").
  enum class Origin : uint8_t { kCable = 0, kRebuilt = 1 };

  struct Packet {
    UdHeaders headers;   // made for the payload's length, with an immediate's four bytes
    bool global = true;  // false: no GRH. `headers` are those of the packet with one all the same
    absl::optional<be32> immediate;
  };

  // Creates `path`, as ErfWriter::Open does: nothing is overwritten. `comment`, if any, is the file's first record.
  static absl::StatusOr<std::unique_ptr<PacketCapture>> Open(const std::string& path, Origin origin = Origin::kCable,
                                                             absl::string_view comment = {});
  // Writes by `writer`, what is there already included.
  static std::unique_ptr<PacketCapture> Adopt(std::unique_ptr<ErfWriter> writer);
  // Closes; an error is lost.
  ~PacketCapture();
  PacketCapture(const PacketCapture&) = delete;
  PacketCapture& operator=(const PacketCapture&) = delete;

  // Any thread; holds a mutex for the copy. `copy` writes the payload, `length` bytes, to where it is told, at once. False if
  // the packet is missing from the capture.
  bool Record(const Packet& packet, size_t length, absl::FunctionRef<void(uint8_t* to)> copy) ABSL_LOCKS_EXCLUDED(mutex_);

  // Any thread.
  CaptureReport report() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Writes what was recorded and ends the capture; waits for the file. One thread.
  CaptureReport Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // Of each buffer: bytes.
  static constexpr size_t kCapacity = 4 * 1024 * 1024;

 private:
  // Stands before each payload in a buffer.
  struct Note {
    int64_t nanos;  // of the wall clock
    uint32_t length;
    bool global;
    bool has_immediate;
    be32 immediate;
    UdHeaders headers;
  };
  static constexpr absl::Duration kTick = absl::Milliseconds(20);

  explicit PacketCapture(std::unique_ptr<ErfWriter> writer);
  void Start();
  void Run();
  bool WaitForWork() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status WriteAll();
  absl::Status WritePacket(const Note& note, absl::Span<const uint8_t> data);

  const std::string path_;
  std::thread thread_;

  mutable absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<uint8_t[]> filling_ ABSL_GUARDED_BY(mutex_);
  size_t filled_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t packets_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t missed_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);

  // The thread's.
  const std::unique_ptr<ErfWriter> writer_;
  std::unique_ptr<uint8_t[]> writing_;
  size_t to_write_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_PACKET_CAPTURE_H_
