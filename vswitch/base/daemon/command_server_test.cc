#include "vswitch/base/daemon/command_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/daemon/event_loop.h"
#include "vswitch/base/daemon/running_server_for_test.h"

namespace eoib {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

UniqueFd ConnectTo(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  EXPECT_EQ(0, ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
  return fd;
}

std::unique_ptr<CommandServer> MustListen(const std::string& path,
                                          const CommandRegistry* registry) {
  auto server = CommandServer::Listen(path, registry);
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

// Server and clients run on one thread, so each step has completed before the next.
class CommandServerTest : public ::testing::Test {
 protected:
  CommandServerTest() : path_(MakeTemporaryDirectory() + "/run/eoib/test.ctl") {
    registry_.Register({{.name = "echo",
                         .usage = "[ARG...]",
                         .access = CommandRegistry::Access::kReadOnly,
                         .handler = [](const CommandRegistry::Arguments& arguments) {
                           return absl::StrJoin(arguments, ",");
                         }}});
    registry_.Register(
        {{.name = "fail",
          .handler = [](const CommandRegistry::Arguments&) -> absl::StatusOr<std::string> {
            return absl::InternalError("it is broken");
          }}});
    registry_.Register({{.name = "big", .handler = [](const CommandRegistry::Arguments&) {
                           return std::string(3 << 20, 'x');
                         }}});
    registry_.Register({{.name = "bytes", .handler = [](const CommandRegistry::Arguments&) {
                           return std::string("a\xff\0b", 4);
                         }}});
    server_ = MustListen(path_, &registry_);
  }

  bool HasWork() const {
    pollfd descriptor = {server_->fd(), POLLIN, 0};
    return ::poll(&descriptor, 1, 0) == 1;
  }
  void Pump() {
    for (int i = 0; i < 1000 && HasWork(); ++i) server_->Run();
  }
  // Sends as much of `text` as the kernel accepts.
  static size_t Send(const UniqueFd& client, absl::string_view text) {
    const ssize_t size =
        ::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return size < 0 ? 0 : static_cast<size_t>(size);
  }
  // Reads what has arrived; sets *closed if the server has closed.
  static std::string Receive(const UniqueFd& client, bool* closed = nullptr) {
    std::string text;
    std::vector<char> bytes(1 << 20);
    while (true) {
      const ssize_t size = ::recv(client.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (closed != nullptr) *closed = size == 0 || (size < 0 && errno != EAGAIN);
      if (size <= 0) return text;
      text.append(bytes.data(), static_cast<size_t>(size));
    }
  }
  // Reads until the server closes.
  static std::string ReceiveAll(const UniqueFd& client, bool* closed) {
    std::string text;
    for (pollfd fd = {client.get(), POLLIN, 0}; !*closed && ::poll(&fd, 1, 20'000) == 1;)
      text += Receive(client, closed);
    return text;
  }
  std::string Ask(const UniqueFd& client, absl::string_view request, bool* closed = nullptr) {
    Send(client, request);
    Pump();
    return Receive(client, closed);
  }

  std::string path_;
  CommandRegistry registry_;
  std::unique_ptr<CommandServer> server_;
};

TEST_F(CommandServerTest, ReadOnlySocketRefusesOtherCommandsAndNamesTheControlSocket) {
  auto server = CommandServer::ListenReadOnly(path_, &registry_);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string path = (*server)->path();
  EXPECT_EQ(path, absl::StrCat(path_.substr(0, path_.size() - 4), ".ro.ctl"));
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0007, 0u) << "not for others";
  const UniqueFd client = ConnectTo(path);
  Send(client, R"({"method":"echo","params":["x"],"id":0}{"method":"big","params":[],"id":1})");
  for (int i = 0; i < 10; ++i) (*server)->Run();
  char reply[4096] = {};
  ASSERT_GT(::recv(client.get(), reply, sizeof(reply) - 1, 0), 0);
  EXPECT_THAT(std::string(reply), HasSubstr(R"("result":"x\n")"));
  EXPECT_THAT(std::string(reply),
              HasSubstr(absl::StrCat(
                  R"(\"big\" may change something, and this socket is read-only; use )", path_)));
  server->reset();
  EXPECT_NE(::stat(path.c_str(), &info), 0);
}

TEST_F(CommandServerTest, AnswersRequests) {
  const struct {
    const char* description;
    const char* request;
    const char* reply;
  } kCases[] = {
      {"a result ends with a newline", R"({"method":"echo","params":["a","b"],"id":0})",
       R"({"result":"a,b\n","error":null,"id":0})"},
      {"an empty result stays empty", R"({"method":"echo","params":[],"id":0})",
       R"({"result":"","error":null,"id":0})"},
      {"an error", R"({"method":"fail","params":[],"id":1})",
       R"({"result":null,"error":"it is broken\n","id":1})"},
      {"ids of other kinds", R"({"method":"echo","params":["a"],"id":"x"})",
       R"({"result":"a\n","error":null,"id":"x"})"},
      {"white space and order of keys",
       "\n{ \"id\" : -7 , \"params\" : [ ] ,\n\"method\" : \"echo\" }\n",
       R"({"result":"","error":null,"id":-7})"},
      {"unknown members", R"({"jsonrpc":"2.0","method":"echo","params":["a"],"id":2})",
       R"({"result":"a\n","error":null,"id":2})"},
      {"escapes", R"({"method":"echo","params":["\u0041\"}\n"],"id":3})",
       R"({"result":"A\"}\n","error":null,"id":3})"},
      {"a result that is not UTF-8", R"({"method":"bytes","params":[],"id":4})",
       R"({"result":"a\ufffd\u0000b\n","error":null,"id":4})"},
      {"an unknown command", R"({"method":"ecko","params":[],"id":5})",
       R"({"result":null,"error":"\"ecko\" is not a valid command; did you mean echo? (use \"list-commands\" to see a list of valid commands)\n","id":5})"},
      {"wrong number of arguments", R"({"method":"fail","params":["now"],"id":6})",
       R"({"result":null,"error":"\"fail\" takes 0 arguments, not 1; usage: fail\n","id":6})"},
      {"an argument that is no string", R"({"method":"echo","params":["a",1],"id":7})",
       R"({"result":null,"error":"\"echo\" command has non-string argument\n","id":7})"},
      {"params no array", R"({"method":"echo","params":"a","id":8})",
       R"({"result":null,"error":"\"params\" must be an array of strings\n","id":8})"},
      {"no params", R"({"method":"echo","id":8})",
       R"({"result":null,"error":"\"params\" must be an array of strings\n","id":8})"},
      {"method no string", R"({"method":["echo"],"params":[],"id":9})",
       R"({"result":null,"error":"\"method\" must be a string, the name of a command\n","id":9})"},
      {"an empty object", "{}",
       R"({"result":null,"error":"\"id\" must be a number or a string\n","id":null})"},
      {"id null", R"({"method":"echo","params":[],"id":null})",
       R"({"result":null,"error":"\"id\" must be a number or a string\n","id":null})"},
      {"id an object", R"({"method":"echo","params":[],"id":{"a":1}})",
       R"({"result":null,"error":"\"id\" must be a number or a string\n","id":null})"},
  };
  // All on one connection, which stays usable after each case.
  const UniqueFd client = ConnectTo(path_);
  for (const auto& c : kCases) {
    bool closed;
    EXPECT_EQ(json::parse(c.reply), json::parse(Ask(client, c.request, &closed), nullptr, false))
        << c.description;
    EXPECT_FALSE(closed) << c.description;
  }
}

