// A port whose virtual machine is a test: a model of a guest's driver, behind a backend that does nothing by itself.
#include "vswitch/port/vhost/vhost_port.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/base/temp_dir_for_test.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/port/vhost/model_guest_for_test.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/segmentation.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

constexpr uint32_t kMtu = 2044;  // of the VES
constexpr uint64_t kOffloads = VhostFeature::kGuestChecksum | VhostFeature::kGuestTso4 | VhostFeature::kGuestTso6;
constexpr uint64_t kLinux =
    kOffloads | VhostFeature::kMergeable | VhostFeature::kIndirect | VhostFeature::kEventIndex | VhostFeature::kVersion1;

Bytes Plain(size_t size, uint8_t last = 0) {
  Bytes frame = {2, 0, 0, 0, 0, 0x0b, 2, 0, 0, 0, 0, 0x0a, 0x88, 0xb6};
  while (frame.size() < size) frame.push_back(static_cast<uint8_t>(frame.size() * 7));
  frame.back() = last;
  return frame;
}

class FakeBackend final : public VhostBackend {
 public:
  std::string Open(const std::string&, bool, VhostDevice* device) override {
    this->device = device;
    return error;
  }
  void Close(const std::string&) override { device = nullptr; }
  VhostDevice* device = nullptr;
  std::string error;
};

// A machine with some queue pairs.
class ModelMachine {
 public:
  struct Got {
    VnetHeader header;
    uint16_t chains = 1;
    Bytes frame;
  };

  ModelMachine(VhostDevice* device, uint64_t features, int pairs = 1, uint16_t size = 64)
      : device_(device),
        features_(features),
        header_size_((features & (VhostFeature::kVersion1 | VhostFeature::kMergeable)) ? 12 : 10) {
    for (int i = 0; i < 2 * pairs; ++i) {
      queues_.push_back(std::make_unique<ModelQueue>(&memory_, size, (features & VhostFeature::kEventIndex) != 0));
      indices_.push_back({});
      notify_.push_back(MakeEventFd());
      interrupt_.push_back(MakeEventFd());
    }
  }

  ModelQueue* queue(size_t i) { return queues_[i].get(); }
  VhostState State() {
    VhostState state;
    state.features = features_;
    state.memory = {{ModelMemory::kLow, memory_.size(), memory_.At(ModelMemory::kLow)},
                    {ModelMemory::kHigh, memory_.size(), memory_.At(ModelMemory::kHigh)}};
    state.log = log_;
    for (size_t i = 0; i < queues_.size(); ++i) {
      state.queues.push_back({true, queues_[i]->rings(), indices_[i], notify_[i].get(), interrupt_[i].get()});
    }
    return state;
  }
  void Start() { device_->Resume(State()); }
  // Parks and resumes, as when any message arrives.
  void Reconfigure() {
    const auto indices = device_->Park();
    if (!indices.empty()) indices_ = indices;
    Start();
  }
  void set_log(DirtyLog* log, uint64_t features) {
    log_ = log;
    features_ = features;
  }

