#include "vswitch/base/daemon/command_server.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "vswitch/base/daemon/control_socket_path.h"
#include "vswitch/base/daemon/directories.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/base/file.h"

namespace eoib {
namespace {

using nlohmann::json;

// Limits for one Run, so that a busy client does not starve the control thread.
constexpr size_t kReadSize = 64 << 10;
constexpr size_t kAcceptsPerRun = 16;
// While a client leaves more than this many bytes of answers unread, its further requests wait.
constexpr size_t kMaxUnread = 1 << 20;

absl::Status Error(int error, absl::string_view path) {
  const absl::Status status =
      absl::ErrnoToStatus(error, absl::StrCat("listen on control socket ", path));
  if (error != EACCES) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), "; run it as root, or with a --rundir of your own"));
}

// Every text ends with a newline, as in unixctl: ovs-appctl prints it without adding one.
std::string Line(absl::string_view text) {
  return absl::StrCat(text, text.empty() || text.back() == '\n' ? "" : "\n");
}

template <typename JsonType>
std::string Encode(const JsonType& reply) {
  // Replace invalid UTF-8 instead of failing, so that the operator sees the rest of the answer.
  return absl::StrCat(reply.dump(-1, ' ', false, json::error_handler_t::replace), "\n");
}

std::string ErrorReply(absl::string_view message, const json& id) {
  return Encode(json{{"result", nullptr}, {"error", Line(message)}, {"id", id}});
}

// A well-formed request.
struct Request {
  json id;
  std::string method;
  CommandRegistry::Arguments arguments;
};

absl::Status ParseMethod(const json& object, Request* request) {
  const auto method = object.find("method");
  if (method == object.end() || !method->is_string()) {
    return absl::InvalidArgumentError("\"method\" must be a string, the name of a command");
  }
  request->method = method->get<std::string>();
  return absl::OkStatus();
}

absl::Status ParseParams(const json& object, Request* request) {
  const auto params = object.find("params");
  if (params == object.end() || !params->is_array()) {
    return absl::InvalidArgumentError("\"params\" must be an array of strings");
  }
  for (const json& param : *params) {
    if (!param.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", request->method, "\" command has non-string argument"));
    }
    request->arguments.push_back(param.get<std::string>());
  }
  return absl::OkStatus();
}

// Sets *id as soon as it is known, so that an error reply can carry it.
absl::StatusOr<Request> ParseRequest(const json& object, json* id) {
  Request request;
  const auto found = object.find("id");
  if (found == object.end() || !(found->is_number() || found->is_string())) {
    return absl::InvalidArgumentError("\"id\" must be a number or a string");
  }
  *id = *found;
  absl::Status status = ParseMethod(object, &request);
  if (status.ok()) status = ParseParams(object, &request);
  if (!status.ok()) return status;
  return request;
}

std::string ResultReply(const Json& result, const json& id) {
  return Encode(Json{{"result", result}, {"error", nullptr}, {"id", id}});
}

// The request "set-options".
absl::Status SetOptions(const CommandRegistry::Arguments& arguments, bool* wants_json) {
  const std::string option = absl::StrJoin(arguments, "=");
  if (option != "--format=json" && option != "--format=text") {
    return absl::InvalidArgumentError(absl::StrCat("set-options ", absl::StrJoin(arguments, " "),
                                                   ": write --format json or --format text"));
  }
  *wants_json = option == "--format=json";
  return absl::OkStatus();
}

// `full_path` is empty, or the socket to name to a client that may not do what it asks for.
std::string Respond(const CommandRegistry& registry, const std::string& full_path,
                    const json& object, bool* wants_json) {
  json id;
  absl::StatusOr<Request> request = ParseRequest(object, &id);
  if (!request.ok()) return ErrorReply(request.status().message(), id);
  if (request->method == "set-options") {
    absl::Status status = SetOptions(request->arguments, wants_json);
    return status.ok() ? ResultReply("", id) : ErrorReply(status.message(), id);
  }
  const auto access =
      full_path.empty() ? CommandRegistry::Access::kReadWrite : CommandRegistry::Access::kReadOnly;
  const absl::StatusOr<Answer> answer = registry.Call(request->method, request->arguments, access);
  if (absl::IsPermissionDenied(answer.status()) && !full_path.empty()) {
    return ErrorReply(absl::StrCat(answer.status().message(), "; use ", full_path), id);
  }
  if (!answer.ok()) return ErrorReply(answer.status().message(), id);
  return ResultReply(*wants_json ? answer->ToJson() : Json(Line(answer->Text())), id);
}