// As Open vSwitch's `ovs-appctl --format json` asks for it.
TEST_F(CommandServerTest, AnswersInJsonAfterSetOptions) {
  const UniqueFd client = ConnectTo(path_), other = ConnectTo(path_);
  const auto set = [](const char* format) {
    return absl::StrCat(R"({"method":"set-options","params":["--format",")", format,
                        R"("],"id":0})");
  };
  const char kEcho[] = R"({"method":"echo","params":["a"],"id":1})";
  const auto result = [&](const UniqueFd& from, const std::string& request) {
    const auto reply = nlohmann::json::parse(Ask(from, request));
    return reply["result"].is_null() ? reply["error"] : reply["result"];
  };
  EXPECT_EQ(result(client, set("json")), "");
  EXPECT_EQ(result(client, kEcho), nlohmann::json({{"message", "a"}}));
  EXPECT_EQ(result(other, kEcho), "a\n") << "each connection has its own form";
  EXPECT_EQ(result(client, R"({"method":"fail","params":[],"id":1})"), "it is broken\n")
      << "errors are text";
  EXPECT_EQ(result(client, set("xml")),
            "set-options --format xml: write --format json or --format text\n");
  EXPECT_EQ(result(client, set("text")), "");
  EXPECT_EQ(result(client, kEcho), "a\n");
}