  // Sends a frame: the header in one buffer, the frame in pieces of `piece` bytes.
  void Send(const Bytes& frame, VnetHeader header = {}, size_t piece = 3000, size_t pair = 0) {
    Bytes bytes(header_size_);
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::vector<ModelQueue::Buffer> buffers = {Put(bytes)};
    for (size_t at = 0; at < frame.size(); at += piece) {
      buffers.push_back(Put({frame.begin() + static_cast<ptrdiff_t>(at),
                             frame.begin() + static_cast<ptrdiff_t>(std::min(frame.size(), at + piece))}));
    }
    const bool indirect = (features_ & VhostFeature::kIndirect) != 0 && buffers.size() > 2;
    if (queues_[2 * pair + 1]->Offer(buffers, false, indirect) && !silent_) RingEventFd(notify_[2 * pair + 1].get());
  }
  // Without a notification.
  void SendSilently(const Bytes& frame) {
    silent_ = true;
    Send(frame);
    silent_ = false;
  }
  void Send(const SuperFrameShape& shape, uint16_t size, size_t piece = 3000) {
    VnetHeader header;
    ChecksumRequest request;
    const Bytes frame = MakeSuperFrame(shape, &request);
    header.Request(request);
    header.Describe({shape.udp ? GsoType::kUdp : GsoType::kTcp, size}, shape.ipv6, HeaderSizeOf(shape));
    Send(frame, header, piece);
  }
  void Notify() { RingEventFd(notify_[1].get()); }
  // Makes buffers available for what comes.
  void Post(size_t count, uint32_t size, size_t pair = 0) {
    for (size_t i = 0; i < count; ++i) queues_[2 * pair]->Offer({{memory_.TakeHigh(size), size}}, true);
  }
  // The frames that have come to a pair.
  std::vector<Got> Take(size_t pair = 0) {
    std::vector<Got> all;
    size_t more = 0;
    while (const auto returned = queues_[2 * pair]->Take()) {
      Bytes bytes;
      for (const auto& buffer : returned->buffers) {
        const size_t size = std::min<size_t>(buffer.length, returned->written - bytes.size());
        bytes.insert(bytes.end(), memory_.At(buffer.guest), memory_.At(buffer.guest) + size);
      }
      if (more == 0) {
        Got got;
        std::memcpy(&got.header, bytes.data(), sizeof(got.header));
        if (header_size_ == 12) got.chains = static_cast<uint16_t>(bytes[10] | bytes[11] << 8);
        more = got.chains;
        got.frame.assign(bytes.begin() + header_size_, bytes.end());
        all.push_back(got);
      } else {
        all.back().frame.insert(all.back().frame.end(), bytes.begin(), bytes.end());
      }
      --more;
    }
    EXPECT_EQ(more, 0u);
    return all;
  }
  bool WasInterrupted(size_t pair = 0) {
    uint64_t count;
    return read(interrupt_[2 * pair].get(), &count, sizeof(count)) == sizeof(count);
  }

 private:
  ModelQueue::Buffer Put(const Bytes& bytes) {
    const uint64_t at = memory_.TakeHigh(bytes.size());
    std::copy(bytes.begin(), bytes.end(), memory_.At(at));
    return {at, static_cast<uint32_t>(bytes.size())};
  }

  VhostDevice* const device_;
  uint64_t features_;
  const ptrdiff_t header_size_;
  ModelMemory memory_{1 << 20};
  std::vector<std::unique_ptr<ModelQueue>> queues_;
  std::vector<Virtqueue::Indices> indices_;
  std::vector<UniqueFd> notify_, interrupt_;
  DirtyLog* log_ = nullptr;
  bool silent_ = false;
};

class VhostPortTest : public testing::Test {
 protected:
  void SetUp() override {
    port_ = VhostPort::Open({.socket = directory_.path() + "/vm"}, &backend_).value();
    port_->SetMtu(2026);
  }
  void TearDown() override {
    port_.reset();
    EXPECT_EQ(pool_->count(BufferPool::State::kFree), pool_->size());
  }
  void Start(uint64_t features, int pairs = 1) {
    ASSERT_TRUE(backend_.device->Connect());
    machine_ = std::make_unique<ModelMachine>(backend_.device, features, pairs);
    machine_->Start();
    EXPECT_EQ(port_->Trouble(), "");
  }
  bool IsReady() {
    pollfd waiting{port_->receive_fd(), POLLIN, 0};
    return poll(&waiting, 1, 0) == 1;
  }
  std::vector<Frame> ReceiveFrames() {
    Frame frames[64];
    const size_t count = port_->Receive(pool_.get(), kMtu, absl::MakeSpan(frames), &counts_);
    return {frames, frames + count};
  }
  Bytes BytesOf(const Frame& frame) {
    Bytes bytes;
    VisitPieces(*pool_, frame, [&bytes](absl::Span<uint8_t> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
    return bytes;
  }
  std::vector<Bytes> Receive() {
    std::vector<Bytes> all;
    for (const Frame& frame : ReceiveFrames()) {
      all.push_back(BytesOf(frame));
      pool_->Free(frame.buffer);
    }
    return all;
  }
  // A frame of the switch, in the layout of the fabric's.
  Frame InBuffers(const Bytes& bytes, const ChecksumRequest& checksum = {}, const Gso& gso = {}) {
    Frame frame{pool_->Allocate()};
    frame.data = pool_->Frame(frame.buffer);
    frame.checksum = checksum;
    frame.gso = gso;
    BufferId last = frame.buffer;
    frame.length = static_cast<uint32_t>(std::min<size_t>(kMtu - 8, bytes.size()));
    std::copy_n(bytes.begin(), frame.length, frame.data);
    for (size_t at = frame.length; at < bytes.size(); ++frame.buffers) {
      const BufferId next = pool_->Allocate();
      const auto size = static_cast<uint32_t>(std::min<size_t>(kMtu - 8, bytes.size() - at));
      std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), size, pool_->Frame(next));
      pool_->Append(last, next, pool_->Frame(next), size);
      last = next;
      at += size;
    }
    frame.rest = static_cast<uint32_t>(bytes.size()) - frame.length;
    return frame;
  }
  DropReason Transmit(const Bytes& bytes, bool strip = false, const ChecksumRequest& checksum = {}, const Gso& gso = {}) {
    const Frame frame = InBuffers(bytes, checksum, gso);
    const DropReason reason = frame.IsLarge() ? port_->TransmitLarge(*pool_, frame, strip) : port_->Transmit(frame, strip);
    DropReason lost;
    if (reason == DropReason::kNone) {
      EXPECT_EQ(port_->Flush(&lost), 0u);
    }
    EXPECT_EQ(BytesOf(frame), bytes) << "the caller keeps the frame";
    pool_->Free(frame.buffer);
    return reason;
  }

