// Workers: the data path of an agent: threads of its own, as many as its VESes have queues. Worker
// q runs queue q of each VES.
//
// A port is read by one worker, so the frames of a flow from a station stay in their order. Ports
// are spread over the workers by their index. Every worker writes to every port: the ports of a
// vPort's queues allow that (port/port.h).
#ifndef EOIB_VSWITCH_WORKERS_H_
#define EOIB_VSWITCH_WORKERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "vswitch/data_path.h"
#include "vswitch/worker.h"

namespace eoib {

class Workers final : public DataPath {
 public:
  // `realtime`: see Worker.
  explicit Workers(size_t count, bool realtime = false);

  // The name of a worker's thread: "eoib-worker-0".
  static std::string NameOf(size_t worker);
  // The worker that reads a port of a VES with `queues` queues.
  static size_t ReaderOf(uint32_t port, size_t queues) { return port % queues; }

  // DataPath. A forwarder that is added has no ports yet.
  absl::Status Add(Forwarder* forwarder, size_t queue) override;
  void Remove(const Forwarder* forwarder) override;
  absl::Status AddPort(absl::Span<Forwarder* const> queues, uint32_t port) override;
  void RemovePort(absl::Span<Forwarder* const> queues, uint32_t port) override;
  absl::Status WatchEndpointOf(const Forwarder* forwarder) override;
  void Start() override;
  void Stop(absl::Duration backlog) override;
  // Whether all of them do.
  bool MakesProgress() override;

 private:
  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<const Forwarder*, Worker*> worker_of_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_WORKERS_H_
