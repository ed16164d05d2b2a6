// The life of a vhost port: faults, messages of the library, migration, and what it says to the
// operator.
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/port/locked_port.h"
#include "vswitch/port/vhost/vhost_port.h"
#include "vswitch/port/vhost/vhost_port_test_fixture.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class VhostPortLifeTest : public VhostPortTest {};

TEST_F(VhostPortLifeTest, NonsenseTakesThePortDownUntilTheGuestResets) {
  Start(kLinux);
  machine_->queue(1)->MakeAvailable(1000);
  EXPECT_THAT(Receive(), ElementsAre());
  EXPECT_THAT(
      port_->Trouble(),
      HasSubstr("the guest's driver breaks the rules of virtio: queue 1 has a chain that begins "
                "outside of the table, at descriptor 1000; the vPort is down until"));
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortDown);
  EXPECT_FALSE(IsReady());
  backend_.device->Disconnect("");
  Start(kLinux);
  machine_->Send(Plain(60));
  EXPECT_THAT(Receive(), ElementsAre(Plain(60)));

  machine_->Post(1, 2100);
  ASSERT_EQ(Transmit(Plain(60)), DropReason::kNone);
  machine_->queue(0)->AvailableWord(AvailRing::kIndex) = 5000;
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortDown);
  EXPECT_THAT(port_->Trouble(), HasSubstr("queue 0 has more chains than entries"));
}

TEST_F(VhostPortLifeTest, GoesOnWhereItWasAfterAMessage) {
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

TEST_F(VhostPortLifeTest, LogsWritesWhileTheGuestMigrates) {
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

// A guest that makes chains available at the moment when the port asks for notifications: it has
// seen that none is wanted.
class SendsBeforeTheWait final : public DirtyLog {
 public:
  explicit SendsBeforeTheWait(ModelMachine* machine) : machine_(machine) {}
  void LogGuest(uint64_t, uint64_t) noexcept override {}
  void LogUsed(uint16_t queue, uint64_t offset, uint64_t) noexcept override {
    if (queue != 1 || offset != UsedRing::kFlags ||
        machine_->queue(1)->UsedWord(UsedRing::kFlags) != 0 || !armed_)
      return;
    armed_ = false;
    for (uint8_t i = 0; i < 20; ++i) machine_->SendSilently(Plain(60, i));
  }

 private:
  ModelMachine* const machine_;
  bool armed_ = true;
};

TEST_F(VhostPortLifeTest, StaysReadyForFramesThatCameBeforeItAskedForNotifications) {
  Start(kLinux & ~VhostFeature::kEventIndex);
  SendsBeforeTheWait log(machine_.get());
  machine_->set_log(&log, (kLinux & ~VhostFeature::kEventIndex) | VhostFeature::kLog);
  machine_->Reconfigure();
  // More than a batch: from then on none is wanted.
  for (uint8_t i = 0; i < 9; ++i) machine_->Send(Plain(60, i));
  Frame frames[8];
  for (const size_t expected : {8, 8, 8, 5}) {
    EXPECT_TRUE(IsReady());
    ASSERT_EQ(port_->Receive(pool_.get(), kMtu, absl::MakeSpan(frames), &counts_), expected);
    for (size_t i = 0; i < expected; ++i) pool_->Free(frames[i].buffer);
  }
}

TEST_F(VhostPortLifeTest, AnnouncesAGuestThatArrived) {
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

// A message while frames come, such as one that masks an interrupt: the stations behind the port
// stay there.
TEST_F(VhostPortLifeTest, IsNotDownDuringAMessage) {
  Start(kLinux);
  backend_.device->Park();
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortFull);
  machine_->Post(1, 2100);
  machine_->Start();
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kNone);
  backend_.device->Park();
  VhostState stopped;
  stopped.features = kLinux;
  backend_.device->Resume(stopped);
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortDown) << "the guest's driver has stopped";
  machine_->Start();
  backend_.device->Disconnect("");
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortDown);
}

// The program makes the eventfd of an interrupt blocking, and fills its counter.
TEST_F(VhostPortLifeTest, AnInterruptNeverBlocks) {
  Start(kLinux);
  machine_->BlockInterrupt();
  machine_->Post(2, 2100);
  machine_->queue(0)->WantInterrupt(true);
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kNone);
  EXPECT_EQ(port_->Trouble(), "");
}

// A ring of the guest that leaves its memory takes the port down, not the process.
TEST_F(VhostPortLifeTest, TakesNoRingsOutsideOfTheMemory) {
  Start(kLinux);
  for (const size_t queue : {0, 1}) {
    VhostState state = machine_->State();
    state.queues[queue].rings.used =
        machine_->memory().At(ModelMemory::kLow) + machine_->memory().size() - 64;
    backend_.device->Park();
    backend_.device->Resume(state);
    EXPECT_THAT(port_->Trouble(),
                HasSubstr("rings that are not in the guest's memory, of size 64"));
    EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortDown);
    EXPECT_THAT(Receive(), ElementsAre());
  }
  machine_->Reconfigure();
  EXPECT_EQ(port_->Trouble(), "");
}

