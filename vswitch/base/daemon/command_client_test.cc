#include "vswitch/base/daemon/command_client.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/daemon/running_server_for_test.h"

namespace eoib {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ControlSocketPathTest, Rows) {
  EXPECT_EQ("/run/eoib/eoibd.ctl", ControlSocketPath("eoibd", "/run/eoib"));
  EXPECT_EQ("/run/eoib/eoibd.blue.ctl", ControlSocketPath("eoibd.blue", "/run/eoib"));
  EXPECT_EQ("/tmp/x.ctl", ControlSocketPath("/tmp/x.ctl", "/run/eoib"));
  EXPECT_EQ("./x.ctl", ControlSocketPath("./x.ctl", "/run/eoib"));
}

TEST(ControlSocketPathTest, ANameAloneIsThatOfAnAgent) {
  const std::string rundir = MakeTemporaryDirectory();
  const std::string own = OwnControlSocket(rundir, "eoibd", "h1").value();
  EXPECT_EQ(own, rundir + "/eoibd.h1.ctl");
  EXPECT_EQ(ControlSocketPath("h1", rundir), rundir + "/h1.ctl") << "there is no such agent";
  std::ofstream(own).put('\n');
  EXPECT_EQ(ControlSocketPath("h1", rundir), own);
  EXPECT_EQ(OwnControlSocket(rundir, "eoib-gateway", "").value(), rundir + "/eoib-gateway.ctl");
  EXPECT_THAT(std::string(OwnControlSocket(rundir, "eoibd", "a/b").status().message()),
              HasSubstr("write a name without '/'"));
  std::filesystem::remove_all(rundir);
}

class CommandClientTest : public ::testing::Test {
 protected:
  CommandClientTest() : directory_(MakeTemporaryDirectory()), path_(directory_ + "/eoibd.ctl") {
    registry_.Register({{.name = "echo",
                         .usage = "[ARG...]",
                         .handler = [](const CommandRegistry::Arguments& arguments) {
                           return absl::StrJoin(arguments, ",");
                         }}});
    registry_.Register({{.name = "big", .handler = [](const CommandRegistry::Arguments&) {
                           return std::string(5 << 20, 'x');
                         }}});
  }
  absl::StatusOr<CommandReply> Call(const std::string& method,
                                    const std::vector<std::string>& arguments,
                                    absl::Duration timeout = absl::Seconds(30)) const {
    return CallCommand(path_, method, arguments, timeout);
  }
  std::string ErrorOfCall(absl::Duration timeout = absl::Seconds(30)) const {
    return std::string(Call("echo", {}, timeout).status().message());
  }
  // A bound socket, which does not listen yet.
  UniqueFd Bind() const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(0, ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
    return fd;
  }
  // The client's error if the program sends `reply` and closes.
  std::string ErrorOnReply(const std::string& reply) const {
    ::unlink(path_.c_str());
    const UniqueFd listener = Bind();
    EXPECT_EQ(0, ::listen(listener.get(), 1));
    std::thread program([&] {
      const UniqueFd client(::accept(listener.get(), nullptr, nullptr));
      char request[1000];
      EXPECT_GT(::recv(client.get(), request, sizeof(request), 0), 0);
      EXPECT_EQ(static_cast<ssize_t>(reply.size()),
                ::send(client.get(), reply.data(), reply.size(), MSG_NOSIGNAL));
    });
    const std::string error = ErrorOfCall();
    program.join();
    return error;
  }

  std::string directory_;
  std::string path_;
  CommandRegistry registry_;
};

