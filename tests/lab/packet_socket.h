// PacketSocket: sends and receives raw Ethernet frames at an interface of a host, tags included.
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
#include "vswitch/fabric/unique_fd.h"

namespace eoib::lab {

// An AF_PACKET socket in the host's namespace, in promiscuous mode, that does not hear what is sent at this host. The kernel
// takes the 802.1Q tag out of a frame it receives; it is put back here from the auxiliary data.
//
// Every frame that arrived stays in `received` until Clear, so a test can say what must have come, and how often. A frame that
// the socket itself had no room for fails the test. One thread.
class PacketSocket {
 public:
  using Filter = std::function<bool(const Bytes&)>;

  PacketSocket(Host* host, const std::string& interface);

  // Waits while the interface's queue is full. A frame longer than the interface's MTU allows ends the test.
  void Send(const Bytes& frame);
  // The same for many, in a fraction of the time.
  void SendAll(const std::vector<Bytes>& frames);

  // Waits until `count` frames pass `filter`, those that are here already included.
  bool WaitFor(const Filter& filter, size_t count = 1, absl::Duration limit = kPatience);
  // The first that passes, after waiting for it.
  absl::optional<Bytes> Receive(const Filter& filter, absl::Duration limit = kPatience);
  // How many have arrived so far.
  size_t Count(const Filter& filter);
  // How often each marker of a TestFrame has arrived so far.
  std::map<uint32_t, size_t> Markers();
  // All that have arrived so far.
  const std::vector<Bytes>& received();
  void Clear();

  // The checksum of this many of the frames was still to be finished by the interface (CHECKSUM_PARTIAL).
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