  TempDir directory_;
  FakeHca hca_;
  std::unique_ptr<BufferPool> pool_ = BufferPool::Create(&hca_, hca_.pd(), 256, kMtu).value();
  FakeBackend backend_;
  std::unique_ptr<VhostPort> port_;
  std::unique_ptr<ModelMachine> machine_;
  PortReceiveCounts counts_;
};

TEST_F(VhostPortTest, FramesPassBothWays) {
  for (const uint64_t features : {uint64_t{0}, VhostFeature::kVersion1, VhostFeature::kMergeable, kLinux}) {
    Start(features);
    machine_->Send(Plain(60));
    machine_->Send(Plain(kMtu), {}, 100);
    EXPECT_TRUE(IsReady());
    EXPECT_THAT(Receive(), ElementsAre(Plain(60), Plain(kMtu)));
    EXPECT_FALSE(IsReady());
    machine_->Post(8, 2100);
    EXPECT_EQ(Transmit(Plain(60)), DropReason::kNone);
    EXPECT_EQ(Transmit(Plain(1500)), DropReason::kNone);
    const auto got = machine_->Take();
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].frame, Plain(60));
    EXPECT_EQ(got[1].frame, Plain(1500));
    EXPECT_EQ(got[0].header.flags, 0);
    backend_.device->Disconnect();
  }
}

TEST_F(VhostPortTest, BecomesReadyAgainWithTheNextFrame) {
  Start(kLinux);
  EXPECT_THAT(Receive(), ElementsAre());
  for (uint8_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(IsReady());
    machine_->Send(Plain(60, i));
    EXPECT_TRUE(IsReady());
    EXPECT_THAT(Receive(), ElementsAre(Plain(60, i)));
    ASSERT_TRUE(machine_->queue(1)->Take().has_value());
  }
}

TEST_F(VhostPortTest, StaysReadyWhileFramesWait) {
  Start(kLinux);
  for (uint8_t i = 0; i < 20; ++i) machine_->Send(Plain(60, i));
  Frame frames[8];
  for (const size_t expected : {8, 8, 4}) {
    EXPECT_TRUE(IsReady());
    ASSERT_EQ(port_->Receive(pool_.get(), kMtu, absl::MakeSpan(frames), &counts_), expected);
    for (size_t i = 0; i < expected; ++i) pool_->Free(frames[i].buffer);
  }
  EXPECT_FALSE(IsReady());
}

TEST_F(VhostPortTest, WaitsForBuffersOfThePool) {
  Start(kLinux);
  std::vector<BufferId> taken;
  while (pool_->count(BufferPool::State::kFree) > 1) taken.push_back(pool_->Allocate());
  machine_->Send(Plain(60));
  machine_->Send(Plain(61));
  EXPECT_THAT(Receive(), ElementsAre(Plain(60))) << "then the buffer is free again";
  for (const BufferId id : taken) pool_->Free(id);
  EXPECT_TRUE(IsReady());
  EXPECT_THAT(Receive(), ElementsAre(Plain(61)));
}

