#include "control/ves/ves_journal.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace eoib {
namespace {

std::string More(int suppressed) {
  return suppressed == 0
             ? ""
             : absl::StrCat("; ", suppressed, " more messages were left out before this one");
}

}  // namespace

void VesJournal::Write(void (*log)(absl::string_view text), absl::string_view subject,
                       absl::string_view text) {
  fdb_->Note(first_ + static_cast<uint32_t>(texts_.size()));
  texts_.push_back(absl::StrFormat("%-10s %s", subject, text));
  if (texts_.size() > kKept) {
    texts_.pop_front();
    ++first_;
  }
  int suppressed = 0;
  if (lines_.Allow(&suppressed))
    log(absl::StrCat("VES ", ves_, ": ", subject, " ", text, More(suppressed)));
}

void VesJournal::LogMove(FdbKey key, VPortId from, VPortId to) {
  const absl::optional<PeerAddress> former = directory_->Peer(from), present = directory_->Peer(to);
  if (former && present && former->gid == present->gid) return;
  int suppressed = 0;
  if (!moves_.Allow(&suppressed)) return;
  LogInfo(absl::StrCat("VES ", ves_, ": ", key.mac().ToString(), " in VLAN ", key.vid().ToString(),
                       " moved from ", behind_(from), " to ", behind_(to), More(suppressed)));
}

std::string VesJournal::TextOf(uint32_t note) const {
  const uint32_t index = note - first_;
  return index < texts_.size() ? texts_[index] : "a note that is no longer kept";
}

}  // namespace eoib
