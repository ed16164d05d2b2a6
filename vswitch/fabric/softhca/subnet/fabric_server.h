// FabricServer: offers a Subnet to other processes over an AF_UNIX SOCK_SEQPACKET socket (fabric_protocol.h).
//
// A connection is a process with one port. What arrives on it is checked before the Subnet sees it, and a message that is not
// in order costs its sender the connection, nobody else. A connection's end is the end of its port's registration.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FABRIC_SERVER_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FABRIC_SERVER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vswitch/fabric/softhca/fabric_protocol.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib::softhca {

// Owns the listening socket, its file and the connections. One thread runs it; the Subnet's changes may come from any thread.
class FabricServer {
 public:
  static constexpr size_t kMaxOwners = 64;     // processes that own a port
  static constexpr size_t kMaxGuests = 128;    // that manage or query one: of an owner, too, for its MADs
  static constexpr size_t kMaxStrangers = 16;  // connected above that, to be told why they are refused
  static constexpr size_t kMaxConnections = kMaxOwners + kMaxGuests + kMaxStrangers;
  static constexpr size_t kQueue = 1024;  // messages that wait for a client which does not read

  struct Counters {
    uint64_t accepted = 0;
    uint64_t refused = 0;    // above these, or for want of a descriptor
    uint64_t malformed = 0;  // disconnected for a message that was not in order
    uint64_t stuck = 0;      // disconnected because they did not read for too long
  };

  // Listens on `path`, whose directory must exist. A socket file that nobody serves is replaced; kAlreadyExists if a living
  // fabricd serves it. `subnet` outlives the server and has no ports but the server's.
  static absl::StatusOr<std::unique_ptr<FabricServer>> Listen(const std::string& path, Subnet* subnet);
  // Ends all connections and removes the socket file.
  ~FabricServer();
  FabricServer(const FabricServer&) = delete;
  FabricServer& operator=(const FabricServer&) = delete;

  // Readable whenever Run has something to do: to be put into the owner's epoll set.
  int fd() const { return epoll_.get(); }
  // Handles what is ready. Never blocks.
  void Run();

  size_t clients() const { return clients_.size(); }
  const Counters& counters() const { return counters_; }
  // Why a client was disconnected last, for an operator; empty if none was.
  const std::string& last_error() const { return last_error_; }

 private:
  class Client;

  FabricServer(std::string path, Subnet* subnet);
  absl::Status Start();
  absl::Status Lock();
  absl::Status RemoveStaleSocket() const;
  bool WatchListener();
  void Accept();
  bool RefuseOne();
  void Serve(uint64_t id, uint32_t events);
  void Drop(uint64_t id, const absl::Status& why);
  void DropDead(uint64_t except);
  absl::Status Handle(Client* client, Packet packet);
  static absl::StatusOr<PortResources> ResourcesIn(const Packet& packet);
  absl::Status HandleRegister(Client* client, Packet packet);
  static absl::Status Answer(Client* client, const absl::Status& status);
  absl::Status HandleOpenRing(Client* client, Packet packet);
  absl::Status CheckRoom(PortUse use) const;

  const std::string path_;
  Subnet* const subnet_;
  UniqueFd lock_;  // of path_ + ".lock", held as long as the server lives
  UniqueFd epoll_;
  UniqueFd listener_;
  UniqueFd spare_;        // given up for a moment to refuse a connection when there are no descriptors left
  uint64_t next_id_ = 1;  // 0 is the listener
  std::map<uint64_t, std::unique_ptr<Client>> clients_;
  Counters counters_;
  std::string last_error_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FABRIC_SERVER_H_
