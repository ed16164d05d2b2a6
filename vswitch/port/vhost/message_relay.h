// MessageRelay: stands between the programs of virtual machines at one socket and the vhost-user
// library.
//
// One thread of the library serves all machines, and trusts their programs: it waits for the rest
// of a message and for a program that does not read its answer; it takes descriptors of any file,
// whose owner may hold it up at each access and when they are closed; it serves requests that a
// network interface does not need. So each socket has a relay, with a thread of its own, and only
// the relays connect to the library. A relay passes whole messages of known kinds, with descriptors
// of known kinds, and at most kPerSecond. Anything else ends the connection.
#ifndef EOIB_VSWITCH_PORT_VHOST_MESSAGE_RELAY_H_
#define EOIB_VSWITCH_PORT_VHOST_MESSAGE_RELAY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "vswitch/base/unique_fd.h"

namespace eoib {

// A message of the vhost-user protocol: this header, then `size` bytes. In the host's byte order.
struct VhostMessageHeader {
  static constexpr uint32_t kVersion = 1, kVersionMask = 3, kReply = 4, kNeedsReply = 8;  // flags

  uint32_t request;
  uint32_t flags;
  uint32_t size;
};
static_assert(sizeof(VhostMessageHeader) == 12);

struct VhostMessage {
  static constexpr size_t kMostBytes = 264;  // a table of kMostFds regions of memory
  static constexpr size_t kMostFds = 8;

  VhostMessageHeader header;
  uint8_t bytes[kMostBytes];
};

// "SET_VRING_NUM"; or "request 99" for an unknown one.
std::string VhostRequestName(uint32_t request);

// Whether the library may see the message: the request is one that a network interface needs, its
// bytes are all there, its queue and its size of a queue are within the limits, and it has the
// right number of descriptors. Returns what is wrong; empty if nothing is.
std::string CheckVhostMessage(const VhostMessage& message, size_t fds);

class MessageRelay {
 public:
  static constexpr uint32_t kMostPairs = 16;        // of queues
  static constexpr uint64_t kLargestLog = 1 << 30;  // bytes of the dirty log: for 32 TB
  static constexpr uint32_t kLargestQueue = 4096;   // entries. QEMU has 1,024 at most
  // messages. A start of all queues takes 250.
  static constexpr int kPerSecond = 1000, kBurst = 2000;

  struct Options {
    std::string path;  // of the socket
    // There, for programs that connect; none: connects to a program that listens there.
    UniqueFd listener;
    UniqueFd library;  // the library's own socket, opened with O_PATH
    // Called for a program that connects while another one is connected.
    std::function<void()> refused;
  };

  // Serves one program after another, until Close.
  explicit MessageRelay(Options options);
  // As Close.
  ~MessageRelay() { Close(); }
  MessageRelay(const MessageRelay&) = delete;
  MessageRelay& operator=(const MessageRelay&) = delete;

  // Ends the connection, and frees the socket. Does not wait for the thread: a program can hold it
  // up while it closes a descriptor. `refused` is not called any more.
  void Close();
  // What the program of the last connection sent, if the relay ended the connection for it. The
  // library's end is closed after this is set.
  std::string fault() const;

 private:
  struct State;

  const std::shared_ptr<State> state_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VHOST_MESSAGE_RELAY_H_
