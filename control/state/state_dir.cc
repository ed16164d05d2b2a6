#include "control/state/state_dir.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/directories.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/file.h"

namespace eoib {
namespace {

using nlohmann::json;

constexpr size_t kMaxVportsFileSize = 16 << 20;

// Never repair or overwrite the file: it is the only copy of the addresses, so the operator must
// decide.
absl::Status Corrupt(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      "read the kept MAC addresses in ", path, ": ", what,
      "; correct the file, or move it away to have new addresses made for all vPorts"));
}

// The content of vports.json.
struct Kept {
  std::string binding;
  std::map<std::string, MacAddr> macs;
};

absl::StatusOr<std::map<std::string, MacAddr>> ParseMacs(const json& object,
                                                         const std::string& path) {
  std::map<std::string, MacAddr> macs;
  for (const auto& [name, value] : object.items()) {
    const absl::StatusOr<MacAddr> mac =
        value.is_string() ? MacAddr::Parse(value.get<std::string>()) : MacAddr();
    if (!mac.ok() || mac->IsZero() || mac->IsGroup()) {
      return Corrupt(path, absl::StrCat("vPort \"", absl::Utf8SafeCHexEscape(name),
                                        "\" has no unicast MAC address"));
    }
    macs[name] = *mac;
  }
  return macs;
}

absl::StatusOr<Kept> Parse(const std::string& text, const std::string& path) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) {
    return Corrupt(path, object.is_discarded() ? "it is not JSON"
                                               : "it is not an object {\"NAME\": \"MAC\", ...}");
  }
  Kept kept;
  // An earlier version's object may have a vPort of this name, with a MAC.
  const auto vports = object.find("vports");
  const bool is_bound = vports != object.end() && vports->is_object();
  if (is_bound) {
    const json machine = object.value("machine", json(""));
    if (!machine.is_string()) return Corrupt(path, "\"machine\" is no string");
    kept.binding = machine.get<std::string>();
  }
  absl::StatusOr<std::map<std::string, MacAddr>> macs =
      ParseMacs(is_bound ? *vports : object, path);
  if (!macs.ok()) return macs.status();
  kept.macs = *std::move(macs);
  return kept;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateDir>> StateDir::Open(const std::string& path,
                                                         RandomSource random,
                                                         const std::string& machine_id_path) {
  absl::Status status = MakeDirectories(path, 0700);
  absl::StatusOr<UniqueFd> lock = UniqueFd();
  if (status.ok()) {
    lock = LockStateDirectory(path);
    status = lock.status();
  }
  if (absl::IsAlreadyExists(status) || absl::IsFailedPrecondition(status)) return status;
  if (!status.ok()) {
    LogWarning(absl::StrCat(
        status.message(),
        "; nothing survives this run: neither the agent's id nor the MAC addresses of ",
        "vPorts; make ", path, " writable, or give another directory (--statedir)"));
  }
  auto state =
      std::unique_ptr<StateDir>(new StateDir(path, lock.ok() ? *std::move(lock) : UniqueFd(),
                                             std::move(random), ReadMachineId(machine_id_path)));
  status = state->Load();
  if (!status.ok()) return status;
  return state;
}

absl::Status StateDir::Load() {
  const absl::StatusOr<std::string> text = ReadFile(VportsPath(), kMaxVportsFileSize);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (!text.ok())
    return absl::Status(text.status().code(),
                        absl::StrCat("read ", VportsPath(), ": ", text.status().message()));
  absl::StatusOr<Kept> kept = Parse(*text, VportsPath());
  if (!kept.ok()) return kept.status();
  if (IsOfAnotherMachine(kept->binding, machine_id_)) {
    copied_ = std::move(kept->macs);
  } else {
    binding_ = std::move(kept->binding);
    macs_ = std::move(kept->macs);
  }
  return absl::OkStatus();
}

absl::Status StateDir::Save() {
  if (binding_.empty() && !machine_id_.empty()) {
    binding_ =
        BindToMachine(machine_id_, absl::StrCat(absl::Hex(SystemRandom(), absl::kZeroPad16)));
  }
  json vports = json::object();
  for (const auto& [name, mac] : macs_) vports[name] = mac.ToString();
  const json object = {{"machine", binding_}, {"vports", vports}};
  const std::string text = object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  return ReplaceFile(VportsPath(), text);
}

absl::StatusOr<MacAddr> StateDir::NewMac() const {
  // In the first byte, bit 1 marks a locally administered address and bit 0 a group address (IEEE
  // 802-2014 §8.4).
  constexpr uint64_t kLocal = uint64_t{0x02} << 40, kGroup = uint64_t{0x01} << 40;
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const MacAddr mac = MacAddr::FromUint64((random_() | kLocal) & ~kGroup);
    const bool taken = std::any_of(macs_.begin(), macs_.end(),
                                   [mac](const auto& entry) { return entry.second == mac; });
    if (!taken) return mac;
  }
  return absl::InternalError(absl::StrCat(
      "make a MAC address: the random source gave only taken ones in ", kTries, " tries"));
}

void StateDir::WarnOfCopy(const std::string& vport_name, MacAddr made) const {
  const auto copied = copied_.find(vport_name);
  if (copied == copied_.end()) return;
  LogWarning(absl::StrCat(
      VportsPath(),
      " was made on a machine with another machine-id, which may still use its MAC addresses; ",
      "vPort ", vport_name, " gets the new address ", made.ToString(), " in place of ",
      copied->second.ToString(), "; to keep that one, set mac = \"", copied->second.ToString(),
      "\" for the vPort in the configuration"));
}

absl::StatusOr<MacAddr> StateDir::MacFor(const std::string& vport_name) {
  const auto kept = macs_.find(vport_name);
  if (kept != macs_.end()) return kept->second;
  const absl::StatusOr<MacAddr> mac = NewMac();
  if (!mac.ok()) return mac.status();
  macs_[vport_name] = *mac;
  WarnOfCopy(vport_name, *mac);
  const absl::Status status = Save();
  if (!status.ok() && !save_failed_) {
    LogWarning(absl::StrCat(
        "keep the MAC address of vPort ", vport_name, ": ", status.message(),
        "; it and those of further vPorts hold until the next start only; make room in ", path_,
        " or make it writable"));
  }
  save_failed_ = !status.ok();
  return *mac;
}

void StateDir::Rename(const std::string& before, const std::string& after) {
  auto kept = macs_.extract(before);
  if (kept.empty()) return;
  const MacAddr mac = kept.mapped();
  macs_[after] = mac;
  if (absl::Status status = Save(); !status.ok()) {
    LogWarning(absl::StrCat("keep the MAC address ", mac.ToString(), " of vPort ", after,
                            " under its new name: ", status.message()));
  }
}

}  // namespace eoib