TEST_F(CommandServerTest, RefusesAndClosesAfterTextThatIsNotJson) {
  const struct {
    const char* description;
    std::string request;
    const char* error;
  } kCases[] = {
      {"no object", "GET / HTTP/1.1\r\n",
       "a message is a JSON object and begins with '{', not with 'G'\n"},
      {"no JSON", "{method: echo}", "the request is not JSON\n"},
      {"not UTF-8", "{\"method\":\"\xff\",\"params\":[],\"id\":0}", "the request is not JSON\n"},
      {"a number out of all ranges", "{\"id\":1e9999}", "the request is not JSON\n"},
      {"too deep", "{\"id\":" + std::string(10000, '['), "a message is nested at most 16 deep\n"},
  };
  for (const auto& c : kCases) {
    const UniqueFd client = ConnectTo(path_);
    bool closed;
    const json reply = json::parse(Ask(client, c.request, &closed), nullptr, false);
    EXPECT_EQ((json{{"result", nullptr}, {"error", c.error}, {"id", nullptr}}), reply)
        << c.description;
    EXPECT_TRUE(closed) << c.description;
    EXPECT_EQ(0u, server_->connections()) << c.description;
  }
}

TEST_F(CommandServerTest, AcceptsARequestByteByByte) {
  const UniqueFd client = ConnectTo(path_);
  const std::string request = R"({"method":"echo","params":["a b"],"id":0})";
  for (char byte : request) {
    EXPECT_EQ("", Receive(client));
    EXPECT_EQ(1u, Send(client, absl::string_view(&byte, 1)));
    Pump();
  }
  EXPECT_THAT(Receive(client), HasSubstr("\"a b\\n\""));
}

TEST_F(CommandServerTest, AnswersManyRequestsThatCameInOneWrite) {
  const UniqueFd client = ConnectTo(path_);
  std::string requests;
  for (int i = 0; i < 500; ++i)
    absl::StrAppend(&requests, "{\"method\":\"echo\",\"params\":[\"", i, "\"],\"id\":", i, "}");
  ASSERT_EQ(requests.size(), Send(client, requests));
  std::string replies;
  for (; HasWork(); replies += Receive(client)) Pump();
  EXPECT_EQ(500, std::count(replies.begin(), replies.end(), '\n'));
  EXPECT_THAT(replies, HasSubstr("\"499\\n\""));
  EXPECT_FALSE(HasWork());
}