TEST_F(VhostPortLifeTest, SaysWhyNoFramesPass) {
  EXPECT_THAT(
      port_->Trouble(),
      HasSubstr(
          "no virtual machine has connected to its socket; start it. A machine that was connected "
          "to a former agent needs reconnect=1"));
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortDown);
  ASSERT_TRUE(backend_.device->Connect());
  EXPECT_THAT(port_->Trouble(),
              HasSubstr("connected, but its guest has not started the interface"));
  VhostState state;
  state.features = kLinux;
  backend_.device->Resume(state);
  EXPECT_THAT(
      port_->Trouble(),
      HasSubstr("does not share its memory; give QEMU -object memory-backend-memfd,share=on"));
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortDown);
  EXPECT_FALSE(backend_.device->Connect()) << "a second machine";
  backend_.device->Refuse();
  EXPECT_THAT(port_->Describe(), HasSubstr("1 further machine refused: give each its own socket"));
  backend_.device->Disconnect("");
  Start(kLinux);
}

// A machine that listens serves one connection. The kernel accepts a second one, and no message
// comes.
TEST_F(VhostPortLifeTest, SaysThatTheMachineServesAnotherAgent) {
  port_.reset();
  port_ =
      VhostPort::Open({.socket = directory_.path() + "/vm", .server = false}, &backend_).value();
  EXPECT_THAT(port_->Trouble(), HasSubstr("there is no socket"));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(backend_.device->Connect());
    EXPECT_THAT(port_->Trouble(), HasSubstr("nothing answers at " + directory_.path() +
                                            "/vm; if another agent uses the same"));
    backend_.device->Resume(VhostState());
    EXPECT_THAT(port_->Trouble(), HasSubstr("its guest has not started the interface"));
    backend_.device->Disconnect("");
  }
}

// A guest whose memory is a private copy: it notifies, and its rings stay empty here.
TEST_F(VhostPortLifeTest, SaysThatMemoryIsAPrivateCopy) {
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

// The machine's program shrinks the file of its memory while queues are in use. Where `region` is,
// buffers or rings vanish.
class LostMemoryTest : public VhostPortTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
  void ExpectDownUntilTheMachineStartsAgain() {
    EXPECT_THAT(port_->Trouble(), HasSubstr("has shrunk the file of the memory that it shares"));
    EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortDown);
    EXPECT_THAT(Receive(), ElementsAre());
    EXPECT_FALSE(IsReady());
    machine_->Reconfigure();
    EXPECT_THAT(port_->Trouble(), HasSubstr("has shrunk the file")) << "a message mends nothing";
    backend_.device->Disconnect("");
    machine_.reset();
    Start(kLinux);
    machine_->Send(Plain(60));
    EXPECT_THAT(Receive(), ElementsAre(Plain(60)));
  }
};

TEST_P(LostMemoryTest, TakesThePortDownFromTheGuest) {
  Start(kLinux);
  machine_->Send(Plain(60));
  EXPECT_THAT(Receive(), ElementsAre(Plain(60)));
  machine_->Send(Plain(60));
  machine_->memory().Shrink(GetParam(), 0);
  Receive();
  ExpectDownUntilTheMachineStartsAgain();
}

TEST_P(LostMemoryTest, TakesThePortDownToTheGuest) {
  Start(kLinux);
  machine_->Post(8, 2100);
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kNone);
  machine_->memory().Shrink(GetParam(), 0);
  Transmit(Plain(60));
  ExpectDownUntilTheMachineStartsAgain();
}

INSTANTIATE_TEST_SUITE_P(Of, LostMemoryTest,
                         ::testing::Values(ModelMemory::kHigh, ModelMemory::kLow),
                         [](const auto& info) {
                           return info.param == ModelMemory::kHigh ? "Buffers" : "Rings";
                         });

TEST_F(VhostPortLifeTest, SeesMemoryThatTheLibraryFoundLost) {
  Start(kLinux);
  backend_.device->Park();
  machine_->memory().Shrink(ModelMemory::kLow, 0);
  EXPECT_EQ(machine_->queue(0)->UsedWord(UsedRing::kIndex), 0);
  machine_->Start();
  EXPECT_THAT(port_->Trouble(), HasSubstr("has shrunk the file"));
}

TEST_F(VhostPortLifeTest, LostMemoryLeavesOtherPortsAlone) {
  Start(kLinux);
  FakeBackend backend;
  const auto other = VhostPort::Open({.socket = directory_.path() + "/other"}, &backend).value();
  ASSERT_TRUE(backend.device->Connect());
  ModelMachine machine(backend.device, kLinux);
  machine.Start();
  for (ModelMachine* one : {machine_.get(), &machine}) one->Post(8, 2100);
  machine_->memory().Shrink(ModelMemory::kHigh, 0);
  // A batch for both.
  const Frame frame = InBuffers(Plain(60));
  for (VhostPort* port : {other.get(), port_.get(), other.get()})
    EXPECT_EQ(port->Transmit(frame, false), DropReason::kNone);
  DropReason reason;
  for (VhostPort* port : {other.get(), port_.get()}) EXPECT_EQ(port->Flush(&reason), 0u);
  pool_->Free(frame.buffer);
  EXPECT_THAT(port_->Trouble(), HasSubstr("has shrunk the file"));
  EXPECT_EQ(other->Trouble(), "");
  EXPECT_EQ(machine.Take().size(), 2u);
}

