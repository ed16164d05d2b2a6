// Fuzzes the control socket: whatever a client writes, and in whatever pieces, the server answers
// or closes as if everything had arrived at once, and drops the connection when the client has
// gone.
//
// The input is what the client writes. A byte 0 ends a piece. A byte 1 also ends a piece, and the
// client then reads.
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "vswitch/base/check.h"
#include "vswitch/base/daemon/command_server.h"
#include "vswitch/base/daemon/json_stream.h"

namespace eoib {
namespace {

using nlohmann::json;

constexpr char kEndOfPiece = 0;
constexpr char kReadAnswers = 1;
constexpr size_t kPatience = 100'000;  // rounds; more than a megabyte of input needs

void RegisterCommands(CommandRegistry* registry) {
  registry->Register({{.name = "echo",
                       .usage = "[ARG...]",
                       .handler = [](const CommandRegistry::Arguments& arguments) {
                         return absl::StrJoin(arguments, ",");
                       }}});
  registry->Register(
      {{.name = "fdb/show",
        .usage = "[VES]",
        .handler = [](const CommandRegistry::Arguments&) -> absl::StatusOr<std::string> {
          return absl::NotFoundError("no such VES");
        }}});
  // A few of these answers fill the socket, so that the server must wait for its client.
  registry->Register({{.name = "big", .handler = [](const CommandRegistry::Arguments&) {
                         return std::string(60'000, 'x');
                       }}});
  registry->Register({{.name = "bytes", .handler = [](const CommandRegistry::Arguments&) {
                         return std::string("a\xff\0b", 4);
                       }}});
}

// A server on an unlinked socket: nothing is left behind, however the program ends.
class Server {
 public:
  Server() {
    RegisterCommands(&registry_);
    const char* temporary = getenv("TMPDIR");
    std::string directory =
        absl::StrCat(temporary != nullptr ? temporary : "/tmp", "/control_socket_fuzz.XXXXXX");
    EOIB_CHECK(mkdtemp(directory.data()) != nullptr);
    const std::string path = directory + "/ctl";
    auto server = CommandServer::Listen(path, &registry_);
    EOIB_CHECK(server.ok());
    server_ = *std::move(server);
    name_ = UniqueFd(open(path.c_str(), O_PATH | O_CLOEXEC));
    EOIB_CHECK(name_.valid() && unlink(path.c_str()) == 0 && rmdir(directory.c_str()) == 0);
  }

  UniqueFd Connect() const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", name_.get());
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    EOIB_CHECK(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
               0);
    return fd;
  }
  // Runs the server until it has nothing to do.
  void Pump() {
    pollfd descriptor = {server_->fd(), POLLIN, 0};
    size_t rounds = 0;
    for (; poll(&descriptor, 1, 0) == 1; ++rounds) {
      EOIB_CHECK(rounds < kPatience);
      server_->Run();
    }
  }
  size_t connections() const { return server_->connections(); }

 private:
  CommandRegistry registry_;
  std::unique_ptr<CommandServer> server_;
  UniqueFd name_;
};

// A client of `server`. The server runs only while the client waits.
class Client {
 public:
  explicit Client(Server* server) : server_(server), fd_(server->Connect()) {}

  void Write(absl::string_view bytes) {
    for (size_t rounds = 0; !bytes.empty() && !closed_; ++rounds) {
      EOIB_CHECK(rounds < kPatience);
      const ssize_t size = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size > 0) bytes.remove_prefix(static_cast<size_t>(size));
      closed_ = size < 0 && errno != EAGAIN;
      server_->Pump();
      if (size < 0) Read();
    }
  }
  // Reads what has arrived.
  void Read() {
    static std::vector<char> buffer(1 << 20);
    ssize_t size;
    while ((size = recv(fd_.get(), buffer.data(), buffer.size(), 0)) > 0)
      answers_.append(buffer.data(), static_cast<size_t>(size));
    ended_ = size == 0 || (size < 0 && errno != EAGAIN);
  }
  // Ends the stream and reads the rest.
  std::string Finish() {
    shutdown(fd_.get(), SHUT_WR);
    for (size_t rounds = 0; !ended_; ++rounds) {
      EOIB_CHECK(rounds < kPatience);
      server_->Pump();
      Read();
    }
    fd_.reset();
    server_->Pump();
    EOIB_CHECK(server_->connections() == 0);
    return std::move(answers_);
  }

