// The control socket: JSON-RPC over a Unix stream socket, as the unixctl of Open vSwitch speaks it, so that ovs-appctl(8) works
// on our programs as well as eoibctl.
//
//   {"method": "fdb/show", "params": ["blue"], "id": 0}
//   {"result": "text", "error": null, "id": 0}   or   {"result": null, "error": "text", "id": 0}
//
// A stream carries JSON objects one behind the other, without any framing.
#ifndef EOIB_CONTROL_COMMAND_SERVER_H_
#define EOIB_CONTROL_COMMAND_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "control/command_registry.h"
#include "control/json_stream.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib {

// Serves the commands of a registry. Owns the listening socket, its file, and the connections; the registry stays the caller's
// and must outlive the server. One thread: the one that runs the handlers.
//
// A client can neither block nor exhaust the program: requests above kMaxRequest and connections above kMaxConnections are
// refused with an error, and a client that does not read its answers is not read from until it does.
class CommandServer {
 public:
  static constexpr size_t kMaxRequest = 1 << 20;
  static constexpr size_t kMaxConnections = 64;

  // Listens on `path` (mode 0600), making its directory if that is missing (mode 0755). A socket file that nobody serves is
  // replaced; kAlreadyExists if a living program serves it.
  static absl::StatusOr<std::unique_ptr<CommandServer>> Listen(const std::string& path, const CommandRegistry* registry);
  // Closes all connections and removes the socket file, unless another program has put its own there.
  ~CommandServer();
  CommandServer(const CommandServer&) = delete;
  CommandServer& operator=(const CommandServer&) = delete;

  // Readable whenever Run has something to do: to be put into the owner's epoll set.
  int fd() const { return epoll_.get(); }
  // Handles what is ready: accepts, reads, runs handlers, writes. Never blocks. Handlers must not destroy the server.
  void Run();
  // Answers every request, by a thread of its own, with the error `why`, until the server is destroyed: for a program whose end
  // takes a while. Run must not be called any more.
  void RefuseFromNowOn(const std::string& why);

  const std::string& path() const { return path_; }
  size_t connections() const { return connections_.size(); }

 private:
  struct Connection {
    UniqueFd socket;
    JsonStream input{kMaxRequest};
    std::string output;    // answers not yet taken by the kernel
    bool backlog = false;  // requests wait in `input` that a later Run will answer
    bool closing = false;  // nothing more is read; closed when `output` is out
    bool writing = false;  // epoll watches for room, else for requests
  };

  CommandServer(std::string path, const CommandRegistry* registry) : path_(std::move(path)), registry_(registry) {}
  absl::Status Bind();
  absl::Status Watch(int op, int fd, uint32_t events);
  void AcceptAll();
  void RefuseForWantOfDescriptors();
  void RefuseAll(const std::string& why);
  void Serve(Connection* connection);
  // False if the connection is to be closed: end of stream, or an error.
  bool Read(Connection* connection);
  void Answer(Connection* connection);
  bool Write(Connection* connection);

  const std::string path_;
  const CommandRegistry* const registry_;
  UniqueFd epoll_;
  UniqueFd listener_;
  UniqueFd spare_;    // given up for a moment to refuse a client when the process is out of descriptors
  dev_t device_ = 0;  // of the socket file that is ours
  ino_t inode_ = 0;
  std::map<int, Connection> connections_;  // by descriptor
  std::thread refuser_;
  UniqueFd end_of_refuser_;  // an eventfd
};

}  // namespace eoib

#endif  // EOIB_CONTROL_COMMAND_SERVER_H_