TEST_F(CommandServerTest, ARunAnswersOneRequestAndClientsTakeTurns) {
  constexpr int kClients = 5, kRequests = 100;
  std::vector<int> calls(kClients);
  registry_.Register({{.name = "count",
                       .usage = "CLIENT",
                       .handler = [&calls](const CommandRegistry::Arguments& arguments) {
                         return absl::StrCat(++calls[arguments[0][0] - '0']);
                       }}});
  std::vector<UniqueFd> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(ConnectTo(path_));
    std::string requests;
    for (int j = 0; j < kRequests; ++j)
      absl::StrAppend(&requests, R"({"method":"count","params":[")", i, R"("],"id":0})");
    ASSERT_EQ(requests.size(), Send(clients.back(), requests));
  }
  const auto total = [&calls] { return std::accumulate(calls.begin(), calls.end(), 0); };
  for (int before = 0; HasWork(); before = total()) {
    server_->Run();
    for (const UniqueFd& client : clients) Receive(client);
    ASSERT_LE(total(), before + 1);
    const auto [least, most] = std::minmax_element(calls.begin(), calls.end());
    ASSERT_LE(*most, *least + 2) << "a client is ahead of another";
  }
  EXPECT_EQ(total(), kClients * kRequests) << "the rest must not be forgotten";
}

