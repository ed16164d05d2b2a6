// CommandServer: the server side of the control socket. It speaks JSON-RPC over a Unix stream
// socket like Open vSwitch's unixctl, so that both ovs-appctl(8) and eoibctl work on our programs.
//
//   {"method": "fdb/show", "params": ["blue"], "id": 0}
//   {"result": "text", "error": null, "id": 0}   or   {"result": null, "error": "text", "id": 0}
//
// After "set-options" with the params ["--format", "json"], as ovs-appctl(8) of Open vSwitch 3.4
// and later sends it for
// --format=json, the results on this connection are JSON instead of text. Errors stay text.
//
// The stream is a sequence of JSON objects without framing.
#ifndef EOIB_VSWITCH_BASE_DAEMON_COMMAND_SERVER_H_
#define EOIB_VSWITCH_BASE_DAEMON_COMMAND_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/base/daemon/json_stream.h"
#include "vswitch/base/file.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {

// Serves the commands of a registry. Owns the listening socket, its file and the connections. The
// registry outlives the server. One thread: the one that runs the handlers.
//
// A client can neither block nor exhaust the program. Run answers one request, and clients take
// turns, so the owner's other work waits for one handler at most. The server refuses requests
// longer than kMaxRequest and connections above kMaxConnections with an error, and reads nothing
// from a client that has unread answers.
class CommandServer {
 public:
  static constexpr size_t kMaxRequest = 1 << 20;
  static constexpr size_t kMaxConnections = 64;

  // Listens on `path` (mode 0600); makes its directory if missing (mode 0755). Replaces the socket
  // file of a dead program; kAlreadyExists if a living program serves it.
  static absl::StatusOr<std::unique_ptr<CommandServer>> Listen(const std::string& path,
                                                               const CommandRegistry* registry);
  // The same on ReadOnlySocketOf(path), for read-only commands. The group "eoib", if there is one,
  // may connect (mode 0660).
  static absl::StatusOr<std::unique_ptr<CommandServer>> ListenReadOnly(
      const std::string& path, const CommandRegistry* registry);
  static constexpr char kMonitoringGroup[] = "eoib";
  // Closes all connections and removes the socket file, unless another program has replaced it.
  ~CommandServer();
  CommandServer(const CommandServer&) = delete;
  CommandServer& operator=(const CommandServer&) = delete;

  // For the owner's epoll set: readable whenever Run has something to do.
  int fd() const { return epoll_.get(); }
  // Serves one client that is ready (reads, runs at most one handler, writes), or accepts some.
  // Never blocks. Handlers must not destroy the server.
  void Run();
  // Makes the socket file again, and returns true, if another program has removed it, such as a
  // cleaner of temporary files. Connections stay. Call about once a second.
  absl::StatusOr<bool> RestoreSocket();
  // From now on a thread answers every request with the error `why`, until the server is destroyed.
  // For a program that takes a while to stop. Do not call Run afterwards.
  void RefuseFromNowOn(const std::string& why);

  const std::string& path() const { return path_; }
  // For a handler: the client that sent the command, "eoibctl (process 4711)".
  std::string Client() const { return PeerProgram(serving_); }
  size_t connections() const { return connections_.size(); }

 private:
  struct Connection {
    UniqueFd socket;
    JsonStream input{kMaxRequest};
    std::string output;    // answers that the kernel has not taken yet
    bool json = false;     // the client wants JSON
    bool backlog = false;  // `input` may hold requests for a later Run
    bool closing = false;  // read nothing more, and close when `output` is sent
    bool writing = false;  // epoll waits for EPOLLOUT, else for EPOLLIN
  };

  CommandServer(std::string path, const CommandRegistry* registry, std::string full_path)
      : path_(std::move(path)), full_path_(std::move(full_path)), registry_(registry) {}
  static absl::StatusOr<std::unique_ptr<CommandServer>> Start(
      std::unique_ptr<CommandServer> server);
  absl::Status ShareWithGroup();
  absl::Status Bind();
  absl::Status Watch(int op, int fd, uint32_t events);
  void AcceptAll();
  void RefuseForWantOfDescriptors();
  void RefuseAll(const std::string& why);
  void Serve(Connection* connection);
  // False at the end of the stream or after an error: close the connection.
  bool Read(Connection* connection);
  void Answer(Connection* connection);
  bool Write(Connection* connection);

  const std::string path_;
  const std::string full_path_;  // if this socket is read-only, the one that is not; else empty
  const CommandRegistry* const registry_;
  UniqueFd epoll_;
  UniqueFd listener_;
  // Closed for a moment to accept and refuse a client when the process is out of descriptors.
  UniqueFd spare_;
  dev_t device_ = 0;  // this and inode_ identify our socket file
  ino_t inode_ = 0;
  std::map<int, Connection> connections_;  // by descriptor
  int serving_ = -1;                       // the one whose command runs
  std::thread refuser_;
  UniqueFd end_of_refuser_;  // an eventfd
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_COMMAND_SERVER_H_