// Sends an error to a client whose request we do not read. unixctl clients give their first request
// the id 0, and ovs-appctl shows only a reply with that id.
void Refuse(int fd, absl::string_view why) {
  const std::string reply = ErrorReply(why, 0);
  (void)!::send(fd, reply.data(), reply.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CommandServer>> CommandServer::Listen(
    const std::string& path, const CommandRegistry* registry) {
  return Start(std::unique_ptr<CommandServer>(new CommandServer(path, registry, "")));
}

absl::StatusOr<std::unique_ptr<CommandServer>> CommandServer::ListenReadOnly(
    const std::string& path, const CommandRegistry* registry) {
  return Start(
      std::unique_ptr<CommandServer>(new CommandServer(ReadOnlySocketOf(path), registry, path)));
}

absl::StatusOr<std::unique_ptr<CommandServer>> CommandServer::Start(
    std::unique_ptr<CommandServer> server) {
  server->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  server->spare_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!server->epoll_.valid()) return Error(errno, server->path_);
  if (absl::Status status = server->Bind(); !status.ok()) return status;
  return server;
}

absl::StatusOr<bool> CommandServer::RestoreSocket() {
  struct stat info;
  if (::lstat(path_.c_str(), &info) == 0 || errno != ENOENT) return false;
  if (absl::Status status = Bind(); !status.ok()) return status;
  return true;
}

// Only root may give a socket to a group that it is not in; for another user's program the socket
// stays that user's.
absl::Status CommandServer::ShareWithGroup() {
  const group* const monitoring = ::getgrnam(kMonitoringGroup);
  if (monitoring == nullptr) return absl::OkStatus();
  if (::lchown(path_.c_str(), static_cast<uid_t>(-1), monitoring->gr_gid) != 0) {
    return errno == EPERM ? absl::OkStatus() : Error(errno, path_);
  }
  return ::chmod(path_.c_str(), 0660) == 0 ? absl::OkStatus() : Error(errno, path_);
}

absl::Status CommandServer::Bind() {
  const absl::StatusOr<sockaddr_un> address = UnixAddress(path_);
  if (!address.ok()) return address.status();
  if (absl::Status status = MakeDirectories(DirectoryOf(path_), 0755); !status.ok()) return status;
  if (absl::Status status = RemoveStaleSocket(path_, SOCK_STREAM); !status.ok()) return status;
  listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener_.valid()) return Error(errno, path_);
  // fchmod before bind: Linux creates the file with the socket's mode, so others can connect at no
  // moment.
  if (::fchmod(listener_.get(), 0600) != 0) return Error(errno, path_);
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0)
    return Error(errno, path_);
  struct stat info;
  if (::lstat(path_.c_str(), &info) != 0) return Error(errno, path_);
  device_ = info.st_dev;
  inode_ = info.st_ino;
  if (::listen(listener_.get(), kMaxConnections) != 0) return Error(errno, path_);
  absl::Status status = Watch(EPOLL_CTL_ADD, listener_.get(), EPOLLIN);
  if (status.ok() && !full_path_.empty()) status = ShareWithGroup();
  return status;
}

// Removes the file first, so that no client can connect any more; then lets the refuser answer the
// connections made before.
CommandServer::~CommandServer() {
  struct stat info;
  const bool ours = inode_ != 0 && ::lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ &&
                    info.st_ino == inode_;
  if (ours) ::unlink(path_.c_str());
  if (!refuser_.joinable()) return;
  RingEventFd(end_of_refuser_.get());
  refuser_.join();
}

absl::Status CommandServer::Watch(int op, int fd, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_.get(), op, fd, &event) == 0 ? absl::OkStatus() : Error(errno, path_);
}

// epoll puts a descriptor that it has reported behind the other ready ones, so connections take
// turns.
void CommandServer::Run() {
  epoll_event event;
  if (::epoll_wait(epoll_.get(), &event, 1, 0) != 1) return;
  if (event.data.fd == listener_.get()) {
    AcceptAll();
  } else if (const auto found = connections_.find(event.data.fd); found != connections_.end()) {
    Serve(&found->second);
  }
}

