// Fuzzes the file of saved MACs: no crash, and an accepted file has sound content and is written
// the same again.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "control/state/saved_fdb.h"
#include "vswitch/base/check.h"

namespace eoib {
namespace {

void CheckAccepted(const SavedFdb& saved) {
  EOIB_CHECK(saved.size() <= SavedFdb::kMostMacs && saved.saved_at >= absl::ZeroDuration());
  for (const SavedVes& ves : saved.veses) {
    for (const SavedPlace& place : ves.places) {
      EOIB_CHECK(place.vport.empty() || (place.peer == PeerAddress() && !place.agent.has_value()));
      for (const SavedMac& mac : place.macs) {
        EOIB_CHECK(mac.key.vid().value() <= Vid::kMax && !mac.key.mac().IsGroup() &&
                   !mac.key.mac().IsZero());
        EOIB_CHECK(mac.age >= absl::ZeroDuration() && mac.age < absl::InfiniteDuration());
      }
    }
  }
}

}  // namespace
}  // namespace eoib

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto saved = eoib::ParseSavedFdb({reinterpret_cast<const char*>(data), size});
  if (!saved.ok()) {
    EOIB_CHECK(absl::IsInvalidArgument(saved.status()) && !saved.status().message().empty());
    return 0;
  }
  eoib::CheckAccepted(*saved);
  const std::string text = eoib::ToJson(*saved);
  const auto again = eoib::ParseSavedFdb(text);
  EOIB_CHECK(again.ok() && again->veses == saved->veses && eoib::ToJson(*again) == text);
  return 0;
}
