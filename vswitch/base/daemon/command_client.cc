#include "vswitch/base/daemon/command_client.h"

#include <poll.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/daemon/directories.h"
#include "vswitch/base/daemon/json_stream.h"
#include "vswitch/base/file.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {
namespace {

using nlohmann::json;

// Far above any answer of ours: it only bounds the memory that a wrong program at the socket can
// take.
constexpr size_t kMaxReply = size_t{1} << 30;

// "eoibd" for "/run/eoib/eoibd.ctl".
std::string ProgramOf(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  if (absl::EndsWith(name, ".ctl")) name.resize(name.size() - 4);
  return name;
}

// The other sockets in the directory: the operator may have meant one of them.
std::string OthersBeside(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(DirectoryOf(path), error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".ctl" && at->path() != path &&
        !IsReadOnlySocket(at->path().string()))
      names.push_back(at->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names.empty() ? "" : absl::StrCat("; there are sockets of: ", absl::StrJoin(names, ", "));
}

// How to see and start a program that has a systemd unit: " (systemctl status eoibd)".
std::string UnitHint(const std::string& program) {
  const bool has_unit = program == "eoibd" || program == "eoib-gateway";
  return has_unit ? absl::StrCat(" (systemctl status ", program, ")") : "";
}

std::string UserName(uid_t user) {
  passwd entry;
  passwd* found = nullptr;
  char buffer[4096];
  const int error = ::getpwuid_r(user, &entry, buffer, sizeof(buffer), &found);
  return error == 0 && found != nullptr ? found->pw_name : absl::StrCat("user ", user);
}

// Without permission to look into the directory, the socket's owner is not known.
absl::Status NotPermitted(int error, const std::string& attempt, const std::string& path,
                          const std::string& program) {
  struct stat info;
  const std::string owner = ::stat(path.c_str(), &info) == 0
                                ? absl::StrCat(UserName(info.st_uid), ", who runs ", program)
                                : absl::StrCat("the user who runs ", program);
  return absl::PermissionDeniedError(
      absl::StrCat(attempt, std::strerror(error), "; the socket is for ", owner, ": use sudo; ",
                   "members of the group eoib may use the read-only socket"));
}

// connect() reports a regular file, too, as a refused connection.
absl::Status Refused(const std::string& attempt, const std::string& path,
                     const std::string& program) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISSOCK(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        attempt, "that is not a socket, but a ", S_ISDIR(info.st_mode) ? "directory" : "file",
        "; name a program, or its control socket, *.ctl"));
  }
  return absl::UnavailableError(absl::StrCat(
      attempt, program, " does not run: it has ended without removing its socket; start it again",
      UnitHint(program)));
}

absl::Status CannotConnect(int error, const std::string& path) {
  const std::string program = ProgramOf(path);
  const std::string attempt = absl::StrCat("connect to ", path, ": ");
  switch (error) {
    case ENOENT:
      return absl::UnavailableError(absl::StrCat(
          attempt, "there is no such socket: ", program, " does not run", UnitHint(program),
          ", or has another run directory; start it, or name the socket with "
          "--target or --rundir",
          OthersBeside(path)));
    case ECONNREFUSED:
      return Refused(attempt, path, program);
    case EPROTOTYPE:
      return absl::InvalidArgumentError(absl::StrCat(
          attempt, "that is another socket of the program; name its control socket, *.ctl"));
    case EACCES:
    case EPERM:
      return NotPermitted(error, attempt, path, program);
    case EAGAIN:  // its backlog is full (unix(7))
      return absl::UnavailableError(
          absl::StrCat(attempt, program, " runs but does not accept connections; it may hang"));
    default:
      return absl::ErrnoToStatus(error, absl::StrCat("connect to ", path));
  }
}

absl::Status NoReply(const std::string& path) {
  return absl::DataLossError(absl::StrCat(
      "read the answer on ", path,
      ": it is no JSON-RPC reply; is this the control socket (*.ctl) of the program?"));
}

// One command's connection. Every wait ends at `deadline`.
class Connection {
 public:
  Connection(const std::string& path, absl::Duration timeout)
      : path_(path), timeout_(timeout), deadline_(clock_.Now() + timeout) {}

