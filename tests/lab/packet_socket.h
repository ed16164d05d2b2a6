// PacketSocket: sends and receives raw Ethernet frames, including tags, on an interface of a host.
#ifndef EOIB_TESTS_LAB_PACKET_SOCKET_H_
#define EOIB_TESTS_LAB_PACKET_SOCKET_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "tests/lab/frames.h"
#include "tests/lab/lab.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::lab {

// An AF_PACKET socket in the host's namespace, in promiscuous mode. It ignores outgoing frames. The
// kernel strips the 802.1Q tag from a received frame; this class restores it from the auxiliary
// data.
//
// All frames stay in `received` until Clear, so that a test can check what arrived, and how often.
// If the socket buffer overflows, the test fails. One thread.
class PacketSocket {
 public:
  using Filter = std::function<bool(const Bytes&)>;

  PacketSocket(Host* host, const std::string& interface);

  // Waits while the interface's queue is full. A frame that is too long for the interface's MTU
  // ends the test program.
  void Send(const Bytes& frame);
  // Sends many frames in few system calls.
  void SendAll(const std::vector<Bytes>& frames);

  // Waits until `count` frames pass `filter`, counting those received before.
  bool WaitFor(const Filter& filter, size_t count = 1, absl::Duration limit = kPatience);
  // Waits for a frame that passes, and returns the first.
  absl::optional<Bytes> Receive(const Filter& filter, absl::Duration limit = kPatience);
  // How many frames that pass have arrived so far.
  size_t Count(const Filter& filter);
  // How often each marker of a TestFrame has arrived so far.
  std::map<uint32_t, size_t> Markers();
  // All frames that have arrived since Clear.
  const std::vector<Bytes>& received();
  void Clear();

  // The number of frames with an unfinished checksum (CHECKSUM_PARTIAL).
  size_t unfinished_checksums() const { return unfinished_checksums_; }

 private:
  bool TakeOne();
  void Take();

  const std::string where_;
  UniqueFd fd_;
  std::vector<Bytes> received_;
  size_t unfinished_checksums_ = 0;
};

// Filters.
PacketSocket::Filter Marked(uint32_t marker);
PacketSocket::Filter ExactlyFrame(Bytes frame);
PacketSocket::Filter OfEtherType(uint16_t ethertype);
inline bool Any(const Bytes&) { return true; }

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_PACKET_SOCKET_H_
