// Channel: the half of an IPoIB interface that datagrams go through. Headers come off and on here, senders are identified,
// packets wait for a path or a group. What takes time (joins, path records) is its Link's, to which it sends Wishes and whose
// News it takes.
//
//     received:  Identify  (drop what is not ours to have)  Listener::OnPacket
//     to send:   unicast: peer -> vPort -> path;  group: mgid -> handle;  else hold and ask;  then one post for each batch
//
// A peer is a vPort of a VPortDirectory, as in a VES: so paths are the Resolver's. A group that does not exist is remembered as
// such; the Link says when that changes.
//
// Threads. One, the data path's, which is the one that its Listener is called on; Rebind by control, while that thread is
// paused. It owns `pool`.
#ifndef EOIB_GATEWAY_IPOIB_CHANNEL_H_
#define EOIB_GATEWAY_IPOIB_CHANNEL_H_

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
#include "fdb/clock.h"
#include "fdb/token_bucket.h"
#include "fdb/vport_directory.h"
#include "gateway/ipoib/counters.h"
#include "gateway/ipoib/interface.h"
#include "gateway/ipoib/link_queues.h"
#include "gateway/ipoib/source_table.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/fabric/ud_endpoint.h"
#include "vswitch/fabric/unique_fd.h"
#include "vswitch/held_frames.h"

namespace eoib::ipoib {

class Channel final : public Interface {
 public:
  static constexpr size_t kBatch = 64;
  static constexpr size_t kHeldForGroups = 64;
  static constexpr size_t kGroups = 4096;  // that can be sent to
  // Of them, so many that were not known, or the SA would be asked for each address that somebody scans by IPv6. Those that
  // this port listens to cost no question.
  static constexpr int kNewGroupsPerSecond = 200;
  // Peers that are known at a time. Who invents more makes the channel forget.
  static constexpr size_t kMostKnown = 65536;
  static constexpr absl::Duration kHold = absl::Seconds(1);
  static constexpr absl::Duration kGroupIdle = absl::Minutes(5);
  static constexpr absl::Duration kAbsentGroupIdle = absl::Seconds(10);

  // All outlive the channel.
  struct Parts {
    BufferPool* pool;
    VPortDirectory* directory;
    Wishes* wishes;
    NewsQueue* news;
    const Clock* clock;
  };
  explicit Channel(const Parts& parts);
  // Frees the buffers of packets that wait.
  ~Channel() override;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Before the first Work; outlives it.
  void SetListener(Listener* listener) { listener_ = listener; }

  // Interface. What is sent is posted by Flush, or when a batch is full.
  absl::optional<LinkState> state() const override { return state_; }
  void Send(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) override;
  void SendToGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpoibGroup& group, bool beyond_link) override;
  bool Reaches(const IpoibGroup& group) override;
  void Listen(const IpoibGroup& group) override;
  void Unlisten(const IpoibGroup& group) override;
  void Flush();

  // Readable when Work has something to do.
  int fd() const { return epoll_.get(); }
  // Takes news and up to `batches` batches of datagrams, and posts what was sent meanwhile. What is left makes fd() readable.
  void Work(int batches = 4);
  // Gives up what has waited too long. At NextDeadline at the latest.
  void Expire();
  absl::Time NextDeadline() const { return std::min(expire_at_, next_idle_look_); }

  // Control, while the channel's thread is paused: another queue pair, or none. The link is down until news come. Packets wait
  // on; sends of the former endpoint that have not completed are counted as dropped.
  absl::Status Rebind(UdEndpoint* endpoint, const IpoibAddress& own);

  const Counters& counters() const { return counters_; }
  // Packets to send that have neither been sent nor dropped.
  size_t UnderWay() const;
  Qpn qpn() const { return own_.qpn(); }

 private:
  // What the directory answered for a peer in one of its generations, and what control has been told, as in a PeerTracker. That
  // holds for all generations, as paths do.
  struct Peer {
    VPortId vport;
    uint64_t generation = 0;
    Lid slid;                                 // where it was heard from, as control was told last
    absl::Time told = absl::InfinitePast();   // when
    absl::Time asked = absl::InfinitePast();  // when control was asked for a way to it
  };
  struct Group {
    enum class What : uint8_t { kAsked, kThere, kAbsent } what = What::kAsked;
    AhIndex ah = AhIndex::None();
    absl::Time used;
  };
  struct HeldForGroup {
    Mgid mgid;
    bool beyond_link;
    SendRequest request;
    absl::Time deadline;
  };

  bool Receive();
  void Deliver(const Datagram& datagram);
  bool IsOwn(const Datagram& datagram) const;
  absl::optional<SourceTable::Source> Identify(const Datagram& datagram, IpoibType type, absl::Span<const uint8_t> payload);
  void CountReceived(const Packet& packet, bool has_grh);
  void NoteHeard(const SourceTable::Source& source, const Datagram& datagram);
  void NotePath(const Datagram& datagram, const IpoibAddress& address, bool created, Peer* peer);
  void AskForPath(const IpoibAddress& address, Peer* peer);
  void TakeNews();
  void TakeState(const News& news);
  void TakeGroup(const News& news);
  void TakeNoRoom(const Mgid& mgid);
  std::vector<HeldForGroup> TakeHeldFor(const Mgid& mgid);
  Peer* FindPeer(const IpoibAddress& address, bool* created);
  bool WishFor(Punt::Kind kind, const Peer& peer, const IpoibAddress& address, Lid slid, Sl sl);
  // A buffer with header and payload. None, and counted, if it cannot be sent at all.
  absl::optional<SendRequest> Prepare(IpoibType type, absl::Span<const uint8_t> payload);
  BufferId Allocate();
  // What to drop a packet for; nothing: it waits.
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
  bool Arm();
  void WorkSoon();
  absl::Status Watch(int fd);

  const Parts parts_;
  Listener* listener_ = nullptr;
  UniqueFd epoll_;
  UniqueFd more_;  // an eventfd: there is more to do
  UdEndpoint* endpoint_ = nullptr;
  bool told_of_failure_ = false;  // of endpoint_'s
  int watched_ = -1;              // its descriptor
  IpoibAddress own_;
  absl::optional<LinkState> state_;
  bool state_changed_ = false;
  Outbox<Wish, Wishes> wishes_;
  SourceTable sources_;
  absl::flat_hash_map<IpoibAddress, Peer> peers_;
  absl::flat_hash_map<Mgid, Group> groups_;
  absl::flat_hash_set<Mgid> listened_;
  TokenBucket new_groups_;
  absl::Time next_idle_look_;
  HeldFrames held_;
  absl::Time expire_at_ = absl::InfiniteFuture();  // something waits
  std::vector<HeldForGroup> held_for_groups_;
  std::array<Datagram, kBatch> batch_;
  std::array<SendRequest, kBatch> requests_;
  std::array<eoib::DropReason, kBatch> results_;
  size_t posting_ = 0;
  Counters counters_;
};

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_IPOIB_CHANNEL_H_