TEST_F(CommandClientTest, ReturnsResultsAndErrors) {
  RunningServer server(path_, &registry_);
  const auto result = Call("echo", {"a", "b\"}\n"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->is_error);
  EXPECT_EQ("a,b\"}\n", result->text);
  const auto error = Call("ecko", {});
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_TRUE(error->is_error);
  EXPECT_THAT(error->text, HasSubstr("\"ecko\" is not a valid command"));
}

// Answers in JSON, and errors in text.
TEST_F(CommandClientTest, AsksForJson) {
  RunningServer server(path_, &registry_);
  const auto call = [this](const std::string& method) {
    return CallCommand(path_, method, {"a"}, absl::Seconds(30), AnswerForm::kJson).value();
  };
  EXPECT_FALSE(call("echo").is_error);
  EXPECT_EQ("{\"message\":\"a\"}", call("echo").text);
  EXPECT_TRUE(call("ecko").is_error);
  EXPECT_THAT(call("ecko").text, HasSubstr("\"ecko\" is not a valid command"));
}

TEST_F(CommandClientTest, CarriesLargeRequestsAndAnswers) {
  RunningServer server(path_, &registry_);
  const std::string large(500'000, 'y');
  const auto echo = Call("echo", {large});
  ASSERT_TRUE(echo.ok()) << echo.status();
  EXPECT_EQ(large + "\n", echo->text);
  const auto big = Call("big", {});
  ASSERT_TRUE(big.ok()) << big.status();
  EXPECT_EQ(size_t{5 << 20} + 1, big->text.size());
}

TEST_F(CommandClientTest, ShowsWhyTheServerCutARequestOff) {
  RunningServer server(path_, &registry_);
  const auto reply = Call("echo", {std::string(3 << 20, 'y')});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->is_error);
  EXPECT_EQ("a message is at most 1048576 bytes long\n", reply->text);
}

TEST_F(CommandClientTest, ReportsThatTheProgramDoesNotRun) {
  EXPECT_THAT(ErrorOfCall(), AllOf(HasSubstr("connect to " + path_ +
                                             ": there is no such socket: eoibd does not run"),
                                   Not(HasSubstr("there are sockets"))));
  CommandRegistry other;
  const auto fabricd = CommandServer::Listen(directory_ + "/fabricd.ctl", &other);
  EXPECT_THAT(ErrorOfCall(), HasSubstr("there are sockets of: fabricd"));
  Bind();
  EXPECT_THAT(
      ErrorOfCall(),
      HasSubstr("eoibd does not run: it has ended without removing its socket; start it again"));
}

TEST_F(CommandClientTest, ReportsAPathThatIsNoSocket) {
  std::ofstream(path_) << "text";
  EXPECT_THAT(ErrorOfCall(), HasSubstr("connect to " + path_ +
                                       ": that is not a socket, but a file; name a program"));
  path_ = directory_;
  EXPECT_THAT(ErrorOfCall(), HasSubstr("that is not a socket, but a directory"));
}

// Root may connect to any socket, so another user tries: in a process of its own, because a test
// has one user.
TEST_F(CommandClientTest, SaysWhoMayUseTheSocket) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  RunningServer server(path_, &registry_);
  ASSERT_EQ(0, ::chmod(directory_.c_str(), 0755));
  EXPECT_EXIT(
      {
        if (::setuid(65534) != 0) std::abort();
        std::fputs(ErrorOfCall().c_str(), stderr);
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0),
      "Permission denied; the socket is for root, who runs eoibd: use sudo");
}

TEST_F(CommandClientTest, GivesUpOnAProgramThatHangs) {
  const UniqueFd hangs = Bind();
  ASSERT_EQ(0, ::listen(hangs.get(), 1));
  EXPECT_EQ(absl::StatusCode::kDeadlineExceeded,
            Call("echo", {}, absl::Milliseconds(20)).status().code());
  EXPECT_THAT(ErrorOfCall(absl::Milliseconds(20)),
              HasSubstr("none within 20ms; eoibd runs but is busy or hangs"));
}

TEST_F(CommandClientTest, ReportsAMalformedAnswer) {
  EXPECT_THAT(ErrorOnReply(""), HasSubstr("eoibd has closed the connection without one"));
  EXPECT_THAT(ErrorOnReply("{\"result\":"),
              HasSubstr("eoibd has closed the connection without one"));
  EXPECT_THAT(ErrorOnReply("{}"), HasSubstr("it is no JSON-RPC reply"));
  EXPECT_THAT(ErrorOnReply("{x}"), HasSubstr("it is no JSON-RPC reply"));
  EXPECT_THAT(ErrorOnReply("SSH-2.0"), HasSubstr("it is no JSON-RPC reply"));
}

TEST_F(CommandClientTest, RefusesPathsThatAreTooLong) {
  path_ = "/" + std::string(108, 'x');
  EXPECT_THAT(ErrorOfCall(), HasSubstr("the path of a socket has 1 to 107 bytes"));
}

}  // namespace
}  // namespace eoib
