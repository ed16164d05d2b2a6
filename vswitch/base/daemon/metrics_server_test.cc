#include "vswitch/base/daemon/metrics_server.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/daemon/running_server_for_test.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ProgramResult Get(const std::string& url) {
  return RunProgram(absl::StrCat("curl -sS --max-time 60 -i ", url));
}

class MetricsServerTest : public testing::Test {
 protected:
  MetricsServerTest() {
    registry_.Register(
        [this](MetricSet* set) { set->Counter("scrapes_seen", "scrapes", {}, ++scrapes_); });
  }

  MonotonicClock clock_;
  EventLoop loop_{&clock_};
  MetricRegistry registry_;
  uint64_t scrapes_ = 0;
  const MetricsServer::Poster post_ = [this](EventLoop::Callback callback) {
    loop_.Post(std::move(callback));
  };
};

// Runs the loop on another thread.
class RunningLoop {
 public:
  explicit RunningLoop(EventLoop* loop) : loop_(loop), thread_([loop] { loop->Run(); }) {}
  ~RunningLoop() {
    loop_->Stop();
    thread_.join();
  }

 private:
  EventLoop* const loop_;
  std::thread thread_;
};

TEST_F(MetricsServerTest, ScrapesRunTheCollectorsOnTheLoop) {
  const auto server = MetricsServer::Listen("0", &registry_, post_);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT((*server)->url(), testing::MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/metrics"));
  std::thread::id collected_on;
  registry_.Register([&](MetricSet*) { collected_on = std::this_thread::get_id(); });
  for (int i = 1; i <= 3; ++i) {
    const RunningLoop running(&loop_);
    const ProgramResult result = Get((*server)->url());
    ASSERT_EQ(result.exit_status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("200 OK"));
    EXPECT_THAT(result.out, HasSubstr(absl::StrCat("\neoib_scrapes_seen_total ", i, "\n")));
    EXPECT_THAT(result.out, HasSubstr("\neoib_scrape_success 1\n"));
  }
  EXPECT_NE(collected_on, std::thread::id());
  EXPECT_NE(collected_on, std::this_thread::get_id());
}

TEST_F(MetricsServerTest, OnlyMetricsAreServed) {
  const auto server = MetricsServer::Listen("127.0.0.1:0", &registry_, post_);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string root = (*server)->url().substr(0, (*server)->url().rfind('/'));
  for (const char* path : {"/", "/etc/passwd", "/../etc/passwd"}) {
    EXPECT_THAT(Get(absl::StrCat("--path-as-is ", root, path)).out, HasSubstr(" 404 ")) << path;
  }
}

// Load balancers and health checks ask so. It collects nothing, so it needs no control thread.
TEST_F(MetricsServerTest, HeadHasHeadersOnlyAndOtherMethodsAreNotAllowed) {
  const auto server = MetricsServer::Listen("0", &registry_, post_);
  ASSERT_TRUE(server.ok()) << server.status();
  const ProgramResult head = Get("--head " + (*server)->url());
  EXPECT_EQ(head.exit_status, 0) << head.err;
  EXPECT_THAT(head.out, testing::AllOf(HasSubstr("HTTP/1.1 200 OK\r\n"),
                                       HasSubstr("Content-Type: text/plain; charset=utf-8\r\n"),
                                       Not(HasSubstr("eoib_"))));
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    const ProgramResult other = Get(absl::StrCat("-X ", method, " --data x ", (*server)->url()));
    EXPECT_THAT(other.out, testing::AllOf(HasSubstr(" 405 "), HasSubstr("Allow: GET, HEAD\r\n")))
        << method;
  }
  EXPECT_EQ(scrapes_, 0u);
  const std::string root = (*server)->url().substr(0, (*server)->url().rfind('/'));
  EXPECT_THAT(Get("--head " + root + "/").out, HasSubstr(" 404 "));
}

TEST_F(MetricsServerTest, ControlThreadThatDoesNotAnswerIsReported) {
  const auto server =
      MetricsServer::Listen("127.0.0.1:0", &registry_, post_, absl::Milliseconds(1));
  ASSERT_TRUE(server.ok()) << server.status();
  const ProgramResult result = Get((*server)->url());  // nothing runs the loop
  EXPECT_THAT(result.out, HasSubstr("\neoib_scrape_success 0\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("scrapes_seen")));
  loop_.RunOnce(absl::InfinitePast());  // the late answer goes nowhere
  EXPECT_EQ(scrapes_, 1u);
}

// The control thread may still have the function of a scrape.
TEST_F(MetricsServerTest, EndDoesNotWaitForScrapes) {
  registry_.Register([](MetricSet*) { ADD_FAILURE() << "collected after the end"; });
  absl::Notification asked;
  EventLoop::Callback function;
  const auto post = [&](EventLoop::Callback callback) {
    function = std::move(callback);
    asked.Notify();
  };
  auto server = MetricsServer::Listen("0", &registry_, post, absl::InfiniteDuration());
  ASSERT_TRUE(server.ok()) << server.status();
  std::thread client([url = (*server)->url()] {
    EXPECT_THAT(Get(url).out, HasSubstr("\neoib_scrape_success 0\n"));
  });
  asked.WaitForNotification();
  server->reset();
  client.join();
  function();
}

// An agent that is told to stop has a second for all.
TEST_F(MetricsServerTest, EndIsSoon) {
  for (int i = 0; i < 3; ++i) {
    auto server = MetricsServer::Listen("0", &registry_, post_);
    ASSERT_TRUE(server.ok()) << server.status();
    {
      const RunningLoop running(&loop_);
      EXPECT_THAT(Get((*server)->url()).out, HasSubstr("200 OK"));
    }
    const absl::Time start = clock_.Now();
    server->reset();
    // civetweb's own interval is two seconds. Once in three times the machine may be slow.
    if (clock_.Now() - start < absl::Milliseconds(500)) return;
  }
  ADD_FAILURE() << "the end takes half a second or more";
}

TEST_F(MetricsServerTest, BadAddressIsRefusedWithAdvice) {
  for (const char* where :
       {"localhost:80", "80a", ":80", "1.2.3.4", "1.2.3.4:", "[::1]:80", "127.0.0.1:65536", "-1"}) {
    const auto server = MetricsServer::Listen(where, &registry_, post_);
    ASSERT_FALSE(server.ok()) << where;
    EXPECT_THAT(server.status().message(),
                HasSubstr(absl::StrCat("serve metrics on \"", where, "\": write [ADDRESS:]PORT")));
  }
}

TEST_F(MetricsServerTest, CauseIsNamedIfItCannotListen) {
  const auto first = MetricsServer::Listen("0", &registry_, post_);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string& url = (*first)->url();
  const std::string address = url.substr(7, url.rfind('/') - 7);
  const auto second = MetricsServer::Listen(address, &registry_, post_);
  EXPECT_TRUE(absl::IsAlreadyExists(second.status()));
  EXPECT_THAT(second.status().message(),
              HasSubstr(absl::StrCat("on ", address, ": another program uses that port")));
  const auto elsewhere = MetricsServer::Listen("192.0.2.1:0", &registry_, post_);
  EXPECT_THAT(elsewhere.status().message(),
              HasSubstr("serve metrics on 192.0.2.1:0: Cannot assign requested address"));
}

}  // namespace
}  // namespace eoib
