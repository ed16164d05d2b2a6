// Hostile: a peer that writes anything anywhere it can, at any time, and looks for what was not meant for it.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_HOSTILE_PEER_FOR_TEST_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_HOSTILE_PEER_FOR_TEST_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "vswitch/fabric/softhca/event_fd.h"
#include "vswitch/fabric/softhca/ring.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"

namespace eoib::softhca {

inline constexpr uint64_t kHostileCapacity = 64 * 1024;
// What is said between good peers, and to the hostile one. Four in a row are never part of a header: no field has more than
// three such bytes beside a fourth.
inline constexpr char kConfided = 'g';
inline constexpr char kPublic = 'h';
inline constexpr char kLeak[] = {kConfided, kConfided, kConfided, kConfided};

// A number, so that each is told from the next, and `size` bytes of a kind.
inline std::string Message(int number, size_t size, char kind) { return std::to_string(number) + std::string(size, kind); }

// Stores as a scribbling process would, in words, but so that ThreadSanitizer knows them for what they are.
inline void Scribble(uint8_t* at, const void* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) __atomic_store_n(&at[i], static_cast<const uint8_t*>(bytes)[i], __ATOMIC_RELAXED);
}

// A port without an HCA: a thread that holds one end of a ring to its victim and one of each ring from it.
class Hostile final : public PortSink {
 public:
  // `local`: rings in this process's memory, where ThreadSanitizer sees both sides; else in memory files.
  Hostile(Subnet* subnet, Lid victim, Qpn victim_qpn, bool local)
      : victim_(victim), victim_qpn_(victim_qpn), local_(local), doorbell_(MakeEventFd()), link_(subnet->Connect()) {
    EXPECT_TRUE(link_->Register("hostile", {doorbell_.get(), nullptr}, PortUse::kOwn, this).ok());
    EXPECT_TRUE(Eventually([this] { return config().active; }));
  }
  ~Hostile() override {
    Stop();
    link_->Unregister();
  }
  void Start() { thread_ = std::thread(&Hostile::Run, this); }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  PortConfig config() const {
    absl::MutexLock lock(&mutex_);
    return config_;
  }
  uint64_t steps() const { return steps_; }
  // What it found that was not meant for it.
  uint64_t leaks() const { return leaks_; }
  // Has it look at all that it can read.
  void LookAtEverything() {
    absl::MutexLock lock(&mutex_);
    for (const In& in : in_) LookAt(*in.memory, 0, in.memory->capacity());
    for (const auto& memory : former_) LookAt(*memory, 0, memory->capacity());
  }
  // Opens a ring only for what comes with it.
  UniqueFd StealDoorbell() {
    OpenIfClosed();
    const auto opened = [this] {
      absl::MutexLock lock(&mutex_);
      return victims_doorbell_ != nullptr;
    };
    EXPECT_TRUE(Eventually(opened));
    absl::MutexLock lock(&mutex_);
    return UniqueFd(fcntl(victims_doorbell_->get(), F_DUPFD_CLOEXEC, 0));
  }

  void OnPortConfig(const PortConfig& config) override {
    absl::MutexLock lock(&mutex_);
    config_ = config;
  }
  void OnMad(Lid, const Mad&) override {}
  void OnRingOffered(uint64_t ring, const SourceIdentity&, RingEnd end) override {
    absl::MutexLock lock(&mutex_);
    std::shared_ptr<RingMemory> memory = end.local;
    if (memory == nullptr) memory = RingMemory::Map(end.data.get(), end.index.get(), end.capacity).value();
    if (first_ring_ == 0) first_ring_ = ring;
    in_.push_back({ring, std::move(memory), std::move(end.space), std::move(end.liveness)});
  }
  void OnSourceChanged(uint64_t, const SourceIdentity&) override {}
  void OnRingClosed(uint64_t ring) override {
    absl::MutexLock lock(&mutex_);
    if (ring == out_ring_) out_ring_ = 0;
    std::erase(excess_, ring);
    Forget(ring);
  }
  void OnRingOpened(uint64_t request, uint64_t ring, std::shared_ptr<UniqueFd> doorbell) override {
    absl::MutexLock lock(&mutex_);
    if (request != kRequest) {
      excess_.push_back(ring);
      return;
    }
    out_ring_ = ring;
    victims_doorbell_ = std::move(doorbell);
  }
  void OnRingRefused(uint64_t request, const std::string&) override {
    absl::MutexLock lock(&mutex_);
    if (request == kRequest) out_ring_ = 0;
  }
  void OnGroup(Mlid, const std::vector<Lid>&) override {}
  void OnFaults(const std::vector<FaultRule>&) override {}
  void OnSubnetLost() override {}

