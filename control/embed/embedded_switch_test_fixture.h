// The fixture for embedded switches in one process, on an in-process software subnet. The tests are
// the programs around them.
#ifndef EOIB_CONTROL_EMBED_EMBEDDED_SWITCH_TEST_FIXTURE_H_
#define EOIB_CONTROL_EMBED_EMBEDDED_SWITCH_TEST_FIXTURE_H_

#include <poll.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/embed/embedded_switch.h"
#include "gtest/gtest.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"
#include "vswitch/wire/frame_for_test.h"

namespace eoib {

inline constexpr absl::Duration kPatience = absl::Seconds(20);

inline bool Readable(int fd, absl::Duration limit = absl::ZeroDuration()) {
  pollfd wait{fd, POLLIN, 0};
  return poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(limit))) == 1;
}

class EmbeddedSwitchTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (auto& opened : switches_) EmbeddedSwitch::Close(std::move(opened));
  }

  static softhca::Subnet::Options Options() {
    softhca::Subnet::Options options;
    options.config = softhca::ParseSubnetConfig(
                         "[[partition]]\npkey = 0x8001\nfull = [\"ALL\"]\n"
                         "[[partition]]\npkey = 0x8002\nfull = [\"ALL\"]\n",
                         "test")
                         .value();
    return options;
  }
  EmbeddedSwitch* Open(const std::string& name) {
    EmbeddedSwitch::Options options;
    options.open_hca = [this, name] { return softhca::OpenSoftHca(subnet_->Connect(), name); };
    switches_.push_back(EmbeddedSwitch::Open(std::move(options)).value());
    return switches_.back().get();
  }
  static absl::StatusOr<BurstPort*> Add(EmbeddedSwitch* to, const std::string& name,
                                        const std::string& ves = "blue", uint16_t pkey = 0x8001,
                                        const BurstPort::Options& options = {}) {
    VPortConfig config;
    config.name = name;
    config.ves = ves;
    config.kind = &kEmbeddedVPort;
    config.vlan.mode = PortMode::kTrunk;
    config.pin_mac = false;
    return to->AddVPort(config, PKey(pkey), options);
  }
  template <typename Predicate>
  bool Until(Predicate predicate) {
    const absl::Time end = clock_.Now() + kPatience;
    while (!predicate()) {
      if (clock_.Now() > end) return false;
      poll(nullptr, 0, 1);
    }
    return true;
  }
  bool HasCarrier(BurstPort* port) {
    return Until([port] { return port->State().carrier == 1; });
  }
  // False if the HCA does not take it now.
  static bool TrySend(BurstPort* port, Bytes bytes, size_t queue) {
    iovec iov{bytes.data(), bytes.size()};
    eoib_frame frame{};
    frame.iov = &iov, frame.iov_count = 1, frame.length = static_cast<uint32_t>(bytes.size());
    return port->SendBurst({&frame, 1}, queue) == 1;
  }
  static void Send(BurstPort* port, Bytes bytes, size_t queue = 0) {
    EXPECT_TRUE(TrySend(port, std::move(bytes), queue));
  }
  // One burst of at most `count` frames, each with that much room in two pieces.
  static std::vector<Bytes> Receive(BurstPort* port, size_t count = 32, size_t room = 5000,
                                    size_t queue = 0) {
    std::vector<Bytes> memory(count, Bytes(room));
    std::vector<std::array<iovec, 2>> iov(count);
    std::vector<eoib_frame> frames(count);
    for (size_t i = 0; i < count; ++i) {
      iov[i] = {iovec{memory[i].data(), 20}, iovec{memory[i].data() + 20, room - 20}};
      frames[i].iov = iov[i].data(), frames[i].iov_count = 2;
    }
    memory.resize(port->ReceiveBurst(absl::MakeSpan(frames), queue));
    for (size_t i = 0; i < memory.size(); ++i) memory[i].resize(frames[i].length);
    return memory;
  }
  // Sends until it arrives, because the other may not have joined yet.
  bool Arrives(BurstPort* from, BurstPort* to, const Bytes& frame) {
    return Until([&] {
      Send(from, frame);
      const std::vector<Bytes> received = Receive(to);
      return std::find(received.begin(), received.end(), frame) != received.end();
    });
  }

  const MonotonicClock clock_{};
  std::unique_ptr<softhca::Subnet> subnet_ = std::make_unique<softhca::Subnet>(Options());
  std::vector<std::unique_ptr<EmbeddedSwitch>> switches_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_EMBED_EMBEDDED_SWITCH_TEST_FIXTURE_H_
