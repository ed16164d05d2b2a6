#include "vswitch/base/daemon/metrics_server.h"

#include <CivetServer.h>
#include <arpa/inet.h>
#include <civetweb.h>
#include <netinet/in.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {
namespace {

using Families = MetricSet::Families;

constexpr char kPath[] = "/metrics";

struct ListenAddress {
  std::string host;
  uint32_t port = 0;
  sockaddr_in address = {};
};

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& where) {
  const size_t colon = where.rfind(':');
  ListenAddress parsed;
  parsed.host = colon == std::string::npos ? "127.0.0.1" : where.substr(0, colon);
  parsed.address.sin_family = AF_INET;
  const std::string digits = colon == std::string::npos ? where : where.substr(colon + 1);
  if (!absl::SimpleAtoi(digits, &parsed.port) || parsed.port > 65535 ||
      inet_pton(AF_INET, parsed.host.c_str(), &parsed.address.sin_addr) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "serve metrics on \"", where,
        "\": write [ADDRESS:]PORT with an IPv4 address, such as 9817 or 0.0.0.0:9817"));
  }
  parsed.address.sin_port = htons(static_cast<uint16_t>(parsed.port));
  return parsed;
}

absl::Status ListenError(int error, const std::string& where) {
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(
        absl::StrCat("serve metrics on ", where,
                     ": another program uses that port; choose another one with --metrics"));
  }
  // Not ErrnoToStatus: to Abseil an address that this host lacks "already exists".
  return absl::UnavailableError(
      absl::StrCat("serve metrics on ", where, ": ", std::strerror(error)));
}

// Tries the address: the exposer's error has no cause.
absl::Status TryToListen(const ListenAddress& listen, const std::string& where) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return ListenError(errno, where);
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&listen.address),
           sizeof(listen.address)) != 0 ||
      ::listen(socket.get(), 1) != 0) {
    return ListenError(errno, where);
  }
  return absl::OkStatus();
}

// Answers what the exposer, which knows GET only, would answer with 404: HEAD, by which some
// programs test whether a server lives, and methods that are not allowed. Content-Length may be
// left out of an answer to HEAD, and the length of the metrics is not known before they are
// collected (RFC 9110 §8.6). Returns the status, or 0 to let the exposer answer.
int AnswerOtherMethods(mg_connection* connection) {
  const mg_request_info* const request = mg_get_request_info(connection);
  const std::string method = request->request_method,
                    path = request->local_uri == nullptr ? "" : request->local_uri;
  if (path != kPath || method == "GET") return 0;
  if (method == "HEAD") {
    mg_printf(
        connection,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n");
    return 200;
  }
  mg_printf(connection,
            "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Length: "
            "0\r\nConnection: close\r\n\r\n");
  return 405;
}

absl::StatusOr<std::unique_ptr<prometheus::Exposer>> MakeExposer(const std::string& where,
                                                                 const std::string& host_and_port) {
  // Two clients at a time; one that does not send or read is disconnected after five seconds.
  std::vector<std::string> options = {"listening_ports",    host_and_port, "num_threads", "2",
                                      "request_timeout_ms", "5000"};
  CivetCallbacks callbacks;
  callbacks.begin_request = AnswerOtherMethods;
  try {
    return std::make_unique<prometheus::Exposer>(std::move(options), &callbacks);
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("serve metrics on ", where, ": ", error.what()));
  }
}

// This process's descriptor that listens on `port`, which the exposer does not tell; -1 if there is
// none.
int FindListener(int port) {
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end;
       at.increment(error)) {
    int fd = -1, listens = 0;
    sockaddr_in address = {};
    socklen_t size = sizeof(listens), address_size = sizeof(address);
    if (absl::SimpleAtoi(at->path().filename().string(), &fd) &&
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &address_size) == 0 &&
        address.sin_family == AF_INET && ntohs(address.sin_port) == port) {
      return fd;
    }
  }
  return -1;
}

}  // namespace

// The scrapes under way. The exposer's threads call Collect, the control thread the rest. Functions
// that the control thread has not run yet keep it alive.
class MetricsServer::Scrapes final : public prometheus::Collectable,
                                     public std::enable_shared_from_this<Scrapes> {
 public:
  Scrapes(const MetricRegistry* registry, Poster post, absl::Duration patience)
      : registry_(registry), post_(std::move(post)), patience_(patience) {}

  Families Collect() const override ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto answer = std::make_shared<absl::optional<Families>>();  // guarded by mutex_
    post_([self = shared_from_this(), answer] { self->Run(answer.get()); });
    const auto is_over = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return answer->has_value() || closed_;
    };
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&is_over), patience_);
    Families families = answer->has_value() ? *std::move(*answer) : Families();
    families.push_back(Success(answer->has_value()));
    return families;
  }

  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

 private:
  void Run(absl::optional<Families>* answer) const ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (closed_) return;  // and the registry may be gone
    }
    Families families = registry_->Collect();
    absl::MutexLock lock(&mutex_);
    *answer = std::move(families);
  }

  static prometheus::MetricFamily Success(bool success) {
    prometheus::MetricFamily family;
    family.name = kSuccess;
    family.help =
        "1 if the control thread answered this scrape in time; else there are no other metrics";
    family.type = prometheus::MetricType::Gauge;
    family.metric.emplace_back().gauge.value = success ? 1 : 0;
    return family;
  }

  const MetricRegistry* const registry_;
  const Poster post_;
  const absl::Duration patience_;
  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Listen(const std::string& where,
                                                                     const MetricRegistry* registry,
                                                                     Poster post,
                                                                     absl::Duration patience) {
  const absl::StatusOr<ListenAddress> listen = ParseListenAddress(where);
  if (!listen.ok()) return listen.status();
  if (absl::Status status = TryToListen(*listen, where); !status.ok()) return status;
  auto exposer = MakeExposer(where, absl::StrCat(listen->host, ":", listen->port));
  if (!exposer.ok()) return exposer.status();
  auto scrapes = std::make_shared<Scrapes>(registry, std::move(post), patience);
  (*exposer)->RegisterCollectable(scrapes, kPath);
  return std::unique_ptr<MetricsServer>(
      new MetricsServer(std::move(scrapes), *std::move(exposer), listen->host));
}

MetricsServer::MetricsServer(std::shared_ptr<Scrapes> scrapes,
                             std::unique_ptr<prometheus::Exposer> exposer, const std::string& host)
    : scrapes_(std::move(scrapes)),
      exposer_(std::move(exposer)),
      port_(exposer_->GetListeningPorts().at(0)),
      url_(absl::StrCat("http://", host, ":", port_, kPath)) {}

// civetweb's thread looks every two seconds whether it is to end, and whenever something happens at
// its socket.
MetricsServer::~MetricsServer() {
  scrapes_->Close();  // first: the exposer's destructor waits for its threads
  if (const int listener = FindListener(port_); listener >= 0) shutdown(listener, SHUT_RDWR);
  exposer_.reset();
}

}  // namespace eoib
