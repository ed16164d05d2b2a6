#include "control/operator/fdb_target.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace eoib {
namespace {

// The words after the MAC; empty: not given.
struct BridgeWords {
  std::string dev, vlan, ves;
};

absl::StatusOr<BridgeWords> ParseBridgeWords(absl::Span<const std::string> words) {
  BridgeWords parsed;
  for (size_t i = 0; i < words.size(); i += 2) {
    std::string* const value = words[i] == "dev"    ? &parsed.dev
                               : words[i] == "vlan" ? &parsed.vlan
                               : words[i] == "ves"  ? &parsed.ves
                                                    : nullptr;
    if (value == nullptr || i + 1 == words.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", words[i], "\"", value == nullptr ? " is no word of this command" : " needs a value",
          "; write MAC [dev VPORT] [vlan VLAN] [ves VES]"));
    }
    *value = words[i + 1];
  }
  return parsed;
}

bool HasVPort(const Ves& ves, const std::string& name) {
  return std::any_of(ves.vports().begin(), ves.vports().end(),
                     [&name](const VPort& vport) { return vport.config.name == name; });
}

absl::StatusOr<Ves*> FindVes(const VesFinder& finder, const BridgeWords& words) {
  const absl::StatusOr<std::vector<Ves*>> veses = finder(words.ves);
  if (!veses.ok()) return veses.status();
  if (!words.dev.empty()) {
    for (Ves* ves : *veses) {
      if (HasVPort(*ves, words.dev)) return ves;
    }
    return absl::NotFoundError(
        absl::StrCat("this host has no vPort \"", words.dev, "\"",
                     words.ves.empty() ? "" : absl::StrCat(" in VES ", words.ves),
                     "; `vport show` lists those that it has"));
  }
  if (veses->size() == 1) return veses->front();
  const auto append_name = [](std::string* out, const Ves* ves) {
    absl::StrAppend(out, ves->config().name);
  };
  return absl::InvalidArgumentError(absl::StrCat("there are several VESes; add `ves` and one of: ",
                                                 absl::StrJoin(*veses, ", ", append_name)));
}

absl::StatusOr<FdbTarget> ParseBridge(const VesFinder& finder,
                                      absl::Span<const std::string> words) {
  const absl::StatusOr<BridgeWords> parsed = ParseBridgeWords(words.subspan(1));
  if (!parsed.ok()) return parsed.status();
  const absl::StatusOr<Ves*> ves = FindVes(finder, *parsed);
  if (!ves.ok()) return ves.status();
  FdbTarget target{.ves = *ves};
  if (!parsed->dev.empty()) target.vport = *FindVPort(**ves, parsed->dev);
  const Vid untagged = target.vport == nullptr ? Vid() : target.vport->config.vlan.Untagged();
  const absl::StatusOr<FdbKey> key =
      ParseFdbKey(parsed->vlan.empty() ? untagged.ToString() : parsed->vlan, words[0]);
  if (!key.ok()) return key.status();
  target.key = *key;
  return target;
}

absl::StatusOr<FdbTarget> ParsePositions(const VesFinder& finder,
                                         absl::Span<const std::string> words) {
  if (words.size() != 3 && words.size() != 4) {
    return absl::InvalidArgumentError(
        "write VES VLAN MAC [VPORT], or MAC [dev VPORT] [vlan VLAN] [ves VES]");
  }
  const absl::StatusOr<std::vector<Ves*>> veses = finder(words[0]);
  if (!veses.ok()) return veses.status();
  const absl::StatusOr<FdbKey> key = ParseFdbKey(words[1], words[2]);
  if (!key.ok()) return key.status();
  FdbTarget target{.ves = veses->front(), .key = *key};
  if (words.size() == 3) return target;
  const absl::StatusOr<const VPort*> vport = FindVPort(*target.ves, words[3]);
  if (!vport.ok()) return vport.status();
  target.vport = *vport;
  return target;
}

}  // namespace

absl::StatusOr<FdbTarget> FdbTarget::Parse(const VesFinder& finder,
                                           absl::Span<const std::string> words) {
  // The name of a VES has no colon, so it is no MAC.
  return MacAddr::Parse(words[0]).ok() ? ParseBridge(finder, words) : ParsePositions(finder, words);
}

absl::StatusOr<Vid> ParseVid(const std::string& text) {
  int value;
  if (absl::SimpleAtoi(text, &value) && value >= 0 && value <= Vid::kMax)
    return Vid(static_cast<uint16_t>(value));
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is no VLAN; it is a number from 0 (untagged) to ", Vid::kMax));
}

absl::StatusOr<FdbKey> ParseFdbKey(const std::string& vlan, const std::string& mac) {
  const absl::StatusOr<Vid> vid = ParseVid(vlan);
  if (!vid.ok()) return vid.status();
  const absl::StatusOr<MacAddr> address = MacAddr::Parse(mac);
  if (!address.ok()) return address.status();
  return FdbKey(*vid, *address);
}

absl::StatusOr<const VPort*> FindVPort(const Ves& ves, const std::string& name) {
  std::vector<std::string> names;
  for (const VPort& vport : ves.vports()) {
    if (vport.config.name == name) return &vport;
    names.push_back(vport.config.name);
  }
  return absl::NotFoundError(absl::StrCat("VES ", ves.config().name, " has no vPort \"", name,
                                          "\" here; there is: ", absl::StrJoin(names, ", ")));
}

}  // namespace eoib
