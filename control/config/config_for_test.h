// Shared parts of the tests of the configuration.
#ifndef EOIB_CONTROL_CONFIG_CONFIG_FOR_TEST_H_
#define EOIB_CONTROL_CONFIG_CONFIG_FOR_TEST_H_

#include <string>

#include "control/config/config.h"

namespace eoib {

// The mistakes in a file "f" with this text.
inline std::string MistakesOf(const std::string& text) {
  return std::string(ParseConfig(text, "f").status().message());
}

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_CONFIG_FOR_TEST_H_