void CommandServer::AcceptAll() {
  for (size_t i = 0; i < kAcceptsPerRun; ++i) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (errno == EMFILE || errno == ENFILE) RefuseForWantOfDescriptors();
      return;
    }
    if (connections_.size() >= kMaxConnections) {
      Refuse(socket.get(), absl::StrCat("the program serves ", kMaxConnections,
                                        " connections already; close one of them"));
      continue;
    }
    const int fd = socket.get();
    if (!Watch(EPOLL_CTL_ADD, fd, EPOLLIN).ok()) continue;
    connections_[fd].socket = std::move(socket);
  }
}

// Accepts with the spare descriptor and refuses. A client left in the backlog would keep the
// listener readable, and the owner's loop would spin.
void CommandServer::RefuseForWantOfDescriptors() {
  spare_.reset();
  UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.valid())
    Refuse(socket.get(), "the program is out of file descriptors; raise its limit (ulimit -n)");
  socket.reset();
  spare_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// A client with a partly sent answer gets no error: it would read the error as the rest of that
// answer.
void CommandServer::RefuseFromNowOn(const std::string& why) {
  for (const auto& [fd, connection] : connections_) {
    if (connection.output.empty()) Refuse(fd, why);
  }
  connections_.clear();
  end_of_refuser_ = MakeEventFd();
  if (end_of_refuser_.valid()) refuser_ = std::thread([this, why] { RefuseAll(why); });
}

// Gives up when the process is out of descriptors; clients then wait until the socket is closed.
void CommandServer::RefuseAll(const std::string& why) {
  pollfd fds[] = {{listener_.get(), POLLIN, 0}, {end_of_refuser_.get(), POLLIN, 0}};
  do {
    if (::poll(fds, 2, -1) < 0) return;
    UniqueFd socket;
    while ((socket = UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC))).valid())
      Refuse(socket.get(), why);
    if (errno != EAGAIN && errno != ECONNABORTED) return;
  } while (fds[1].revents == 0);
}

void CommandServer::Serve(Connection* connection) {
  const int fd = connection->socket.get();
  bool alive = true;
  // Do not read from a client that owes us reading its answers: its requests wait in the kernel,
  // and the client blocks, not we.
  const bool owes_answers = !connection->output.empty() || connection->backlog;
  if (!owes_answers) alive = Read(connection);
  if (alive) alive = Write(connection);
  if (alive) Answer(connection);
  if (alive) alive = Write(connection);
  if (alive && connection->closing && connection->output.empty()) alive = false;
  const bool writing = !connection->output.empty() || connection->backlog;
  if (alive && writing != connection->writing) {
    connection->writing = writing;
    alive = Watch(EPOLL_CTL_MOD, fd, writing ? EPOLLOUT : EPOLLIN).ok();
  }
  if (!alive) connections_.erase(fd);
}

bool CommandServer::Read(Connection* connection) {
  std::vector<char> bytes(kReadSize);
  const ssize_t size = ::recv(connection->socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  connection->input.Append(absl::string_view(bytes.data(), static_cast<size_t>(size)));
  return size > 0;
}

void CommandServer::Answer(Connection* connection) {
  if (connection->closing || connection->output.size() > kMaxUnread) return;
  const absl::StatusOr<absl::optional<std::string>> text = connection->input.Next();
  connection->backlog = text.ok() && text->has_value();
  if (text.ok() && !text->has_value()) return;
  // After text that is not JSON we cannot tell where the next object begins, so answer nothing
  // further.
  const json object =
      text.ok() ? json::parse(**text, nullptr, false) : json(json::value_t::discarded);
  connection->closing = object.is_discarded();
  if (connection->closing) {
    connection->backlog = false;
    connection->output +=
        ErrorReply(text.ok() ? "the request is not JSON" : text.status().message(), nullptr);
  } else {
    serving_ = connection->socket.get();
    connection->output += Respond(*registry_, full_path_, object, &connection->json);
    serving_ = -1;
  }
}

bool CommandServer::Write(Connection* connection) {
  absl::string_view rest = connection->output;
  while (!rest.empty()) {
    const ssize_t size =
        ::send(connection->socket.get(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno != EAGAIN) return false;
    if (size < 0) break;
    rest.remove_prefix(static_cast<size_t>(size));
  }
  connection->output.erase(0, connection->output.size() - rest.size());
  return true;
}

}  // namespace eoib
