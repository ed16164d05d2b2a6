// WireCapture: writes the frames of a netdev, both those that arrive and those that leave, to a pcap file.
//
// It has a packet socket and a thread of its own, so the data path does not know of it. Frames are as the kernel hands them
// over: super-frames in one piece, and checksums unfinished where the NIC finishes them. If the file is slow, the socket's
// queue fills up, and the kernel counts the frames that the capture missed.
#ifndef EOIB_GATEWAY_UPLINK_WIRE_CAPTURE_H_
#define EOIB_GATEWAY_UPLINK_WIRE_CAPTURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/capture_options.h"
#include "vswitch/fabric/capture_report.h"
#include "vswitch/wire/pcap_writer.h"

namespace eoib::gateway {

// Control thread.
class WireCapture {
 public:
  // It uses the following of `options`: the filters for MAC and VLAN (of the wire), the snap length and the limit.
  static absl::StatusOr<std::unique_ptr<WireCapture>> Start(const std::string& netdev, const CaptureOptions& options);
  // Stops it and ignores an error.
  ~WireCapture();
  WireCapture(const WireCapture&) = delete;
  WireCapture& operator=(const WireCapture&) = delete;

  CaptureReport report() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Writes what has arrived, ends the capture and waits for the file.
  CaptureReport Stop();

 private:
  WireCapture(const CaptureOptions& options, UniqueFd packets, std::unique_ptr<PcapWriter> writer);
  void Run();
  bool ReadAll();
  absl::optional<absl::Span<const uint8_t>> ReadOne(size_t* length, absl::Time* time);
  absl::Status Write(absl::Time time, absl::Span<const uint8_t> frame, size_t length);
  bool Passes(absl::Span<const uint8_t> frame) const;
  void Publish(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsStopping() const;

  const CaptureOptions options_;
  const UniqueFd packets_;
  const UniqueFd stop_;  // an eventfd
  std::thread thread_;

  mutable absl::Mutex mutex_;
  CaptureReport report_ ABSL_GUARDED_BY(mutex_);

  // The thread's.
  const std::unique_ptr<PcapWriter> writer_;
  std::vector<uint8_t> frame_;  // room for a tag, then a frame
  uint64_t missed_ = 0;
  bool full_ = false;
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_UPLINK_WIRE_CAPTURE_H_