TEST_F(VhostPortTest, ChecksumRequestsPassBothWays) {
  Start(kLinux);
  ChecksumRequest request;
  const Bytes frame = MakeSuperFrame({.payload = 500}, &request);
  VnetHeader header;
  header.Request(request);
  machine_->Send(frame, header);
  const std::vector<Frame> frames = ReceiveFrames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].checksum, request);
  pool_->Free(frames[0].buffer);
  machine_->Post(1, 2100);
  EXPECT_EQ(Transmit(frame, false, request), DropReason::kNone);
  EXPECT_EQ(machine_->Take().at(0).header.checksum(), request);
  header.checksum_start = 499;
  header.checksum_offset = 5000;
  machine_->Send(frame, header);
  EXPECT_THAT(Receive(), ElementsAre());
  EXPECT_EQ(counts_.bad_checksum_request, 1u);
}

TEST_F(VhostPortTest, FinishesChecksumsForGuestsThatDoNot) {
  Start(VhostFeature::kVersion1);
  machine_->Post(2, 2100);
  ChecksumRequest request;
  Bytes frame = MakeSuperFrame({.vid = 10, .payload = 500}, &request);
  EXPECT_EQ(Transmit(frame, true, request), DropReason::kNone);
  CompleteChecksum(absl::MakeSpan(frame), request);
  frame.erase(frame.begin() + 12, frame.begin() + 16);
  const auto got = machine_->Take();
  EXPECT_EQ(got.at(0).frame, frame);
  EXPECT_EQ(got.at(0).header.flags, 0);
}

TEST_F(VhostPortTest, SuperFramesPassBothWays) {
  Start(kLinux);
  for (const bool ipv6 : {false, true}) {
    const SuperFrameShape shape{.ipv6 = ipv6, .payload = 60000};
    machine_->Send(shape, 1448);
    const std::vector<Frame> frames = ReceiveFrames();
    ASSERT_EQ(frames.size(), 1u);
    ChecksumRequest request;
    const Bytes bytes = MakeSuperFrame(shape, &request);
    EXPECT_EQ(BytesOf(frames[0]), bytes);
    EXPECT_EQ(frames[0].gso, (Gso{GsoType::kTcp, 1448}));
    EXPECT_EQ(frames[0].buffers, PieceLayout(kMtu).BuffersFor(bytes.size()));
    pool_->Free(frames[0].buffer);
    machine_->Post(45, 1536);
    ASSERT_TRUE(port_->TakesLarge({GsoType::kTcp, 1448}));
    EXPECT_EQ(Transmit(bytes, false, request, {GsoType::kTcp, 1448}), DropReason::kNone);
    const auto got = machine_->Take();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].frame, bytes);
    EXPECT_EQ(got[0].chains, (bytes.size() + 12 + 1535) / 1536);
    EXPECT_EQ(got[0].header.gso_type, ipv6 ? VnetHeader::kGsoTcpv6 : VnetHeader::kGsoTcpv4);
    EXPECT_EQ(got[0].header.gso_size, 1448);
    EXPECT_EQ(got[0].header.header_length, HeaderSizeOf(shape));
    while (machine_->queue(0)->outstanding() != 0) {  // fills up what is left, so that the next turn begins afresh
      ASSERT_EQ(Transmit(Plain(60)), DropReason::kNone);
      machine_->Take();
    }
  }
}

TEST_F(VhostPortTest, DividesWhatIsTooLargeForSegments) {
  Start(kLinux);
  machine_->Send({.payload = 65483}, 1448);
  const std::vector<Bytes> parts = Receive();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].size() + parts[1].size() - 54, 54u + 65483);
}

TEST_F(VhostPortTest, ATagIsLeftOut) {
  Start(kLinux);
  machine_->Post(64, 1536);
  ChecksumRequest request;
  const SuperFrameShape shape{.vid = 10, .payload = 30000};
  Bytes bytes = MakeSuperFrame(shape, &request);
  EXPECT_EQ(Transmit(bytes, true, request, {GsoType::kTcp, 1448}), DropReason::kNone);
  bytes.erase(bytes.begin() + 12, bytes.begin() + 16);
  const auto got = machine_->Take();
  EXPECT_EQ(got.at(0).frame, bytes);
  EXPECT_EQ(got.at(0).header.checksum_start, request.start - 4);
  EXPECT_EQ(got.at(0).header.header_length, HeaderSizeOf(shape) - 4);
}

