#include "control/state/saved_identity.h"

#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "control/state/machine_binding.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/file.h"

namespace eoib {
namespace {

using nlohmann::json;

constexpr size_t kMaxIdentityFile = 4096;

// The content of agent.json.
struct SavedIdentity {
  AgentIdentity identity;
  std::string machine;  // hash of the machine-id; empty: made without one
};

std::string NewBinding(const std::string& machine_id, const AgentId& id) {
  return BindToMachine(machine_id, absl::StrReplaceAll(id.ToString(), {{"-", ""}}).substr(0, 16));
}

absl::StatusOr<SavedIdentity> Parse(const std::string& text) {
  const absl::Status damaged = absl::DataLossError("it has no agent id with an incarnation");
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return damaged;
  const json id = object.value("id", json()), incarnation = object.value("incarnation", json());
  const json machine = object.value("machine", json(""));
  if (!id.is_string() || !incarnation.is_number_unsigned() || !machine.is_string()) return damaged;
  const absl::StatusOr<AgentId> agent_id = AgentId::Parse(id.get<std::string>());
  if (!agent_id.ok() || incarnation.get<uint64_t>() > std::numeric_limits<uint32_t>::max())
    return damaged;
  return SavedIdentity{{*agent_id, incarnation.get<uint32_t>()}, machine.get<std::string>()};
}

// The identity in the file, with the reason if it must not be used.
absl::StatusOr<SavedIdentity> Load(const std::string& path, const std::string& machine_id) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxIdentityFile);
  if (!text.ok()) return text.status();
  absl::StatusOr<SavedIdentity> kept = Parse(*text);
  if (!kept.ok()) return kept;
  if (kept->identity.incarnation == std::numeric_limits<uint32_t>::max())
    return absl::OutOfRangeError("all incarnations are used");
  if (IsOfAnotherMachine(kept->machine, machine_id)) {
    return absl::FailedPreconditionError("it was made on a machine with another machine-id");
  }
  return kept;
}

std::string FileIn(const StateDir& state) { return state.path() + "/agent.json"; }

absl::Status Write(const std::string& path, const SavedIdentity& kept) {
  const json object = {{"id", kept.identity.id.ToString()},
                       {"incarnation", kept.identity.incarnation},
                       {"machine", kept.machine}};
  return ReplaceFile(path, object.dump(2) + "\n");
}

AgentId NewId(const StateDir::RandomSource& random) {
  const uint64_t halves[] = {random(), random()};
  AgentId::Bytes bytes;
  static_assert(sizeof(halves) == sizeof(bytes));
  std::memcpy(bytes.data(), halves, sizeof(halves));
  return AgentId(bytes);
}

}  // namespace

AgentIdentity NewAgentIdentity(const StateDir::RandomSource& random) { return {NewId(random), 1}; }

AgentIdentity RenewAgentIdentity(const StateDir& state, const std::string& machine_id_path,
                                 const StateDir::RandomSource& random) {
  const AgentIdentity identity = NewAgentIdentity(random);
  const std::string machine_id = ReadMachineId(machine_id_path);
  const SavedIdentity kept{identity, machine_id.empty() ? "" : NewBinding(machine_id, identity.id)};
  if (const absl::Status status = Write(FileIn(state), kept); !status.ok()) {
    LogWarning(absl::StrCat("keep the agent's new id: ", status.message(),
                            "; the next start has the former id until you delete ", FileIn(state)));
  }
  return identity;
}

AgentIdentity LoadAgentIdentity(const StateDir& state, const std::string& machine_id_path,
                                const StateDir::RandomSource& random) {
  const std::string path = FileIn(state), machine_id = ReadMachineId(machine_id_path);
  if (machine_id.empty()) {
    LogWarning(absl::StrCat(machine_id_path, " has no machine-id, so a copy of ", path,
                            " on another machine is not noticed"));
  }
  std::error_code error;
  absl::StatusOr<SavedIdentity> kept = Load(path, machine_id);
  if (!kept.ok()) {
    if (std::filesystem::exists(path, error))
      LogWarning(absl::StrCat(path, ": ", kept.status().message(), "; making a new agent id"));
    kept = SavedIdentity{{NewId(random), 0}, ""};
  }
  ++kept->identity.incarnation;
  if (kept->machine.empty() && !machine_id.empty())
    kept->machine = NewBinding(machine_id, kept->identity.id);
  const absl::Status status = Write(path, *kept);
  if (status.ok()) return kept->identity;
  // A later start would have the same incarnation, so this one needs another id.
  LogWarning(absl::StrCat(
      "keep the agent's identity: ", status.message(),
      "; other agents take this one for a new agent, as after each start until you make room in ",
      state.path(), ", make it writable, or give another directory (--statedir)"));
  return NewAgentIdentity(random);
}

}  // namespace eoib