// A Probe of another agent is such other work.
TEST_F(CommandServerTest, OtherWorkOfTheLoopRunsBetweenRequests) {
  MonotonicClock clock;
  EventLoop loop(&clock);
  int calls = 0, since = 0;
  registry_.Register({{.name = "count", .handler = [&](const CommandRegistry::Arguments&) {
                         EXPECT_LE(++since, 1) << "request " << calls;
                         return absl::StrCat(++calls);
                       }}});
  const UniqueFd client = ConnectTo(path_), work(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  std::string requests;
  for (int i = 0; i < 100; ++i)
    absl::StrAppend(&requests, R"({"method":"count","params":[],"id":0})");
  ASSERT_EQ(requests.size(), Send(client, requests));
  ASSERT_TRUE(loop.Add(server_->fd(), EPOLLIN, [&](uint32_t) { server_->Run(); }).ok());
  ASSERT_TRUE(loop.Add(work.get(), EPOLLIN, [&](uint32_t) { since = 0; }).ok());
  for (int i = 0; calls < 100 && i < 1000; ++i) {
    loop.RunOnce(absl::InfinitePast());
    Receive(client);
  }
  EXPECT_EQ(calls, 100);
}

TEST_F(CommandServerTest, CutsOffARequestThatIsTooLong) {
  const UniqueFd client = ConnectTo(path_);
  Send(client, "{\"method\":\"");
  size_t sent = 0;
  for (int i = 0; i < 1000 && server_->connections() < 2; ++i) {
    const size_t size = Send(client, std::string(32 << 10, 'x'));
    if (size == 0 && errno != EAGAIN) break;
    sent += size;
    Pump();
  }
  EXPECT_LT(sent, 2 * CommandServer::kMaxRequest);
  EXPECT_THAT(Receive(client), HasSubstr("a message is at most 1048576 bytes long"));
  EXPECT_EQ(0u, server_->connections());
}

TEST_F(CommandServerTest, ClientThatDoesNotReadBlocksOnlyItself) {
  const UniqueFd lazy = ConnectTo(path_), busy = ConnectTo(path_);
  // Requests 3 MiB repeatedly, without reading.
  size_t sent = 0;
  for (int i = 0; i < 100000; ++i) {
    const size_t size = Send(lazy, R"({"method":"big","params":[],"id":0})");
    if (size == 0) break;
    sent += size;
    if (i % 100 == 0) Pump();
  }
  EXPECT_EQ(0u, Send(lazy, "{")) << "the server does not take its requests any more";
  Pump();
  EXPECT_FALSE(HasWork()) << "nor does it spin";
  EXPECT_THAT(Ask(busy, R"({"method":"echo","params":["still here"],"id":0})"),
              HasSubstr("still here"));
  EXPECT_GT(sent, 0u);
  EXPECT_EQ(2u, server_->connections());
}

TEST_F(CommandServerTest, SendsALargeAnswer) {
  const UniqueFd client = ConnectTo(path_);
  Send(client, R"({"method":"big","params":[],"id":0})");
  std::string reply;
  for (int i = 0; i < 10000 && (reply.empty() || reply.back() != '\n'); ++i) {
    Pump();
    reply += Receive(client);
  }
  const json object = json::parse(reply, nullptr, false);
  ASSERT_TRUE(object.is_object());
  EXPECT_EQ(std::string(3 << 20, 'x') + "\n", object["result"].get<std::string>());
}

TEST_F(CommandServerTest, AnswersAClientThatHasShutDownItsSide) {
  const UniqueFd client = ConnectTo(path_);
  Send(client, R"({"method":"echo","params":["a"],"id":0})");
  ASSERT_EQ(0, ::shutdown(client.get(), SHUT_WR));
  Pump();
  bool closed;
  EXPECT_THAT(Receive(client, &closed), HasSubstr("\"a\\n\""));
  EXPECT_TRUE(closed);
}

TEST_F(CommandServerTest, ClosesTheConnectionOfAClientThatLeaves) {
  for (const char* half : {"", "{\"method\":", R"({"method":"big","params":[],"id":0})"}) {
    UniqueFd client = ConnectTo(path_);
    Send(client, half);
    Pump();
    client.reset();
    Pump();
    EXPECT_EQ(0u, server_->connections()) << half;
  }
}

TEST_F(CommandServerTest, RefusesConnectionsAboveTheLimit) {
  std::vector<UniqueFd> clients;
  for (size_t i = 0; i < CommandServer::kMaxConnections; ++i) {
    clients.push_back(ConnectTo(path_));
    Pump();
  }
  EXPECT_EQ(CommandServer::kMaxConnections, server_->connections());
  const UniqueFd refused = ConnectTo(path_);
  Pump();
  bool closed;
  EXPECT_THAT(Receive(refused, &closed), HasSubstr("the program serves 64 connections already"));
  EXPECT_TRUE(closed);
  EXPECT_THAT(Ask(clients[7], R"({"method":"echo","params":["a"],"id":0})"), HasSubstr("\"a\\n\""));
  clients.pop_back();
  Pump();
  const UniqueFd next = ConnectTo(path_);
  EXPECT_THAT(Ask(next, R"({"method":"echo","params":["a"],"id":0})"), HasSubstr("\"a\\n\""));
}

TEST_F(CommandServerTest, RefusesClientsWithoutDescriptorsInsteadOfSpinning) {
  const UniqueFd client = ConnectTo(path_);
  CommandServer* const server = server_.get();
  rlimit before;
  ASSERT_EQ(0, ::getrlimit(RLIMIT_NOFILE, &before));
  // Then the lowest free descriptor is above the limit.
  const UniqueFd lowest(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const rlimit none = {static_cast<rlim_t>(lowest.get()) + 1, before.rlim_max};
  ASSERT_EQ(0, ::setrlimit(RLIMIT_NOFILE, &none));
  server->Run();  // not Pump: the sanitizer's check of virtual calls needs a descriptor
  ASSERT_EQ(0, ::setrlimit(RLIMIT_NOFILE, &before));
  EXPECT_FALSE(HasWork());
  EXPECT_THAT(Receive(client), HasSubstr("the program is out of file descriptors"));
  EXPECT_THAT(Ask(ConnectTo(path_), R"({"method":"echo","params":["a"],"id":0})"),
              HasSubstr("\"a\\n\""));
}

TEST_F(CommandServerTest, SocketIsForItsUserOnly) {
  struct stat info;
  ASSERT_EQ(0, ::stat(path_.c_str(), &info));
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(0600u, info.st_mode & 07777);
}

TEST_F(CommandServerTest, AnswersThatTheProgramIsStopping) {
  const UniqueFd idle = ConnectTo(path_), asking = ConnectTo(path_), halfway = ConnectTo(path_);
  Ask(idle, R"({"method":"echo","params":["a"],"id":0})");
  Send(halfway, R"({"method":"big","params":[],"id":0})");
  server_->Run();
  std::string part = Receive(halfway);
  Send(asking, R"({"method":"echo","params":["a"],"id":0})");
  const UniqueFd waiting = ConnectTo(path_);
  server_->RefuseFromNowOn("test is stopping");
  const UniqueFd late = ConnectTo(path_);
  for (const UniqueFd* client : {&idle, &asking, &waiting, &late}) {
    bool closed = false;
    const std::string answer = ReceiveAll(*client, &closed);
    EXPECT_EQ(json::parse(answer, nullptr, false)["error"], "test is stopping\n") << answer;
    EXPECT_TRUE(closed);
  }
  bool closed = false;
  EXPECT_THAT(part + ReceiveAll(halfway, &closed), Not(HasSubstr("is stopping")))
      << "it would be taken for the answer's rest";
  EXPECT_TRUE(closed);
  server_.reset();
  EXPECT_NE(0, ::access(path_.c_str(), F_OK));
}

TEST_F(CommandServerTest, DoesNotReplaceALivingServer) {
  const auto second = CommandServer::Listen(path_, &registry_);
  EXPECT_EQ(absl::StatusCode::kAlreadyExists, second.status().code());
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr(path_),
                    HasSubstr(absl::StrCat("(process ", ::getpid(),
                                           ") serves it already; stop that program first"))));
  Pump();  // handles the probe's connection
  const UniqueFd client = ConnectTo(path_);
  EXPECT_THAT(Ask(client, R"({"method":"echo","params":["first"],"id":0})"), HasSubstr("first"));
}