TEST_F(VhostPortTest, TakesSuperFramesAsTheGuestDoes) {
  constexpr Gso kTcp{GsoType::kTcp, 1448}, kEcn{GsoType::kTcpEcn, 1448}, kUdp{GsoType::kUdp, 1448};
  Start(kLinux | VhostFeature::kGuestEcn);
  EXPECT_TRUE(port_->TakesLarge(kTcp) && port_->TakesLarge(kEcn) && !port_->TakesLarge(kUdp));
  backend_.device->Disconnect();
  for (const uint64_t missing : {VhostFeature::kGuestTso4, VhostFeature::kGuestTso6, VhostFeature::kGuestChecksum}) {
    Start(kLinux & ~missing);
    EXPECT_FALSE(port_->TakesLarge(kTcp));
    backend_.device->Disconnect();
  }
  Start(kLinux);
  EXPECT_FALSE(port_->TakesLarge(kEcn));
}

TEST_F(VhostPortTest, NoRoomAtTheGuest) {
  Start(kLinux);
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortFull);
  machine_->Post(1, 100);
  EXPECT_EQ(Transmit(Plain(200)), DropReason::kPortFull);
  EXPECT_EQ(Transmit(Plain(80)), DropReason::kNone) << "the buffer was given back";
  EXPECT_EQ(Transmit(Plain(2045)), DropReason::kPortTooLarge);
  backend_.device->Disconnect();
  Start(VhostFeature::kVersion1);
  machine_->Post(1, 100);
  EXPECT_EQ(Transmit(Plain(200)), DropReason::kPortTooLarge) << "no mergeable buffers";
}

TEST_F(VhostPortTest, InterruptsOnceForABatch) {
  Start(kLinux);
  machine_->Post(8, 2100);
  machine_->queue(0)->WantInterrupt(true);
  const Frame frame = InBuffers(Plain(60));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(port_->Transmit(frame, false), DropReason::kNone);
  EXPECT_FALSE(machine_->WasInterrupted());
  EXPECT_TRUE(machine_->Take().empty());
  DropReason reason;
  port_->Flush(&reason);
  EXPECT_TRUE(machine_->WasInterrupted());
  EXPECT_EQ(machine_->Take().size(), 4u);
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kNone);
  EXPECT_FALSE(machine_->WasInterrupted()) << "the guest asks for none";
  pool_->Free(frame.buffer);
}

TEST_F(VhostPortTest, UsesAllQueues) {
  Start(kLinux, 4);
  for (size_t pair = 0; pair < 4; ++pair) {
    machine_->Post(16, 2100, pair);
    machine_->Send(Plain(60, static_cast<uint8_t>(pair)), {}, 3000, pair);
  }
  EXPECT_THAT(Receive(), testing::UnorderedElementsAre(Plain(60, 0), Plain(60, 1), Plain(60, 2), Plain(60, 3)));
  for (uint8_t flow = 0; flow < 16; ++flow) {
    Bytes frame = Plain(60);
    frame[11] = flow;  // the source
    for (int i = 0; i < 2; ++i) EXPECT_EQ(Transmit(frame), DropReason::kNone);
  }
  size_t used = 0, all = 0;
  for (size_t pair = 0; pair < 4; ++pair) {
    const size_t frames = machine_->Take(pair).size();
    EXPECT_EQ(frames % 2, 0u) << "a flow stays in its queue";
    used += frames != 0;
    all += frames;
  }
  EXPECT_EQ(all, 32u);
  EXPECT_GT(used, 1u);
}

TEST_F(VhostPortTest, RefusesWhatIsNoFrame) {
  Start(kLinux);
  machine_->Send(Bytes(13, 2));
  VnetHeader header;
  header.gso_type = 3;  // UDP fragmentation, which was not negotiated
  machine_->Send(Plain(60), header);
  machine_->Send(Bytes(3000, 2));
  machine_->Send(Plain(60));
  EXPECT_THAT(Receive(), ElementsAre(Plain(60)));
  EXPECT_EQ(counts_.runt, 1u);
  EXPECT_EQ(counts_.too_large, 2u);
}