TEST_F(VhostPortLifeTest, RefusesPathsThatAreNotFree) {
  const auto error = [this](const std::string& path) {
    return std::string(VhostPort::Open({.socket = path}, &backend_).status().message());
  };
  EXPECT_THAT(error(directory_.path() + "/none/vm"),
              HasSubstr("/none/: No such file or directory; make it, or change socket"));
  ASSERT_TRUE(std::ofstream(directory_.path() + "/file").good());
  EXPECT_THAT(error(directory_.path() + "/file"),
              HasSubstr("there is a file that is no socket; remove it, or change socket"));
}

// The library's messages come at any time; a sanitizer sees whether the worker is outside
// meanwhile.
TEST_F(VhostPortLifeTest, MessagesComeWhileTheWorkerRuns) {
  Start(kLinux);
  // A machine that notifies and sends nothing looks like one that does not share its memory.
  machine_->Send(Plain(60));
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
      while (taken.load() == before && machine_->queue(1)->outstanding() != 0 && IsReady())
        std::this_thread::yield();
    }
  }
  done.store(true);
  worker.join();
}

// ---- Several workers ----------------------------------------------------------------------------

// One worker reads between another one's first frame and its Flush. The library waits for the
// Flush.
TEST_F(VhostPortLifeTest, StaysInsideForAnotherWorkersFrames) {
  Start(kLinux);
  machine_->Post(8, 2100);
  machine_->Send(Plain(60));
  const Frame frame = InBuffers(Plain(60, 1));
  ASSERT_EQ(port_->Transmit(frame, false), DropReason::kNone);
  EXPECT_THAT(Receive(), ElementsAre(Plain(60)));
  std::atomic<bool> parked{false};
  std::thread library([&] {
    backend_.device->Park();
    parked.store(true);
  });
  for (int i = 0; i < 1000; ++i) {
    std::this_thread::yield();
    EXPECT_FALSE(parked.load());
  }
  EXPECT_EQ(port_->Transmit(frame, false), DropReason::kNone);
  DropReason lost;
  EXPECT_EQ(port_->Flush(&lost), 0u);
  library.join();
  EXPECT_EQ(port_->Transmit(frame, false), DropReason::kPortFull);
  EXPECT_EQ(machine_->Take().size(), 2u);
  pool_->Free(frame.buffer);
}

// Both write, one reads, and the library's messages come at any time. No frame is lost or given
// twice.
TEST_F(VhostPortLifeTest, SeveralWorkersTakeTurns) {
  Start(kLinux);
  LockedPort first(std::move(port_));
  const std::unique_ptr<Port> second = first.MakeQueue();
  std::atomic<bool> done{false};
  std::atomic<size_t> taken{0}, written{0};
  const auto work = [&](Port* port, BufferPool* pool) {
    Frame frame{pool->Allocate(), nullptr, 60};
    frame.data = pool->Frame(frame.buffer);
    std::memset(frame.data, 0, frame.length);
    while (!done.load()) {
      Frame frames[64];
      PortReceiveCounts counts;
      const size_t received =
          port == &first ? port->Receive(pool, kMtu, absl::MakeSpan(frames), &counts) : 0;
      for (size_t i = 0; i < received; ++i) pool->Free(frames[i].buffer);
      taken += received;
      for (int i = 0; i < 4; ++i) written += port->Transmit(frame, false) == DropReason::kNone;
      DropReason lost;
      EXPECT_EQ(port->Flush(&lost), 0u);
    }
    pool->Free(frame.buffer);
  };
  const auto other_pool = BufferPool::Create(&hca_, hca_.pd(), 256, kMtu).value();
  std::thread one(work, &first, pool_.get()), other(work, second.get(), other_pool.get());
  size_t sent = 0, got = 0;
  for (int i = 0; i < 100 || got < 1000 || taken.load() < 50; ++i) {
    backend_.device->Park();
    while (machine_->queue(1)->Take().has_value()) {
    }
    got += machine_->Take().size();
    machine_->Post(machine_->queue(0)->free(), 2100);
    if (machine_->queue(1)->free() >= 2) {
      machine_->Send(Plain(60));
      ++sent;
    }
    machine_->Reconfigure();
    std::this_thread::yield();
  }
  done.store(true);
  one.join();
  other.join();
  backend_.device->Park();
  EXPECT_EQ(got + machine_->Take().size(), written.load());
  EXPECT_LE(taken.load(), sent);
}

}  // namespace
}  // namespace eoib
