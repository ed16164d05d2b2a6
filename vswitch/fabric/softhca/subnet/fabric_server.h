// FabricServer: offers a Subnet to other processes over an AF_UNIX SOCK_SEQPACKET socket
// (fabric_protocol.h).
//
// A connection is one process with one port. Messages are checked before the Subnet sees them, and
// an invalid one costs its sender the connection. A registration ends with its connection.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FABRIC_SERVER_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FABRIC_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/fabric_protocol.h"
#include "vswitch/fabric/softhca/subnet/fabric_connection.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {

// Owns the listening socket, its file and the connections. One thread runs it; any thread may
// change the Subnet.
class FabricServer {
 public:
  static constexpr size_t kMaxOwners = 64;  // processes that own a port
  // Processes that manage or query a port; an owner may be one, for its MADs.
  static constexpr size_t kMaxGuests = 128;
  // Further connections, which are told why they are refused.
  static constexpr size_t kMaxStrangers = 16;
  static constexpr size_t kMaxConnections = kMaxOwners + kMaxGuests + kMaxStrangers;

  struct Counters {
    uint64_t accepted = 0;
    uint64_t refused = 0;    // over a limit, or no descriptor left
    uint64_t malformed = 0;  // disconnected for an invalid message
    uint64_t stuck = 0;      // disconnected for not reading
  };

  // Listens on `path`, whose directory must exist, and replaces a stale socket file. kAlreadyExists
  // if a living fabricd serves it. `subnet` outlives the server and has no other ports.
  static absl::StatusOr<std::unique_ptr<FabricServer>> Listen(const std::string& path,
                                                              Subnet* subnet);
  // Ends all connections and removes the socket file.
  ~FabricServer();
  FabricServer(const FabricServer&) = delete;
  FabricServer& operator=(const FabricServer&) = delete;

  // Readable when Run has something to do; for the owner's epoll set.
  int fd() const { return epoll_.get(); }
  // Handles what is ready. Never blocks.
  void Run();

  // Makes the socket file again, and returns true, if another program has removed it. Connections
  // stay. Call about once a second.
  absl::StatusOr<bool> RestoreSocket();

  // Calls `observer` with a line for an operator when a port's process registers, leaves or is
  // refused. Processes that only query a port do not count.
  void SetObserver(std::function<void(const std::string& line)> observer) {
    observer_ = std::move(observer);
  }

  size_t clients() const { return clients_.size(); }
  const Counters& counters() const { return counters_; }
  // The reason of the last disconnection, for an operator; empty if there was none.
  const std::string& last_error() const { return last_error_; }

 private:
  FabricServer(std::string path, Subnet* subnet);
  absl::Status Start();
  absl::Status Bind();
  void Accept();
  bool RefuseOne();
  void Serve(uint64_t id, uint32_t events);
  void Drop(uint64_t id, const absl::Status& why);
  void DropDead(uint64_t except);
  absl::Status Handle(FabricConnection* client, Packet packet);
  static absl::StatusOr<PortResources> ResourcesIn(const Packet& packet);
  absl::Status HandleRegister(FabricConnection* client, Packet packet);
  static absl::Status Answer(FabricConnection* client, const absl::Status& status);
  absl::Status HandleOpenRing(FabricConnection* client, Packet packet);
  absl::Status CheckRoom(PortUse use) const;
  void ReportRegistered(const FabricConnection& client) const;
  void ReportLeft(const FabricConnection& client, const std::string& why) const;

  const std::string path_;
  Subnet* const subnet_;
  UniqueFd epoll_;
  UniqueFd listener_;
  UniqueFd spare_;        // closed for a moment to refuse a connection when no descriptor is left
  uint64_t next_id_ = 1;  // 0 is the listener
  std::map<uint64_t, std::unique_ptr<FabricConnection>> clients_;
  Counters counters_;
  std::string last_error_;
  std::function<void(const std::string&)> observer_ = [](const std::string&) {};
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FABRIC_SERVER_H_