TEST_F(VhostPortTest, NonsenseTakesThePortDownUntilTheGuestResets) {
  Start(kLinux);
  machine_->queue(1)->MakeAvailable(1000);
  EXPECT_THAT(Receive(), ElementsAre());
  EXPECT_THAT(port_->Trouble(), HasSubstr("the guest's driver breaks the rules of virtio: queue 1 has a chain that begins "
                                          "outside of the table, at descriptor 1000; the vPort is down until"));
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortDown);
  EXPECT_FALSE(IsReady());
  backend_.device->Disconnect();
  Start(kLinux);
  machine_->Send(Plain(60));
  EXPECT_THAT(Receive(), ElementsAre(Plain(60)));

  machine_->Post(1, 2100);
  ASSERT_EQ(Transmit(Plain(60)), DropReason::kNone);
  machine_->queue(0)->AvailableWord(AvailRing::kIndex) = 5000;
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortDown);
  EXPECT_THAT(port_->Trouble(), HasSubstr("queue 0 has more chains than entries"));
}

TEST_F(VhostPortTest, GoesOnWhereItWasAfterAMessage) {
  Start(kLinux);
  machine_->Post(8, 2100);
  for (uint8_t i = 0; i < 4; ++i) {
    machine_->Send(Plain(60, i));
    machine_->Reconfigure();
    EXPECT_TRUE(IsReady());
    EXPECT_THAT(Receive(), ElementsAre(Plain(60, i)));
    EXPECT_EQ(Transmit(Plain(60, i)), DropReason::kNone);
    EXPECT_EQ(machine_->Take().at(0).frame, Plain(60, i));
  }
}

class CountingLog final : public DirtyLog {
 public:
  void LogGuest(uint64_t, uint64_t length) noexcept override { guest += length; }
  void LogUsed(uint16_t, uint64_t, uint64_t length) noexcept override { used += length; }
  uint64_t guest = 0, used = 0;
};

TEST_F(VhostPortTest, LogsWritesWhileTheGuestMigrates) {
  Start(kLinux);
  CountingLog log;
  machine_->set_log(&log, kLinux | VhostFeature::kLog);
  machine_->Reconfigure();
  machine_->Post(2, 100);
  log = {};
  EXPECT_EQ(Transmit(Plain(150)), DropReason::kNone);
  EXPECT_EQ(log.guest, 12u + 150 + 2) << "and the number of chains once more";
  EXPECT_EQ(log.used, 2 * 8u + 2);
  EXPECT_EQ(machine_->Take().at(0).frame, Plain(150));
  EXPECT_THAT(port_->Describe(), HasSubstr("migrating"));
}

// A guest that makes chains available at the moment when the port asks for notifications: it has seen that none is wanted.
class SendsBeforeTheWait final : public DirtyLog {
 public:
  explicit SendsBeforeTheWait(ModelMachine* machine) : machine_(machine) {}
  void LogGuest(uint64_t, uint64_t) noexcept override {}
  void LogUsed(uint16_t queue, uint64_t offset, uint64_t) noexcept override {
    if (queue != 1 || offset != UsedRing::kFlags || machine_->queue(1)->UsedWord(UsedRing::kFlags) != 0 || !armed_) return;
    armed_ = false;
    for (uint8_t i = 0; i < 20; ++i) machine_->SendSilently(Plain(60, i));
  }

 private:
  ModelMachine* const machine_;
  bool armed_ = true;
};

TEST_F(VhostPortTest, StaysReadyForFramesThatCameBeforeItAskedForNotifications) {
  Start(kLinux & ~VhostFeature::kEventIndex);
  SendsBeforeTheWait log(machine_.get());
  machine_->set_log(&log, (kLinux & ~VhostFeature::kEventIndex) | VhostFeature::kLog);
  machine_->Reconfigure();
  for (uint8_t i = 0; i < 9; ++i) machine_->Send(Plain(60, i));  // more than a batch: from then on none is wanted
  Frame frames[8];
  for (const size_t expected : {8, 8, 8, 5}) {
    EXPECT_TRUE(IsReady());
    ASSERT_EQ(port_->Receive(pool_.get(), kMtu, absl::MakeSpan(frames), &counts_), expected);
    for (size_t i = 0; i < expected; ++i) pool_->Free(frames[i].buffer);
  }
}

