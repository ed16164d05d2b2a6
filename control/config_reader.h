// ReadConfig: the configuration of a program that has VESes and something more, which it reads itself.
//
// To be included after everything else, as table_reader.h.
#ifndef EOIB_CONTROL_CONFIG_READER_H_
#define EOIB_CONTROL_CONFIG_READER_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "control/config.h"

// After everything else.
#include "control/table_reader.h"

namespace eoib {

struct ConfigExtension {
  std::string table;    // the name of its tables: "gateway"
  std::string example;  // the least that works, for who has nothing yet
  // Reads them, perhaps into vPorts of `config`, whose VESes and vPorts have been read.
  std::function<void(const toml::table& root, AgentConfig* config, Mistakes* mistakes)> read;
};

// As ParseConfig and LoadConfig.
absl::StatusOr<AgentConfig> ParseConfigWith(absl::string_view toml, absl::string_view source, const ConfigExtension& extension);
absl::StatusOr<AgentConfig> LoadConfigWith(const std::string& path, const ConfigExtension& extension);

// What a netdev, a VES may be called.
bool IsNetdevName(absl::string_view name);

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_READER_H_
