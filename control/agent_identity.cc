#include "control/agent_identity.h"

#include <crypt.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "control/daemon/log.h"
#include "vswitch/base/file.h"

namespace eoib {
namespace {

using nlohmann::json;

// What agent.json has.
struct Kept {
  AgentIdentity identity;
  std::string machine;  // hash of the machine-id; empty: made without one
};

// The begin of a file; empty if it cannot be read.
std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::string text(4096, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// Empty if the machine has none (yet).
std::string ReadMachineId(const std::string& path) {
  const std::string id(absl::StripAsciiWhitespace(ReadText(path)));
  return id.size() == 32 && std::all_of(id.begin(), id.end(), absl::ascii_isxdigit) ? id : "";
}

// crypt(3): `setting` is a salt, or a hash that was made before with the salt in it.
std::string Hash(const std::string& machine_id, const std::string& setting) {
  const auto data = std::make_unique<crypt_data>();
  const char* const hash = crypt_r(machine_id.c_str(), setting.c_str(), data.get());
  return hash == nullptr ? "" : hash;
}

std::string NewHash(const std::string& machine_id, const AgentId& id) {
  return Hash(machine_id, absl::StrCat("$6$", absl::StrReplaceAll(id.ToString(), {{"-", ""}}).substr(0, 16)));
}

absl::StatusOr<Kept> Parse(const std::string& text) {
  const absl::Status damaged = absl::DataLossError("it has no agent id with an incarnation");
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return damaged;
  const json id = object.value("id", json()), incarnation = object.value("incarnation", json());
  const json machine = object.value("machine", json(""));
  if (!id.is_string() || !incarnation.is_number_unsigned() || !machine.is_string()) return damaged;
  const absl::StatusOr<AgentId> agent_id = AgentId::Parse(id.get<std::string>());
  if (!agent_id.ok() || incarnation.get<uint64_t>() > std::numeric_limits<uint32_t>::max()) return damaged;
  return Kept{{*agent_id, incarnation.get<uint32_t>()}, machine.get<std::string>()};
}

// The identity in the file, with the reason if it must not be used.
absl::StatusOr<Kept> Load(const std::string& path, const std::string& machine_id) {
  absl::StatusOr<Kept> kept = Parse(ReadText(path));
  if (!kept.ok()) return kept;
  if (kept->identity.incarnation == std::numeric_limits<uint32_t>::max())
    return absl::OutOfRangeError("all incarnations are used");
  if (!machine_id.empty() && !kept->machine.empty() && Hash(machine_id, kept->machine) != kept->machine) {
    return absl::FailedPreconditionError("it was made on a machine with another machine-id");
  }
  return kept;
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

AgentIdentity LoadAgentIdentity(const StateDir& state, const std::string& machine_id_path,
                                const StateDir::RandomSource& random) {
  const std::string path = state.path() + "/agent.json", machine_id = ReadMachineId(machine_id_path);
  if (machine_id.empty()) {
    LogWarning(absl::StrCat(machine_id_path, " has no machine-id, so a copy of ", path, " on another machine is not noticed"));
  }
  std::error_code error;
  absl::StatusOr<Kept> kept = Load(path, machine_id);
  if (!kept.ok()) {
    if (std::filesystem::exists(path, error))
      LogWarning(absl::StrCat(path, ": ", kept.status().message(), "; making a new agent id"));
    kept = Kept{{NewId(random), 0}, ""};
  }
  ++kept->identity.incarnation;
  if (kept->machine.empty() && !machine_id.empty()) kept->machine = NewHash(machine_id, kept->identity.id);
  const json object = {
      {"id", kept->identity.id.ToString()}, {"incarnation", kept->identity.incarnation}, {"machine", kept->machine}};
  const absl::Status status = ReplaceFile(path, object.dump(2) + "\n");
  if (status.ok()) return kept->identity;
  // A later start would have the same incarnation, so this one needs another id.
  LogWarning(absl::StrCat("keep the agent's identity: ", status.message(),
                          "; other agents take this one for a new agent, as after each start until you make room in ",
                          state.path(), ", make it writable, or give another directory (--statedir)"));
  return NewAgentIdentity(random);
}

}  // namespace eoib