TEST_F(VhostPortTest, AnnouncesAGuestThatArrived) {
  Start(kLinux);
  Receive();
  const MacAddr mac = MacAddr::FromUint64(0x52'54'00'00'00'01);
  backend_.device->Announce(mac);
  EXPECT_TRUE(IsReady());
  const std::vector<Bytes> frames = Receive();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(MacAddr::FromWire(frames[0].data()), MacAddr::Broadcast());
  EXPECT_EQ(MacAddr::FromWire(frames[0].data() + 6), mac);
  EXPECT_EQ(frames[0][12] << 8 | frames[0][13], kEtherTypeRarp);
  EXPECT_EQ(MacAddr::FromWire(frames[0].data() + 32), mac);
  EXPECT_THAT(Receive(), ElementsAre());
}

TEST_F(VhostPortTest, SaysWhyNoFramesPass) {
  EXPECT_THAT(port_->Trouble(), HasSubstr("no virtual machine has connected"));
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortDown);
  ASSERT_TRUE(backend_.device->Connect());
  EXPECT_THAT(port_->Trouble(), HasSubstr("connected, but its guest has not started the interface"));
  VhostState state;
  state.features = kLinux;
  backend_.device->Resume(state);
  EXPECT_THAT(port_->Trouble(), HasSubstr("does not share its memory; give QEMU -object memory-backend-memfd,share=on"));
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortDown);
  EXPECT_FALSE(backend_.device->Connect()) << "a second machine";
  EXPECT_THAT(port_->Describe(), HasSubstr("1 further machines refused"));
  backend_.device->Disconnect();
  Start(kLinux);
}

// A guest whose memory is a private copy: it notifies, and its rings stay empty here.
TEST_F(VhostPortTest, SaysThatMemoryIsAPrivateCopy) {
  Start(kLinux);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(port_->Trouble(), "");
    machine_->Notify();
    EXPECT_THAT(Receive(), ElementsAre());
  }
  EXPECT_THAT(port_->Trouble(), HasSubstr("does not share its memory"));
  machine_->Send(Plain(60));
  EXPECT_THAT(Receive(), ElementsAre(Plain(60)));
  EXPECT_EQ(port_->Trouble(), "");
}

TEST_F(VhostPortTest, RefusesPathsThatAreNotFree) {
  const auto error = [this](const std::string& path) {
    return std::string(VhostPort::Open({.socket = path}, &backend_).status().message());
  };
  EXPECT_THAT(error(directory_.path() + "/none/vm"), HasSubstr("/none/: No such file or directory; make it, or change socket"));
  ASSERT_TRUE(std::ofstream(directory_.path() + "/file").good());
  EXPECT_THAT(error(directory_.path() + "/file"), HasSubstr("there is a file that is no socket; remove it, or change socket"));
}

// The library's messages come at any time; a sanitizer sees whether the worker is outside meanwhile.
TEST_F(VhostPortTest, MessagesComeWhileTheWorkerRuns) {
  Start(kLinux);
  machine_->Send(Plain(60));  // a machine that notifies and sends nothing looks like one that does not share its memory
  ASSERT_THAT(Receive(), ElementsAre(Plain(60)));
  std::atomic<bool> done{false};
  std::atomic<size_t> taken{0};
  std::thread worker([&] {
    while (!done.load()) {
      taken += Receive().size();
      Transmit(Plain(60));
    }
  });
  for (int i = 0; i < 200; ++i) {
    const auto indices = backend_.device->Park();
    EXPECT_EQ(indices.size(), 2u);
    while (machine_->queue(1)->Take().has_value()) {
    }
    machine_->Take();
    machine_->Post(machine_->queue(0)->free(), 2100);
    if (machine_->queue(1)->free() >= 2) machine_->Send(Plain(60));
    machine_->Reconfigure();
    EXPECT_EQ(port_->Trouble(), "");
    if (i % 50 == 49) {  // progress in between, on any machine
      const size_t before = taken.load();
      while (taken.load() == before && machine_->queue(1)->outstanding() != 0 && IsReady()) std::this_thread::yield();
    }
  }
  done.store(true);
  worker.join();
}

}  // namespace
}  // namespace eoib
