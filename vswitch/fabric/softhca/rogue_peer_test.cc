// A peer that breaks the rules, played by the test: one rule in each test. ring_fuzz.cc breaks
// those of a ring all at once.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <poll.h>
#include <sys/mman.h>

#include <atomic>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "vswitch/fabric/softhca/raw_peer_test_fixture.h"

namespace eoib::softhca {
namespace {

using Received = SoftNode::Received;

class RoguePeerTest : public RawPeerTest {};

TEST_F(RoguePeerTest, IdentityComesFromTheSubnetNotFromTheRing) {
  Offer();
  Write(GoodHeader());
  const Received got = victim_.Receive();
  EXPECT_EQ(got.wc.slid, rogue_.config_.lid.value());
  struct Row {
    const char* description;
    std::function<void(RecordHeader*)> forge;
    uint64_t SoftPortCounters::*drop;
  };
  const Row kRows[] = {
      {"another port's QPN", [](RecordHeader* header) { header->source_qpn -= 1; },
       &SoftPortCounters::rcv_bad_address},
      {"a P_Key that it has not", [](RecordHeader* header) { header->pkey = 0x8001; },
       &SoftPortCounters::rcv_pkey_violations},
      {"longer than the MTU", [](RecordHeader* header) { header->length = 4097; },
       &SoftPortCounters::rcv_too_long},
      {"another port's LID", [](RecordHeader* header) { header->dlid += 1; },
       &SoftPortCounters::rcv_bad_address},
  };
  uint64_t bad_address = 0;
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    RecordHeader header = GoodHeader();
    row.forge(&header);
    Write(header);
    const bool is_address = row.drop == &SoftPortCounters::rcv_bad_address;
    bad_address += is_address ? 1 : 0;
    EXPECT_TRUE(victim_.Counts(row.drop, is_address ? bad_address : 1));
  }
  Write(GoodHeader());
  victim_.Receive();
}

TEST_F(RoguePeerTest, ACorruptRingIsClosedAndOthersGoOn) {
  Offer();
  memory_->index()->head = 17;
  SoftNode other(OpenSoftHca(subnet_.Connect(), "other").value());
  ASSERT_EQ(other.Send(victim_.Address(), "unharmed"), 0);
  EXPECT_EQ(victim_.Receive().payload, "unharmed");
  EXPECT_TRUE(victim_.Counts(&SoftPortCounters::corrupt_rings, 1));
  EXPECT_TRUE(
      Eventually([this] { return victim_.port().rings().inbound == 1 && rogue_.closed_.load(); }));
}

TEST_F(RoguePeerTest, UnsealedMemoryIsRefused) {
  end_.data = UniqueFd(memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(end_.data.get(), 64 * 1024), 0);
  ASSERT_TRUE(rogue_.link_->OpenRing(1, victim_.config().lid, std::move(end_)).ok());
  EXPECT_TRUE(Eventually([this] { return rogue_.closed_.load(); }));
  EXPECT_EQ(victim_.counters().corrupt_rings, 1u);
  EXPECT_EQ(victim_.port().rings().inbound, 0u);
}

TEST_F(RoguePeerTest, ADeadPeersRingIsEmptiedAndDropped) {
  Offer();
  Write(GoodHeader());
  liveness_.reset();  // as the kernel does when the process ends
  EXPECT_EQ(victim_.Receive().wc.status, IBV_WC_SUCCESS);
  EXPECT_TRUE(Eventually([this] {
    victim_.Poll();
    return victim_.port().rings().inbound == 0;
  }));
}

// Holes in huge pages cannot be read while no huge page is free. Other files have no seals.
TEST_F(RoguePeerTest, OnlyARingOfOrdinaryPagesIsMapped) {
  constexpr off_t kHugePage = 2 * 1024 * 1024;
  const char* reason = "its pages are not ordinary ones";
  end_.data =
      UniqueFd(memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB));
  if (!end_.data.valid()) {
    std::cerr << "THIS KERNEL HAS NO HUGE PAGES OF 2 MiB: a file on a disk stands for theirs\n";
    reason = "it is not a sealed memory file";
    std::FILE* file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    end_.data = UniqueFd(fcntl(fileno(file), F_DUPFD_CLOEXEC, 0));
    std::fclose(file);
  }
  end_.capacity = kHugePage;
  ASSERT_EQ(ftruncate(end_.data.get(), kHugePage), 0);
  fcntl(end_.data.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  // Check the message: if no huge page is free at all, the kernel itself refuses the mapping.
  EXPECT_THAT(
      std::string(RingMemory::Map(end_.data.get(), end_.index.get(), kHugePage).status().message()),
      testing::HasSubstr(reason));
  ASSERT_TRUE(rogue_.link_->OpenRing(1, victim_.config().lid, std::move(end_)).ok());
  EXPECT_TRUE(Eventually([this] { return rogue_.closed_.load(); }));
  EXPECT_EQ(victim_.counters().corrupt_rings, 1u);
  EXPECT_EQ(victim_.port().rings().inbound, 0u);
}

// One call takes a bounded number of records, however fast a producer is.
TEST_F(RoguePeerTest, AnEventIsDrainedInBoundedTime) {
  Offer();
  ASSERT_EQ(ibv_req_notify_cq(victim_.receive_cq(), 0), 0);
  fcntl(victim_.channel()->fd, F_SETFL, O_NONBLOCK);
  RecordHeader undeliverable = GoodHeader();
  undeliverable.qkey = 1;
  std::atomic<bool> stop{false};
  std::thread scribbler([&] {
    while (!stop) {
      if (!TryWrite(undeliverable)) std::this_thread::yield();
    }
  });
  ASSERT_TRUE(Eventually([&] { return memory_->index()->head.load() > 32 * 1024; }));
  for (int i = 0; i < 20; ++i) {
    const uint64_t before = victim_.counters().rcv_packets;
    ibv_cq* cq;
    void* context;
    EXPECT_EQ(victim_.verbs().get_cq_event(victim_.channel(), &cq, &context), -1);
    EXPECT_LE(victim_.counters().rcv_packets, before + 1024) << "a call's share";
  }
  SoftNode other(OpenSoftHca(subnet_.Connect(), "other").value());
  ASSERT_EQ(other.Send(victim_.Address(), "unharmed"), 0);
  ibv_cq* cq;
  void* context;
  EXPECT_TRUE(Eventually(
      [&] { return victim_.verbs().get_cq_event(victim_.channel(), &cq, &context) == 0; }));
  victim_.verbs().ack_cq_events(cq, 1);
  stop = true;
  scribbler.join();
  EXPECT_EQ(victim_.Receive().payload, "unharmed");
}

// The producer is killed between the two steps: it cleared `armed`, and nothing else would wake the
// sleeper.
TEST_F(RoguePeerTest, AProducerThatDiesBeforeItRingsLeavesNoReceiverAsleep) {
  Offer();
  fcntl(victim_.channel()->fd, F_SETFL, O_NONBLOCK);
  ASSERT_EQ(ibv_req_notify_cq(victim_.receive_cq(), 0), 0);
  ibv_cq* cq;
  void* context;
  ASSERT_EQ(victim_.verbs().get_cq_event(victim_.channel(), &cq, &context), -1)
      << "nothing there: it goes to sleep";
  Write(GoodHeader());
  liveness_.reset();
  pollfd sleeper = {victim_.channel()->fd, POLLIN, 0};
  ASSERT_EQ(poll(&sleeper, 1, 20'000), 1);
  ASSERT_EQ(victim_.verbs().get_cq_event(victim_.channel(), &cq, &context), 0);
  victim_.verbs().ack_cq_events(cq, 1);
  victim_.Receive();
}

// Draining them in order recurses, so the stack must stay bounded.
TEST_F(RoguePeerTest, RingsOfOneSourceAreLimited) {
  Offer();
  for (uint64_t request = 2; request < 20; ++request) {
    RingEnd end;
    end.capacity = 64 * 1024;
    end.local = RingMemory::CreateLocal(end.capacity);
    ASSERT_TRUE(rogue_.link_->OpenRing(request, victim_.config().lid, std::move(end)).ok());
  }
  EXPECT_TRUE(Eventually([&] { return subnet_.Rings().size() == Inbound::kMaxRingsOfSource; }))
      << "the others are closed";
  EXPECT_EQ(victim_.port().rings().inbound, Inbound::kMaxRingsOfSource);
}

}  // namespace
}  // namespace eoib::softhca
