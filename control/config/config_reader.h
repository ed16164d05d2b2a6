// Reads the configuration of a program that has VESes, vPorts and further tables of its own, such
// as eoib-gateway.
//
// Include it after everything else, for the reason that table_reader.h gives.
#ifndef EOIB_CONTROL_CONFIG_CONFIG_READER_H_
#define EOIB_CONTROL_CONFIG_CONFIG_READER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "control/config/config.h"
#include "control/config/config_text.h"

// After everything else.
#include "control/config/table_reader.h"

namespace eoib {

struct ConfigExtension {
  std::vector<std::string> tables;  // the names of its tables: "gateway"
  std::string example;              // a minimal file, for the message that there is none
  // Reads those tables. The VESes and vPorts of `config` have been read; it may add vPorts.
  std::function<void(const toml::table& root, AgentConfig* config, Mistakes* mistakes)> read;
  bool has_workers = false;  // the program may have several workers
};

// As ParseConfig.
absl::StatusOr<AgentConfig> ParseConfigWith(const ConfigText& config,
                                            const ConfigExtension& extension);
// The text of a configuration file. kNotFound if there is none: the message has `example`.
absl::StatusOr<std::string> ReadConfigFile(const std::string& path, absl::string_view example);

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_CONFIG_READER_H_
