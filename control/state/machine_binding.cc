#include "control/state/machine_binding.h"

#include <crypt.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

// crypt(3): `setting` is a salt, or a hash that was made before with the salt in it.
std::string Hash(const std::string& machine_id, const std::string& setting) {
  const auto data = std::make_unique<crypt_data>();
  const char* const hash = crypt_r(machine_id.c_str(), setting.c_str(), data.get());
  return hash == nullptr ? "" : hash;
}

}  // namespace

std::string ReadMachineId(const std::string& path) {
  std::ifstream file(path);
  std::string text(64, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  const std::string id(absl::StripAsciiWhitespace(text));
  return id.size() == 32 && std::all_of(id.begin(), id.end(), absl::ascii_isxdigit) ? id : "";
}

std::string BindToMachine(const std::string& machine_id, absl::string_view salt) {
  return Hash(machine_id, absl::StrCat("$6$", salt));
}

bool IsOfAnotherMachine(const std::string& binding, const std::string& machine_id) {
  return !machine_id.empty() && !binding.empty() && Hash(machine_id, binding) != binding;
}

}  // namespace eoib