 private:
  static constexpr uint64_t kOpening = ~uint64_t{0};
  static constexpr uint64_t kRequest = 1;  // for the ring that it writes; others are for nothing
  static constexpr size_t kMostFormer = 32;
  struct In {
    uint64_t ring;
    std::shared_ptr<RingMemory> memory;
    UniqueFd space;
    UniqueFd liveness;
  };

  void Run() {
    // It writes into pipes that nobody reads any more.
    sigset_t broken_pipe;
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
    while (!stop_) {
      OpenIfClosed();
      if (Random() % 64 == 0) AttackSubnet();
      absl::MutexLock lock(&mutex_);
      if (out_ring_ != kOpening && out_ring_ != 0) {
        AttackConsumer();
        ++steps_;
      }
      for (In& in : in_) AttackProducer(&in);
      if (Random() % 16 == 0) LookAtSome();
    }
  }

  void LookAtSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const In& in : in_) LookAt(*in.memory, Random() % in.memory->capacity(), 4096);
    if (former_.empty()) return;
    const RingMemory& former = *former_[Random() % former_.size()];
    LookAt(former, Random() % former.capacity(), 4096);
  }

  // What is in the memory of one process may be what was there before.
  void LookAt(const RingMemory& memory, uint64_t from, uint64_t size) {
    if (local_) return;
    size = std::min(size, memory.capacity() - from);
    if (memmem(memory.data() + from, size, kLeak, sizeof(kLeak)) != nullptr) ++leaks_;
  }

  // The ring is closed; its memory is still mapped, since nobody can take that back.
  void Forget(uint64_t ring) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const In& in : in_) {
      if (in.ring != ring) continue;
      LookAt(*in.memory, 0, in.memory->capacity());
      former_.push_back(in.memory);
    }
    std::erase_if(in_, [ring](const In& in) { return in.ring == ring; });
    if (former_.size() > kMostFormer) former_.erase(former_.begin());
  }

  // Makes rings of all that is no ring, and of what is one; closes rings, its own and others'. Without the mutex, since the
  // subnet may answer from within.
  void AttackSubnet() {
    if (Random() % 2 == 0) {
      link_->OpenRing(kRequest + 1 + Random() % 1000, victim_, ExcessRing()).IgnoreError();
      return;
    }
    const uint64_t ring = RingToClose();
    link_->CloseRing(ring);
    absl::MutexLock lock(&mutex_);  // who closes a ring is not told
    if (ring == out_ring_) out_ring_ = 0;
    std::erase(excess_, ring);
    Forget(ring);
  }

  uint64_t RingToClose() {
    absl::MutexLock lock(&mutex_);
    if (Random() % 4 != 0 && !excess_.empty()) return excess_[Random() % excess_.size()];
    if (Random() % 16 == 0 && !in_.empty()) return in_[Random() % in_.size()].ring;
    if (Random() % 16 == 0 && out_ring_ != kOpening) return out_ring_;
    return first_ring_ - Random() % 16;  // of those who came before
  }

  RingEnd ExcessRing() {
    RingEnd end;
    end.capacity = kHostileCapacity;
    std::shared_ptr<RingMemory> memory;
    if (local_) {
      end.local = RingMemory::CreateLocal(kHostileCapacity);
      return end;
    }
    memory = RingMemory::CreateShared(kHostileCapacity).value();
    EXPECT_TRUE(memory->ReleaseFds(&end.data, &end.index));
    end.space = MakeEventFd();
    switch (Random() % 8) {
      case 0:
        end.capacity = Random();
        break;
      case 1:
        std::swap(end.data, end.index);
        break;
      case 2:
        end.data = MakeEventFd();
        break;
      case 3:
        end = RingEnd();
        break;
      case 4:
        end.liveness = MakeEventFd();
        break;
      case 5:
        end.space = UniqueFd();
        break;
      case 6: {
        int ends[2];
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        end.liveness = UniqueFd(ends[0]);
        close(ends[1]);  // dead before it was born
        break;
      }
      default:
        memory->index()->head.store(Random());
    }
    return end;
  }

  void OpenIfClosed() {
    RingEnd end;
    {
      absl::MutexLock lock(&mutex_);
      if (out_ring_ != 0) return;
      out_ring_ = kOpening;
      end.capacity = kHostileCapacity;
      out_ = local_ ? RingMemory::CreateLocal(kHostileCapacity) : RingMemory::CreateShared(kHostileCapacity).value();
      head_ = 0;
      if (local_) {
        end.local = out_;
      } else {
        end.space = MakeEventFd();
        EXPECT_TRUE(out_->ReleaseFds(&end.data, &end.index));
        int ends[2];
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        end.liveness = UniqueFd(ends[0]);
        liveness_ = UniqueFd(ends[1]);
      }
    }
    EXPECT_TRUE(link_->OpenRing(kRequest, victim_, std::move(end)).ok());
  }

  uint64_t Random() { return random_(); }
  // One of those that code might trip over, or any.
  uint64_t RandomPosition(uint64_t near) {
    const uint64_t kinds[] = {
        0, 64, near, near + 64, near - 64, near + kHostileCapacity, near + 2 * kHostileCapacity, ~uint64_t{63}, Random()};
    return kinds[Random() % std::size(kinds)];
  }

  RecordHeader RandomHeader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    RecordHeader header;
    header.destination_qpn = Random() % 4 == 0 ? static_cast<uint32_t>(Random()) : victim_qpn_.value();
    header.source_qpn = config_.qpns.first.value() + static_cast<uint32_t>(Random() % 2 * Random() % 8192);
    header.qkey = 0x1234;
    header.pkey = static_cast<uint16_t>(Random() % 8 == 0 ? Random() : 0xffff);
    header.dlid = static_cast<uint16_t>(Random() % 8 == 0 ? Random() : victim_.value());
    header.sl = static_cast<uint8_t>(Random());
    header.flags = static_cast<uint8_t>(Random() % 4 == 0 ? Random() : 0);
    header.length = static_cast<uint32_t>(Random() % (Random() % 256 == 0 ? 5000 : kMaxRecordPayload));
    return header;
  }

  void AttackConsumer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    RingIndex* index = out_->index();
    const uint64_t noise = Random();
    switch (Random() % 8) {
      case 0:  // what is published already changes
        if (Random() % 16 != 0) break;
        Scribble(out_->data() + Random() % (kHostileCapacity - sizeof(noise)), &noise, sizeof(noise));
        break;
      case 1:
        index->armed.store(static_cast<uint32_t>(noise));
        index->space_wanted.store(static_cast<uint32_t>(noise >> 32));
        break;
      case 2:
        index->tail.store(RandomPosition(head_));
        break;
      case 3:
        if (Random() % 256 == 0) index->head.store(RandomPosition(head_));
        break;
      case 4:
        AttackEventFd(victims_doorbell_->get());
        break;
      case 5:
        if (Random() % 256 == 0) AttackLiveness(&liveness_);
        break;
      default:
        PublishRecord(RandomHeader());
        if (Random() % 512 == 0) FillWithGoodRecords();
    }
  }

  // All that the victim may take before it comes to another's ring.
  void FillWithGoodRecords() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    RecordHeader header;
    header.destination_qpn = victim_qpn_.value();
    header.source_qpn = config_.qpns.first.value();
    header.qkey = 0x1234;
    header.pkey = 0xffff;
    header.dlid = victim_.value();
    for (uint64_t i = 0; i < kHostileCapacity / RecordSize(0); ++i) PublishRecord(header);
  }

  // In order as far as it goes, so that there is no end of records; their headers are not.
  void PublishRecord(const RecordHeader& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t at = head_ % kHostileCapacity;
    const uint64_t size = RecordSize(header.length);
    const bool is_full = head_ - out_->index()->tail.load() > kHostileCapacity - 2 * RecordSize(kMaxRecordPayload);
    if (is_full && Random() % 64 != 0) return;
    if (size > kHostileCapacity - at) {
      RecordHeader skip;
      skip.kind = RecordHeader::kSkip;
      Scribble(out_->data() + at, &skip, sizeof(skip));
      head_ += kHostileCapacity - at;
    }
    Scribble(out_->data() + head_ % kHostileCapacity, &header, sizeof(header));
    head_ += size;
    out_->index()->head.store(head_);
  }

  // Dies, or seems to; says what nobody asked for; makes it wait. (Either end of the pipe.)
  void AttackLiveness(UniqueFd* liveness) {
    if (!liveness->valid()) return;
    const uint64_t noise = Random();
    switch (Random() % 4) {
      case 0:
        liveness->reset();
        break;
      case 1:
        fcntl(liveness->get(), F_SETFL, 0);
        break;
      case 2:
        fcntl(liveness->get(), F_SETPIPE_SZ, 4096);
        break;
      default:
        fcntl(liveness->get(), F_SETFL, O_NONBLOCK);
        [[maybe_unused]] const ssize_t written = write(liveness->get(), &noise, sizeof(noise));
    }
  }

  void AttackProducer(In* in) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    RingIndex* index = in->memory->index();
    const uint64_t noise = Random();
    switch (Random() % 7) {
      case 0:
        if (Random() % 256 == 0) index->tail.store(RandomPosition(index->head.load()));
        break;
      case 1:
        index->armed.store(static_cast<uint32_t>(noise));
        break;
      case 2:
        index->space_wanted.store(static_cast<uint32_t>(noise));
        break;
      case 3:
        if (Random() % 256 == 0) index->head.store(noise);
        break;
      case 4:
        index->tail.store(index->head.load());  // there is always room, or so it says
        break;
      case 5:
        if (Random() % 1024 == 0) AttackLiveness(&in->liveness);
        break;
      default: {
        const int space = in->space.valid() ? in->space.get() : in->memory->space()->get();
        AttackEventFd(space);
      }
    }
  }

  // Rings without end, steals what others rang, fills it, and makes whoever writes or reads it wait.
  void AttackEventFd(int fd) {
    constexpr uint64_t kBrim = ~uint64_t{1};
    switch (Random() % 4) {
      case 0:
        RingSharedEventFd(fd);
        break;
      case 1:
        ClearEventFd(fd);
        break;
      case 2: {
        fcntl(fd, F_SETFL, O_NONBLOCK);
        ClearEventFd(fd);
        [[maybe_unused]] const ssize_t filled = write(fd, &kBrim, sizeof(kBrim));
        fcntl(fd, F_SETFL, 0);
        break;
      }
      default:
        fcntl(fd, F_SETFL, 0);
    }
  }

  const Lid victim_;
  const Qpn victim_qpn_;
  const bool local_;
  const UniqueFd doorbell_;
  const std::unique_ptr<SubnetLink> link_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> steps_{0};
  std::atomic<uint64_t> leaks_{0};
  std::mt19937_64 random_{1};  // the thread's
  mutable absl::Mutex mutex_;
  PortConfig config_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<RingMemory> out_ ABSL_GUARDED_BY(mutex_);
  UniqueFd liveness_ ABSL_GUARDED_BY(mutex_);
  uint64_t head_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t out_ring_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<UniqueFd> victims_doorbell_ ABSL_GUARDED_BY(mutex_);
  std::vector<In> in_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<RingMemory>> former_ ABSL_GUARDED_BY(mutex_);  // still mapped
  std::vector<uint64_t> excess_ ABSL_GUARDED_BY(mutex_);
  uint64_t first_ring_ ABSL_GUARDED_BY(mutex_) = 0;  // to it
  std::thread thread_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_HOSTILE_PEER_FOR_TEST_H_