  absl::Status Open() {
    const absl::StatusOr<sockaddr_un> address = UnixAddress(path_);
    if (!address.ok()) return address.status();
    socket_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket_.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("connect to ", path_));
    const int result =
        ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address));
    return result == 0 ? absl::OkStatus() : CannotConnect(errno, path_);
  }

  // Ignores a connection that the program closed early: it may have sent an error first, which
  // ReceiveObject will read.
  absl::Status Send(absl::string_view text) {
    while (!text.empty()) {
      const ssize_t size = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (size >= 0) {
        text.remove_prefix(static_cast<size_t>(size));
      } else if (errno == EAGAIN) {
        absl::Status status = Wait(POLLOUT);
        if (!status.ok()) return status;
      } else if (errno != EINTR) {
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReceiveObject() {
    JsonStream stream(kMaxReply);
    std::vector<char> bytes(64 << 10);
    while (true) {
      absl::StatusOr<absl::optional<std::string>> object = stream.Next();
      if (!object.ok()) return NoReply(path_);
      if (object->has_value()) return **std::move(object);
      absl::Status status = Wait(POLLIN);
      if (!status.ok()) return status;
      const ssize_t size = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (size <= 0) return Ended(size < 0 ? errno : 0);
      stream.Append(absl::string_view(bytes.data(), static_cast<size_t>(size)));
    }
  }

 private:
  absl::Status Wait(short events) {
    while (true) {
      const absl::Duration left = deadline_ - clock_.Now();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(absl::StrCat(
            "wait for an answer on ", path_, ": none within ", absl::FormatDuration(timeout_), "; ",
            ProgramOf(path_), " runs but is busy or hangs (--timeout allows more time)"));
      }
      pollfd descriptor = {socket_.get(), events, 0};
      const int64_t milliseconds = std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, 1 << 30);
      const int ready = ::poll(&descriptor, 1, static_cast<int>(milliseconds));
      if (ready > 0) return absl::OkStatus();
      if (ready < 0 && errno != EINTR)
        return absl::ErrnoToStatus(errno, absl::StrCat("wait for an answer on ", path_));
    }
  }

  absl::Status Ended(int error) const {
    return absl::UnavailableError(
        absl::StrCat("wait for an answer on ", path_, ": ", ProgramOf(path_),
                     " has closed the connection without one",
                     error == 0 ? "" : absl::StrCat(" (", std::strerror(error), ")"),
                     "; see in its log whether it was stopped or has crashed"));
  }

  const std::string path_;
  const absl::Duration timeout_;
  const MonotonicClock clock_;
  const absl::Time deadline_;
  UniqueFd socket_;
};

absl::StatusOr<CommandReply> ParseReply(const std::string& text, const std::string& path) {
  // Keeps the order of the keys.
  const nlohmann::ordered_json object = nlohmann::ordered_json::parse(text, nullptr, false);
  if (object.is_object()) {
    const auto error = object.find("error"), result = object.find("result");
    if (error != object.end() && error->is_string())
      return CommandReply{true, error->get<std::string>()};
    if (result != object.end() && result->is_string())
      return CommandReply{false, result->get<std::string>()};
    if (result != object.end() && result->is_object()) return CommandReply{false, result->dump()};
  }
  return NoReply(path);
}

absl::StatusOr<CommandReply> Transact(Connection* connection, const std::string& path,
                                      const std::string& method,
                                      const std::vector<std::string>& arguments) {
  const json request = {{"method", method}, {"params", arguments}, {"id", 0}};
  absl::Status status =
      connection->Send(request.dump(-1, ' ', false, json::error_handler_t::replace));
  if (!status.ok()) return status;
  const absl::StatusOr<std::string> reply = connection->ReceiveObject();
  if (!reply.ok()) return reply.status();
  return ParseReply(*reply, path);
}

}  // namespace

absl::StatusOr<CommandReply> CallCommand(const std::string& path, const std::string& method,
                                         const std::vector<std::string>& arguments,
                                         absl::Duration timeout, AnswerForm form) {
  Connection connection(path, timeout);
  absl::Status status = connection.Open();
  if (!status.ok()) return status;
  if (form == AnswerForm::kJson) {
    absl::StatusOr<CommandReply> reply =
        Transact(&connection, path, "set-options", {"--format", "json"});
    if (!reply.ok() || reply->is_error) return reply;
  }
  return Transact(&connection, path, method, arguments);
}

}  // namespace eoib
