// Channel: the data half of an IPoIB interface. It adds and removes IPoIB headers, identifies
// senders, and holds packets that wait for a path or a group. Its Link does the slow work (joins,
// path records): it takes LinkRequests and sends LinkEvents.
//
//     received:  Peers::OnDatagram, drop or Listener::OnPacket
//     to send:   unicast: peer -> vPort -> path;  group: MGID -> handle;  else hold and request;
//     then one post for each batch
//
// Threads: the data path's, which also calls the Listener and owns `pool`. Control calls Rebind
// while that thread is paused. Channel and Link talk by the two queues and the directory.
//
// Ownership: the channel owns the buffers of packets that are held or not posted yet, and of the
// draft; the endpoint is the Link's. Handles of groups are the former queue pair's: Rebind forgets
// them. Each packet is sent or dropped, and counted once.
#ifndef EOIB_GATEWAY_LINK_CHANNEL_H_
#define EOIB_GATEWAY_LINK_CHANNEL_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "fdb/vport_directory.h"
#include "gateway/link/counters.h"
#include "gateway/link/interface.h"
#include "gateway/link/link_queues.h"
#include "gateway/link/peers.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/fabric/ud_endpoint.h"
#include "vswitch/forwarder/held_frames.h"

namespace eoib::ipoib {

class Channel final : public Interface {
 public:
  static constexpr size_t kBatch = 64;
  static constexpr size_t kHeldForGroups = 64;
  static constexpr size_t kGroups = 4096;  // to send to
  // A host that scans by IPv6 sends to a new solicited-node group for each address; the limit keeps
  // those queries off the SA. Groups that this port listens to need no query and are exempt.
  static constexpr int kNewGroupsPerSecond = 200;
  static constexpr absl::Duration kHold = absl::Seconds(1);
  static constexpr absl::Duration kGroupIdle = absl::Minutes(5);
  static constexpr absl::Duration kAbsentGroupIdle = absl::Seconds(10);

  // All outlive the channel.
  struct Context {
    BufferPool* pool;
    VPortDirectory* directory;
    LinkRequestQueue* requests;
    LinkEventQueue* events;
    const Clock* clock;
  };
  explicit Channel(const Context& context);
  ~Channel() override;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Call it before the first Work. `listener` outlives the channel.
  void SetListener(Listener* listener) { listener_ = listener; }

  // Interface. Packets are posted by Flush, or when a batch is full.
  absl::optional<LinkState> state() const override { return state_; }
  void Send(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) override;
  absl::Span<uint8_t> Draft() override;
  void SendToGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpoibGroup& group,
                   bool beyond_link) override;
  bool Reaches(const IpoibGroup& group) override;
  void Listen(const IpoibGroup& group) override;
  void Unlisten(const IpoibGroup& group) override;
  void Flush();

  // Readable when Work has something to do.
  int fd() const { return epoll_.get(); }
  // Takes events, receives up to `batches` * kBatch datagrams, and flushes. If there is more to
  // receive, fd() stays readable.
  void Work(int batches = 4);
  // Drops packets that have waited too long. Call it at NextDeadline().
  void Expire();
  absl::Time NextDeadline() const { return std::min(expire_at_, next_idle_look_); }

  // Control, while the channel's thread is paused: replaces the queue pair, or takes it away. The
  // link is down until the next kState. Held packets stay held; sends of the former endpoint that
  // have not completed are counted as dropped.
  absl::Status Rebind(UdEndpoint* endpoint, const IpoibAddress& own);

  const Counters& counters() const { return counters_; }
  // Packets requested that have been neither sent nor dropped yet.
  size_t UnderWay() const;

 private:
  struct Group {
    enum class Lookup : uint8_t { kPending, kExists, kAbsent } lookup = Lookup::kPending;
    AhIndex ah = AhIndex::None();
    absl::Time used;
  };
  struct ToGroup {
    Mgid mgid;
    bool beyond_link;
    bool operator==(const ToGroup&) const = default;
  };
  using HeldForGroups = Held<ToGroup, kHeldForGroups, kHeldForGroups>;

  bool Receive(size_t* left);
  void Deliver(const Datagram& datagram);
  void CountReceived(const Packet& packet, bool has_grh);
  void TakeEvents();
  void TakeState(const LinkEvent& event);
  void TakeGroup(const LinkEvent& event);
  std::vector<HeldForGroups::Frame> TakeHeldFor(const Mgid& mgid);
  // A buffer with header and payload; nothing, and a drop is counted, if it cannot be sent.
  absl::optional<SendRequest> Prepare(IpoibType type, absl::Span<const uint8_t> payload);
  BufferId Allocate();
  BufferId TakeBufferFor(absl::Span<const uint8_t> payload);
  // Asks the Link for a group. The reason to drop the packet, or nothing if the packet may wait.
  absl::optional<DropReason> LookForGroup(const Mgid& mgid);
  void SendToMgid(const Mgid& mgid, bool beyond_link, const SendRequest& request);
  void SendToRouters(const Mgid& absent, const SendRequest& request);
  void HoldForGroup(const Mgid& mgid, bool beyond_link, const SendRequest& request);
  void Hold(VPortId vport, const SendRequest& request);
  void RetryHeld();
  void ExpireSoon(absl::Duration wait);
  void ForgetIdleGroups();
  void ForgetHandle(AhIndex ah);
  bool IsBroadcast(const Mgid& mgid) const;
  void Post(const SendRequest& request);
  void Reap();
  void Drop(DropReason reason, BufferId buffer);
  void WorkSoon() { RingEventFd(more_.get()); }

  const Context context_;
  Listener* listener_ = nullptr;
  UniqueFd epoll_;
  UniqueFd more_;  // an eventfd: there is more to do
  UdEndpoint* endpoint_ = nullptr;
  bool told_of_failure_ = false;  // the Link knows that endpoint_ has failed
  int watched_ = -1;              // endpoint_'s descriptor, in epoll_
  IpoibAddress own_;
  absl::optional<LinkState> state_;
  bool state_changed_ = false;
  QueueProducer<LinkRequest, LinkRequestQueue> requests_;
  Peers peers_;
  absl::flat_hash_map<Mgid, Group> groups_;
  absl::flat_hash_set<Mgid> listened_;
  TokenBucket new_groups_;
  absl::Time next_idle_look_;
  HeldFrames held_;
  absl::Time expire_at_ = absl::InfiniteFuture();  // finite while a packet or a request waits
  HeldForGroups held_for_groups_;
  BufferId draft_ = BufferId::None();  // the buffer of Draft()
  std::array<Datagram, kBatch> batch_;
  std::array<SendRequest, kBatch> posts_;
  std::array<eoib::DropReason, kBatch> results_;
  size_t posting_ = 0;
  Counters counters_;
};

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_LINK_CHANNEL_H_
