#include "vswitch/base/daemon/wait_for_hca.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/log.h"

namespace eoib {
namespace {

constexpr absl::Duration kRetryInterval = absl::Seconds(1);
constexpr absl::Duration kLogInterval = absl::Minutes(1);

}  // namespace

absl::Status WaitForHca(const std::function<absl::Status()>& start, CommandRegistry* commands,
                        EventLoop* loop, ServiceManager* service_manager) {
  absl::Status status;
  std::string logged;
  absl::Time log_at = absl::InfinitePast(), retry_at;
  const auto is_done = [&] {
    status = start();
    if (status.ok() || !WaitingMayHelp(status)) return true;
    commands->SetStarting(absl::StrCat("waiting for the HCA: ", status.message()));
    if (status.message() != logged || loop->Now() >= log_at) {
      logged = std::string(status.message());
      LogWarning(absl::StrCat(logged, "; waiting for it"));
      log_at = loop->Now() + kLogInterval;
    }
    retry_at = loop->Now() + kRetryInterval;
    return false;
  };
  const auto show = [&logged] { return absl::StrCat("waiting for the HCA: ", logged); };
  commands->Register(
      {{"show", "", "what this program waits for", CommandRegistry::Access::kReadOnly,
        "waiting_for_hca", [&logged](const CommandRegistry::Arguments&) {
          return Answer({{"waiting_for_hca", logged}}, [](const Json& json) {
            return absl::StrCat("waiting for the HCA: ", TextOf(json, "waiting_for_hca"), "\n");
          });
        }}});
  bool done = is_done();
  if (!done) {
    service_manager->SetStatus(show);
    service_manager->Ready();
    const EventLoop::TimerId timer = loop->AddDeadline([&] { return retry_at; },
                                                       [&] {
                                                         done = is_done();
                                                         if (done) loop->Stop();
                                                       });
    loop->Run();
    loop->Cancel(timer);
    service_manager->SetStatus(nullptr);
  }
  commands->Unregister("show");
  commands->SetStarting("");
  return done ? status : absl::CancelledError("asked to stop while it waited for its HCA");
}

}  // namespace eoib