TEST_F(CommandServerTest, DoesNotReplaceALivingServerWithAFullBacklog) {
  std::vector<UniqueFd> waiting;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
  int result = 0;
  while (result == 0 && waiting.size() < 5000) {
    waiting.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    result = ::connect(waiting.back().get(), reinterpret_cast<const sockaddr*>(&address),
                       sizeof(address));
  }
  ASSERT_EQ(EAGAIN, errno);
  EXPECT_EQ(absl::StatusCode::kAlreadyExists,
            CommandServer::Listen(path_, &registry_).status().code());
}

TEST_F(CommandServerTest, ReplacesTheSocketOfADeadProgram) {
  const std::string stale = path_ + ".stale";
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, stale.c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(0, ::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
    ASSERT_EQ(0, ::listen(dead.get(), 1));
  }
  EXPECT_TRUE(CommandServer::Listen(stale, &registry_).ok());
}

// A cleaner of temporary files may remove it, with its directory.
TEST_F(CommandServerTest, MakesARemovedSocketAgain) {
  constexpr char kEcho[] = R"({"method":"echo","params":["a"],"id":0})";
  const UniqueFd former = ConnectTo(path_);
  EXPECT_THAT(Ask(former, kEcho), HasSubstr("\"a\\n\""));
  EXPECT_FALSE(*server_->RestoreSocket()) << "it is there";
  const int fd = server_->fd();
  for (const bool with_directory : {false, true}) {
    ASSERT_EQ(0, ::unlink(path_.c_str()));
    if (with_directory) {
      ASSERT_EQ(0, ::rmdir(path_.substr(0, path_.rfind('/')).c_str()));
    }
    const auto restored = server_->RestoreSocket();
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_TRUE(*restored);
    EXPECT_EQ(server_->fd(), fd) << "the owner's loop waits for it";
    struct stat info;
    ASSERT_EQ(0, ::stat(path_.c_str(), &info));
    EXPECT_EQ(0600u, info.st_mode & 07777);
    EXPECT_THAT(Ask(ConnectTo(path_), kEcho), HasSubstr("\"a\\n\""));
    EXPECT_THAT(Ask(former, kEcho), HasSubstr("\"a\\n\""));
  }
  server_.reset();
  EXPECT_NE(0, ::access(path_.c_str(), F_OK)) << "it removes the one that it made";
}

