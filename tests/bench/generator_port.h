// GeneratorPort: a port whose outside is a benchmark. It sends frames of one kind between addresses
// that the benchmark queues, and discards frames that it is to transmit.
#ifndef EOIB_TESTS_BENCH_GENERATOR_PORT_H_
#define EOIB_TESTS_BENCH_GENERATOR_PORT_H_

#include <utility>
#include <vector>

#include "vswitch/base/address.h"
#include "vswitch/port/port.h"

namespace eoib::bench {

// One thread.
class GeneratorPort final : public Port {
 public:
  // Sets the frame to send, from the addresses on, which are replaced; each frame asks for
  // `checksum`.
  void SetFrame(std::vector<uint8_t> frame, const ChecksumRequest& checksum);
  // Queues a frame for Receive.
  void Queue(MacAddr destination, MacAddr source) { queued_.emplace_back(destination, source); }
  size_t delivered() const { return delivered_; }

  int receive_fd() const override { return -1; }
  // Hands out all queued frames, which must fit.
  size_t Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                 PortReceiveCounts* counts) noexcept override;
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override;
  MacAddr mac() const override { return MacAddr(); }

 private:
  std::vector<uint8_t> frame_;
  ChecksumRequest checksum_;
  std::vector<std::pair<MacAddr, MacAddr>> queued_;
  size_t delivered_ = 0;
};

}  // namespace eoib::bench

#endif  // EOIB_TESTS_BENCH_GENERATOR_PORT_H_
