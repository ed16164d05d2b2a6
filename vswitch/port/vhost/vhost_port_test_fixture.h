// VhostPortTest: a port whose virtual machine is a test: a model of a guest's driver, behind a
// backend that does nothing by itself.
#ifndef EOIB_VSWITCH_PORT_VHOST_VHOST_PORT_TEST_FIXTURE_H_
#define EOIB_VSWITCH_PORT_VHOST_VHOST_PORT_TEST_FIXTURE_H_

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/base/temp_dir_for_test.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/port/frame_in_buffers_for_test.h"
#include "vswitch/port/vhost/model_guest_for_test.h"
#include "vswitch/port/vhost/vhost_port.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib {

using Bytes = std::vector<uint8_t>;

inline constexpr uint32_t kMtu = 2044;  // of the VES
inline constexpr uint64_t kOffloads =
    VhostFeature::kGuestChecksum | VhostFeature::kGuestTso4 | VhostFeature::kGuestTso6;
inline constexpr uint64_t kLinux = kOffloads | VhostFeature::kMergeable | VhostFeature::kIndirect |
                                   VhostFeature::kEventIndex | VhostFeature::kVersion1;

inline Bytes Plain(size_t size, uint8_t last = 0) {
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
      queues_.push_back(std::make_unique<ModelQueue>(&memory_, size,
                                                     (features & VhostFeature::kEventIndex) != 0));
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
      state.queues.push_back(
          {true, queues_[i]->rings(), indices_[i], notify_[i].get(), interrupt_[i].get()});
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

  ModelMemory& memory() { return memory_; }

  // Sends a frame: the header in one buffer, the frame in pieces of `piece` bytes.
  void Send(const Bytes& frame, VnetHeader header = {}, size_t piece = 3000, size_t pair = 0) {
    Bytes bytes(header_size_);
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::vector<ModelQueue::Buffer> buffers = {Put(bytes)};
    for (size_t at = 0; at < frame.size(); at += piece) {
      buffers.push_back(
          Put({frame.begin() + static_cast<ptrdiff_t>(at),
               frame.begin() + static_cast<ptrdiff_t>(std::min(frame.size(), at + piece))}));
    }
    const bool indirect = (features_ & VhostFeature::kIndirect) != 0 && buffers.size() > 2;
    if (queues_[2 * pair + 1]->Offer(buffers, false, indirect) && !silent_)
      RingEventFd(notify_[2 * pair + 1].get());
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
    header.Describe({shape.udp ? GsoType::kUdp : GsoType::kTcp, size}, shape.ipv6,
                    HeaderSizeOf(shape));
    Send(frame, header, piece);
  }
  void Notify() { RingEventFd(notify_[1].get()); }
  // Makes buffers available for what comes.
  void Post(size_t count, uint32_t size, size_t pair = 0) {
    for (size_t i = 0; i < count; ++i)
      queues_[2 * pair]->Offer({{memory_.TakeHigh(size), size}}, true);
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
  // From now on a write to the interrupt's eventfd blocks.
  void BlockInterrupt(size_t pair = 0) {
    const int fd = interrupt_[2 * pair].get();
    const uint64_t full = 0xffff'ffff'ffff'fffe;
    EXPECT_EQ(write(fd, &full, sizeof(full)), static_cast<ssize_t>(sizeof(full)));
    EXPECT_EQ(fcntl(fd, F_SETFL, 0), 0);
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
    port_->SetMtu(2022);
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
    VisitPieces(*pool_, frame, [&bytes](absl::Span<uint8_t> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    });
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
    return FrameInBuffers(pool_.get(), kMtu - 8, bytes, checksum, gso);
  }
  DropReason Transmit(const Bytes& bytes, bool strip = false, const ChecksumRequest& checksum = {},
                      const Gso& gso = {}) {
    const Frame frame = InBuffers(bytes, checksum, gso);
    const DropReason reason = frame.IsLarge() ? port_->TransmitLarge(*pool_, frame, strip)
                                              : port_->Transmit(frame, strip);
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

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VHOST_VHOST_PORT_TEST_FIXTURE_H_
