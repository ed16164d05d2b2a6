// IPoIB interfaces on ports of an in-process subnet, for tests.
#ifndef EOIB_GATEWAY_LINK_LINK_TEST_FIXTURE_H_
#define EOIB_GATEWAY_LINK_LINK_TEST_FIXTURE_H_

#include <sys/epoll.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "control/faulty_hca_for_test.h"
#include "control/subnet/fabric_port.h"
#include "gateway/link/conservation_for_test.h"
#include "gateway/link/link.h"
#include "gtest/gtest.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/daemon/counter_text.h"
#include "vswitch/base/daemon/event_loop.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::ipoib {

// A packet as it was received.
struct Heard {
  IpoibType type;
  std::string payload;
  absl::optional<IpoibAddress> source;
  bool group;
  bool broadcast;
};

class Node final : private Listener {
 public:
  Node(softhca::Subnet* subnet, const std::string& name, const Clock* clock,
       Link::Options options = {})
      : loop_(clock), fabric_(FabricPort::Open(MakeHca(subnet, name), &loop_, clock).value()) {
    if (options.name.empty()) options.name = "IPoIB";
    if (options.pkey == PKey()) options.pkey = PKey(0x8001);
    options.on_lost = [this] { fabric_->RebuildSoon(); };
    link_ = Link::Create(options, fabric_->resources()).value();
    fabric_->Add(link_.get());
    channel()->SetListener(this);
    EXPECT_TRUE(
        loop_.Add(link_->requests_fd(), EPOLLIN, [this](uint32_t) { link_->RunRequests(); }).ok());
    EXPECT_TRUE(loop_.Add(channel()->fd(), EPOLLIN, [this](uint32_t) { channel()->Work(); }).ok());
    loop_.AddDeadline([this] { return channel()->NextDeadline(); },
                      [this] { channel()->Expire(); });
    fabric_->Start();
  }
  ~Node() override {
    EXPECT_EQ(BrokenLaws(ParseNumbers(
                             CountersText(StatsJson(channel()->counters(), channel()->UnderWay())),
                             "link."),
                         LinkLaws()),
              "");
    loop_.Remove(link_->requests_fd());
    if (!stands_still_) StandStill();
    fabric_->Remove(link_.get());
  }

  // From now on Turn() does not work the channel.
  void StandStill() {
    loop_.Remove(channel()->fd());
    stands_still_ = true;
  }
  // Runs a few rounds of the loop; for use in Eventually.
  void Turn() {
    for (int i = 0; i < 3; ++i) loop_.RunOnce(absl::InfinitePast());
    channel()->Flush();
  }
  Channel* channel() { return link_->channel(); }
  Link* link() { return link_.get(); }
  FabricPort* fabric() { return fabric_.get(); }
  FaultyHca* hca() { return hca_; }
  bool up() { return channel()->state().has_value(); }
  IpoibAddress address() { return channel()->state()->own; }
  uint64_t dropped(DropReason reason) { return channel()->counters().drops[reason]; }
  void Say(const std::string& text, const IpoibAddress& to, IpoibType type = IpoibType::kIpv4) {
    channel()->Send(type, Bytes(text), to);
    channel()->Flush();
  }
  void SayTo(const IpoibGroup& group, const std::string& text, bool beyond_link = false) {
    channel()->SendToGroup(IpoibType::kIpv4, Bytes(text), group, beyond_link);
    channel()->Flush();
  }
  static absl::Span<const uint8_t> Bytes(const std::string& text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  }

  std::vector<Heard> heard;
  int state_changes = 0;

 private:
  void OnPacket(const Packet& packet) override {
    heard.push_back({packet.type, std::string(packet.payload.begin(), packet.payload.end()),
                     packet.source, packet.group, packet.broadcast});
  }
  void OnLinkState() override { ++state_changes; }
  std::unique_ptr<Hca> MakeHca(softhca::Subnet* subnet, const std::string& name) {
    auto hca = std::make_unique<FaultyHca>(softhca::OpenSoftHca(subnet->Connect(), name).value());
    hca_ = hca.get();
    return hca;
  }

  EventLoop loop_;
  FaultyHca* hca_ = nullptr;
  bool stands_still_ = false;
  std::unique_ptr<FabricPort> fabric_;
  std::unique_ptr<Link> link_;
};

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_LINK_LINK_TEST_FIXTURE_H_
