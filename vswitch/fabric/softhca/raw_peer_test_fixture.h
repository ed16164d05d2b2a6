// RawPeerTest: a port of the software HCA, and a peer whose HCA is the test.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_RAW_PEER_TEST_FIXTURE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_RAW_PEER_TEST_FIXTURE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/fabric/softhca/soft_port.h"

namespace eoib::softhca {

// A port whose HCA is the test.
class RawPort : public PortSink {
 public:
  RawPort(Subnet* subnet, const std::string& name) : link_(subnet->Connect()) {
    doorbell_ = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    EXPECT_TRUE(link_->Register(name, {doorbell_.get(), nullptr}, PortUse::kOwn, this).ok());
    EXPECT_TRUE(Eventually([this] { return configured_.load(); }));
  }
  ~RawPort() override { link_->Unregister(); }

  void OnPortConfig(const PortConfig& config) override {
    config_ = config;
    configured_ = true;
  }
  void OnMad(Lid, absl::Span<const uint8_t>) override {}
  void OnRingOffered(uint64_t, const SourceIdentity&, RingEnd end) override {
    if (offered_) return;
    offer_ = std::move(end);
    offered_ = true;
  }
  void OnSourceChanged(uint64_t, const SourceIdentity&) override {}
  void OnRingClosed(uint64_t) override { closed_ = true; }
  void OnRingOpened(uint64_t, uint64_t, std::shared_ptr<UniqueFd>) override { opened_ = true; }
  void OnRingRefused(uint64_t) override {}
  void OnGroup(Mlid, const std::vector<Lid>&) override {}
  void OnFaults(const std::vector<FaultRule>&) override {}
  void OnSubnetLost() override {}

  std::unique_ptr<SubnetLink> link_;
  UniqueFd doorbell_;
  PortConfig config_;
  RingEnd offer_;  // the first one to this port
  // The subnet may call from any thread.
  std::atomic<bool> configured_{false};
  std::atomic<bool> opened_{false};
  std::atomic<bool> offered_{false};
  std::atomic<bool> closed_{false};
};

class RawPeerTest : public testing::Test {
 protected:
  RawPeerTest()
      : victim_(OpenSoftHca(subnet_.Connect(), "victim").value()), rogue_(&subnet_, "rogue") {
    memory_ = RingMemory::CreateShared(64 * 1024).value();
    EXPECT_TRUE(memory_->ReleaseFds(&end_.data, &end_.index));
    end_.capacity = 64 * 1024;
    end_.space = UniqueFd(eventfd(0, EFD_NONBLOCK));
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    end_.liveness = UniqueFd(ends[0]);
    liveness_ = UniqueFd(ends[1]);
  }
  void Offer() {
    ASSERT_TRUE(rogue_.link_->OpenRing(1, victim_.config().lid, std::move(end_)).ok());
    ASSERT_TRUE(Eventually([this] { return rogue_.opened_.load(); }));
    ASSERT_TRUE(Eventually([this] { return victim_.port().rings().inbound == 1; }));
  }
  RecordHeader GoodHeader() {
    RecordHeader header;
    header.destination_qpn = victim_.qpn().value();
    header.source_qpn = rogue_.config_.qpns.first.value();
    header.qkey = 0x1234;
    header.pkey = 0xffff;
    header.dlid = victim_.config().lid.value();
    return header;
  }
  bool TryWrite(const RecordHeader& header) {
    uint8_t* record = producer().Reserve(header.length);
    if (record == nullptr) return false;
    std::memcpy(record, &header, sizeof(header));
    producer().Commit(header.length);
    is_asked_to_ring_ = producer().Publish();
    return true;
  }
  void Write(const RecordHeader& header) { ASSERT_TRUE(TryWrite(header)); }
  RingProducer& producer() {
    if (producer_ == nullptr) producer_ = std::make_unique<RingProducer>(memory_);
    return *producer_;
  }

  Subnet subnet_;
  SoftNode victim_;
  RawPort rogue_;
  std::shared_ptr<RingMemory> memory_;
  RingEnd end_;
  UniqueFd liveness_;
  std::unique_ptr<RingProducer> producer_;
  bool is_asked_to_ring_ = false;  // for the last record
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_RAW_PEER_TEST_FIXTURE_H_
