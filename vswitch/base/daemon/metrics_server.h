// MetricsServer: serves the metrics of a registry to Prometheus, by HTTP under /metrics.
//
// The threads of prometheus-cpp's Exposer serve the clients. For each scrape they ask the control
// thread to run the collectors. So counters are read by their own thread, and no client can hold up
// that thread.
#ifndef EOIB_VSWITCH_BASE_DAEMON_METRICS_SERVER_H_
#define EOIB_VSWITCH_BASE_DAEMON_METRICS_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "vswitch/base/daemon/metric_set.h"

namespace prometheus {
class Exposer;
}

namespace eoib {

// Control thread.
class MetricsServer {
 public:
  // Runs a function on the control thread, as EventLoop::Post does.
  using Poster = std::function<void(std::function<void()>)>;

  // The metric that says whether the control thread answered in time. Without its answer a scrape
  // has no other metric.
  static constexpr char kSuccess[] = "eoib_scrape_success";

  // Listens on `where`, [ADDRESS:]PORT with the default address 127.0.0.1; port 0 is any free one.
  // IPv4 only, as Debian's civetweb. A scrape waits at most `patience` for the control thread.
  // `registry` outlives the server. kAlreadyExists if the port is in use.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Listen(
      const std::string& where, const MetricRegistry* registry, Poster post,
      absl::Duration patience = absl::Seconds(5));
  // Answers the scrapes under way without metrics.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  const std::string& url() const { return url_; }

 private:
  class Scrapes;

  MetricsServer(std::shared_ptr<Scrapes> scrapes, std::unique_ptr<prometheus::Exposer> exposer,
                const std::string& host);

  const std::shared_ptr<Scrapes> scrapes_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  const int port_;
  const std::string url_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_METRICS_SERVER_H_
