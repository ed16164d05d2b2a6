// OpenHca: opens the HCA port that a program's flag --hca names. Only mains include it.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_OPEN_HCA_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_OPEN_HCA_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "vswitch/fabric/hca.h"
#ifndef EOIB_WITHOUT_SOFTHCA
#include "vswitch/fabric/softhca/fabric_client.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#endif

namespace eoib {

// `name`: "verbs:DEVICE/PORT", or "soft:PORTNAME" on the fabricd that listens on `fabric` (empty:
// RUNDIR/fabricd.sock). `keep_waiting` and `wait`: as in softhca::FabricClient::Options. Built with
// EOIB_WITHOUT_SOFTHCA, it knows no "soft".
inline absl::StatusOr<std::unique_ptr<Hca>> OpenHca(
    const std::string& name, const std::string& rundir, const std::string& fabric,
    std::function<bool(const std::string&, absl::Duration)> keep_waiting,
    [[maybe_unused]] absl::Duration wait = absl::Seconds(5)) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "--hca is missing: verbs:DEVICE/PORT (see ibv_devices) or soft:PORTNAME");
  }
  absl::string_view rest = name;
  if (absl::ConsumePrefix(&rest, "verbs:")) return OpenVerbsHca(rest);
#ifdef EOIB_WITHOUT_SOFTHCA
  constexpr char kKinds[] = "verbs:";
#else
  constexpr char kKinds[] = "soft:, verbs:";
  const softhca::FabricClient::Options options = {
      .socket = fabric.empty() ? rundir + "/fabricd.sock" : fabric,
      .wait = wait,
      .keep_waiting = std::move(keep_waiting)};
  if (absl::ConsumePrefix(&rest, "soft:")) {
    return softhca::OpenSoftHca(std::make_unique<softhca::FabricClient>(options),
                                std::string(rest));
  }
#endif
  return absl::InvalidArgumentError(
      absl::StrCat("open HCA \"", name, "\": no such kind; this program has ", kKinds));
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_OPEN_HCA_H_