TEST_F(CommandServerTest, DoesNotReplaceAFileThatIsNoSocket) {
  const std::string file = path_ + ".file";
  std::ofstream(file) << "precious";
  const auto server = CommandServer::Listen(file, &registry_);
  EXPECT_EQ(absl::StatusCode::kFailedPrecondition, server.status().code());
  EXPECT_THAT(std::string(server.status().message()),
              HasSubstr("a file that is no socket is in the way"));
  std::string content;
  std::getline(std::ifstream(file), content);
  EXPECT_EQ("precious", content);
}

TEST_F(CommandServerTest, RefusesInvalidPaths) {
  const auto too_long =
      CommandServer::Listen(MakeTemporaryDirectory() + "/" + std::string(108, 'x'), &registry_);
  EXPECT_THAT(std::string(too_long.status().message()),
              HasSubstr("the path of a socket has 1 to 107 bytes"));
  const auto below_file = CommandServer::Listen("/dev/null/x.ctl", &registry_);
  EXPECT_THAT(std::string(below_file.status().message()),
              HasSubstr("make directory /dev/null: a file of that name is in the way"));
}

TEST_F(CommandServerTest, RemovesItsSocketButNotThatOfAnother) {
  server_.reset();
  struct stat info;
  EXPECT_NE(0, ::stat(path_.c_str(), &info));

  auto first = MustListen(path_, &registry_);
  ASSERT_EQ(0, ::unlink(path_.c_str()));
  auto second = MustListen(path_, &registry_);
  first.reset();
  EXPECT_EQ(0, ::stat(path_.c_str(), &info));
  second.reset();
  EXPECT_NE(0, ::stat(path_.c_str(), &info));
}

// The unmodified ovs-appctl of the package openvswitch-common.
class OvsAppctlTest : public ::testing::Test {
 protected:
  OvsAppctlTest() : path_(MakeTemporaryDirectory() + "/test.ctl") {
    registry_.Register({{.name = "fdb/show",
                         .usage = "[VES]",
                         .handler = [](const CommandRegistry::Arguments& arguments) {
                           return absl::StrCat("fdb of ", arguments.empty() ? "all" : arguments[0]);
                         }}});
    registry_.Register(
        {{.name = "fail",
          .handler = [](const CommandRegistry::Arguments&) -> absl::StatusOr<std::string> {
            return absl::InternalError("it is broken");
          }}});
    EXPECT_EQ(0, RunProgram("ovs-appctl --version").exit_status)
        << "ovs-appctl is missing: install the package openvswitch-common";
  }
  ProgramResult Appctl(const std::string& arguments) const {
    return RunProgram("ovs-appctl -t " + path_ + " " + arguments);
  }

  std::string path_;
  CommandRegistry registry_;
};

TEST_F(OvsAppctlTest, OvsAppctlWorksWithOurServer) {
  RunningServer server(path_, &registry_);
  const std::string kReported = "ovs-appctl: " + path_ + ": server returned an error\n";
  const struct {
    const char* description;
    const char* arguments;
    int exit_status;
    std::string out;
    std::string err;
  } kCases[] = {
      {"the list", "list-commands", 0,
       "The available commands are:\n  fail\n  fdb/show                [VES]\n  help               "
       "     [COMMAND...]\n  list-commands\n",
       ""},
      {"a command", "fdb/show", 0, "fdb of all\n", ""},
      {"an argument", "fdb/show blue", 0, "fdb of blue\n", ""},
      {"a command of two words", "fdb show 'blue and \"red\"'", 0, "fdb of blue and \"red\"\n", ""},
      {"a command that fails", "fail", 2, "", "it is broken\n" + kReported},
      {"an unknown command", "fdb/shwo", 2, "",
       "\"fdb/shwo\" is not a valid command; did you mean fdb show? (use \"list-commands\" to see "
       "a list of valid commands)\n" +
           kReported},
  };
  for (const auto& c : kCases) {
    const ProgramResult result = Appctl(c.arguments);
    EXPECT_EQ(c.exit_status, result.exit_status) << c.description;
    EXPECT_EQ(c.out, result.out) << c.description;
    EXPECT_EQ(c.err, result.err) << c.description;
  }
}

}  // namespace
}  // namespace eoib
