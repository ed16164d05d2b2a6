// UplinkPort: the data path of an uplink: a NetdevPort whose frames have VLANs of the wire outside,
// and of the VES inside.
//
// In each VLAN it forwards only while control says that this gateway is the active one (SetActive),
// and while control's lease lasts (SetLease): a gateway whose control thread does not run stops by
// itself, before another one takes over. Both are read once in each batch.
//
// It answers IP packets that are too large for the other side, and applies the uplink's own
// filters. Everything else (learning, limits, counters) is the forwarder's.
//
// Threads: the worker that owns the port calls Port's functions; control the others. They share
// atomics and the queue of heard addresses, of which the worker is the producer. Control calls
// Change while the worker is stopped.
//
// Invariants: the worker reads the lease once in each batch, and the frames of that batch go by it.
// Frames that it makes for the VES wait in a bounded queue.
#ifndef EOIB_GATEWAY_UPLINK_UPLINK_PORT_H_
#define EOIB_GATEWAY_UPLINK_UPLINK_PORT_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "fdb/fdb_key.h"
#include "gateway/uplink/reflection_filter.h"
#include "gateway/uplink/too_big_answer.h"
#include "gateway/uplink/uplink_config.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/counters.h"
#include "vswitch/base/spsc_queue.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/netdev_port.h"
#include "vswitch/port/port.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::gateway {

// X(member, help)
#define EOIB_UPLINK_PORT_COUNTERS(X)                                                            \
  X(from_wire, "frames that came from the wire into the VES")                                   \
  X(to_wire, "frames that left the VES for the wire")                                           \
  X(standby_from_wire,                                                                          \
    "frames from the wire in VLANs in which another gateway is active; harmless")               \
  X(standby_to_wire, "frames of the VES in VLANs in which another gateway is active; harmless") \
  X(lease_over, "batches in which the lease was over: control did not say hello in time")       \
  X(too_big_from_wire, "packets from the wire that were larger than `mtu`")                     \
  X(too_big_to_wire, "packets for the wire that were larger than its MTU")                      \
  X(too_big_errors_sent, "ICMP errors for packets that were too large, to either side")         \
  X(too_big_errors_limited, "such errors that were not sent, because there were too many")      \
  X(hello_frames_seen,                                                                          \
    "hellos of gateways among the frames from the wire; control reads them itself")             \
  X(reflected,                                                                                  \
    "broadcasts and multicasts that the uplink had just sent, and that the wire sent back")

struct UplinkPortCounters {
  EOIB_COUNTERS(UplinkPortCounters, Counter, EOIB_UPLINK_PORT_COUNTERS)
};

class UplinkPort final : public Port {
 public:
  static constexpr size_t kMaxPending = 128;
  // A MAC of the VES that was not heard for this time makes room for others (`ves_macs`).
  static constexpr absl::Duration kForgetMac = absl::Minutes(5);

  // An IP address that a station of the VES has told.
  struct HeardAddress {
    FdbKey station;
    IpAddr ip;
  };

  // `own` is the Ethernet source of its ICMP errors. `clock` outlives the port.
  static absl::StatusOr<std::unique_ptr<UplinkPort>> Create(const UplinkConfig& config,
                                                            std::unique_ptr<NetdevPort> netdev,
                                                            MacAddr own, const Clock* clock);
  ~UplinkPort() override = default;

  // Port.
  int receive_fd() const override { return epoll_.get(); }
  size_t Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                 PortReceiveCounts* counts) noexcept override;
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override;
  bool TakesLarge(const Gso& gso) const noexcept override { return netdev_->TakesLarge(gso); }
  DropReason TransmitLarge(const BufferPool& pool, const Frame& frame,
                           bool strip_tag) noexcept override;
  size_t Flush(DropReason* reason) noexcept override;
  MacAddr mac() const override { return {}; }

  // While the worker does not run: takes over the keys that change in place (uplink_config.h).
  void Change(const UplinkConfig& config);

  // Control.
  NetdevPort* netdev() { return netdev_.get(); }
  void SetActive(Vid ves, bool active) {
    active_[ves.value()].store(active, std::memory_order_release);
  }
  // InfiniteFuture: without end.
  void SetLease(absl::Time until) {
    lease_.store(absl::ToUnixNanos(until), std::memory_order_release);
  }
  // Whether a frame other than a bridge's own has come from the wire since the last call.
  bool TakeHeard() { return heard_.exchange(false, std::memory_order_relaxed); }
  // Addresses that the VES's stations told since the last calls; some may be missing. False if
  // there is none.
  bool PopHeard(HeardAddress* address) { return addresses_.Pop(address); }
  const UplinkPortCounters& counters() const { return counters_; }

 private:
  UplinkPort(const UplinkConfig& config, std::unique_ptr<NetdevPort> netdev, MacAddr own,
             const Clock* clock);
  absl::Status Watch();

  bool HasLease();
  void Wake();
  bool MayForward(Vid ves) const {
    return leased_ && active_[ves.value()].load(std::memory_order_acquire) != 0;
  }
  size_t HandPending(BufferPool* pool, absl::Span<Frame> out);
  bool AcceptFromWire(const BufferPool& pool, uint32_t ves_mtu, Frame* frame,
                      PortReceiveCounts* counts);
  void AnswerWire(const BufferPool& pool, const Frame& frame, size_t mtu);
  bool PassesGroup(const EthernetInfo& ethernet) const;
  DropReason CheckToWire(const BufferPool* pool, const Frame& frame, const EthernetInfo& ethernet);
  bool ShowsMac(FdbKey source);
  void NoteAddress(const Frame& frame, const EthernetInfo& ethernet);
  void AnswerVes(const BufferPool* pool, const Frame& frame, size_t mtu);
  template <typename Send>
  DropReason ToWire(const BufferPool* pool, const Frame& frame, bool strip_tag, Send send);
  absl::Span<const uint8_t> Whole(const BufferPool* pool, const Frame& frame);

  UplinkConfig config_;
  const std::unique_ptr<NetdevPort> netdev_;
  const Clock* const clock_;
  UniqueFd epoll_;
  UniqueFd wake_;                                             // an eventfd
  std::array<std::atomic<uint8_t>, Vid::kMax + 1> active_{};  // by the VES's VLAN
  std::atomic<int64_t> lease_{0};                             // UNIX nanoseconds of `clock_`
  std::atomic<bool> heard_{false};
  SpscQueue<HeardAddress, 512> addresses_;
  UplinkPortCounters counters_;

  // The worker's.
  bool leased_ = false;        // in the present batch
  bool woken_ = false;         // wake_ was rung since the last Receive
  bool transmitting_ = false;  // between the first frame that was taken in a batch and its Flush
  TooBigAnswer answer_;
  ReflectionFilter reflections_;
  std::vector<uint8_t> whole_;                // a frame that is answered
  std::deque<std::vector<uint8_t>> pending_;  // frames for the VES
  // MACs of the VES, and when they were last heard; if they are limited.
  absl::flat_hash_map<FdbKey, absl::Time> shown_;
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_UPLINK_UPLINK_PORT_H_