 private:
  Server* const server_;
  UniqueFd fd_;
  std::string answers_;
  bool closed_ = false;  // the server takes no more
  bool ended_ = false;   // end of the answers
};

std::string AskInPieces(Server* server, absl::string_view input) {
  Client client(server);
  while (!input.empty()) {
    const size_t end = std::min(input.find_first_of(absl::string_view("\0\1", 2)), input.size());
    client.Write(input.substr(0, end));
    if (end < input.size() && input[end] == kReadAnswers) client.Read();
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  return client.Finish();
}

std::string AskAtOnce(Server* server, absl::string_view stream) {
  Client client(server);
  client.Write(stream);
  return client.Finish();
}

// Checks that each line is an answer with either a result or an error, whose text ends with a
// newline.
size_t CheckAnswers(absl::string_view answers) {
  size_t count = 0;
  for (absl::string_view line : absl::StrSplit(answers, '\n', absl::SkipEmpty())) {
    const json answer = json::parse(line, nullptr, false);
    EOIB_CHECK(answer.is_object() && answer.size() == 3 && answer.contains("id"));
    const json &result = answer["result"], &error = answer["error"];
    EOIB_CHECK(result.is_null() ? error.is_string() : result.is_string() && error.is_null());
    const std::string text =
        result.is_null() ? error.get<std::string>() : result.get<std::string>();
    EOIB_CHECK(text.empty() ? error.is_null() : text.back() == '\n');
    ++count;
  }
  EOIB_CHECK(answers.empty() || answers.back() == '\n');
  return count;
}

// Checks the framing alone, with a limit that an input can reach: the objects are pieces of the
// stream, in order, with only white space between them. Returns their number.
size_t CheckFraming(absl::string_view stream, size_t limit, size_t piece) {
  JsonStream framing(limit);
  size_t objects = 0;
  absl::string_view rest = stream;  // after the last object
  absl::Status error;
  for (absl::string_view more = stream; !more.empty() && error.ok();
       more.remove_prefix(std::min(piece, more.size()))) {
    framing.Append(more.substr(0, piece));
    absl::StatusOr<absl::optional<std::string>> object = framing.Next();
    for (; object.ok() && object->has_value(); object = framing.Next()) {
      const size_t at = rest.find_first_not_of(" \t\n\v\f\r");
      EOIB_CHECK(at != rest.npos && rest.substr(at, (*object)->size()) == **object &&
                 (*object)->size() <= limit);
      rest.remove_prefix(at + (*object)->size());
      ++objects;
    }
    error = object.status();
  }
  EOIB_CHECK(error.ok() || framing.Next().status() == error);
  return objects;
}

}  // namespace
}  // namespace eoib

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace eoib;  // NOLINT: the entry point has no namespace
  static Server* const server = new Server;
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  std::string stream(input);
  stream.erase(std::remove_if(stream.begin(), stream.end(),
                              [](char c) { return c == kEndOfPiece || c == kReadAnswers; }),
               stream.end());
  const std::string answers = AskInPieces(server, input);
  EOIB_CHECK(answers == AskAtOnce(server, stream));
  const size_t objects = CheckFraming(stream, CommandServer::kMaxRequest, 1);
  EOIB_CHECK(objects == CheckFraming(stream, CommandServer::kMaxRequest, size + 1));
  EOIB_CHECK(CheckFraming(stream, 64, 3) <= objects);
  // One answer to each object up to the first that is not JSON, and one to that.
  EOIB_CHECK(CheckAnswers(answers) <= objects + 1);
  return 0;
}
