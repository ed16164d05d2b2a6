// The port of a preloaded program: EOIB_FABRIC is fabricd's socket, EOIB_PORT the port's name.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_ENVIRONMENT_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_ENVIRONMENT_H_

#include <memory>
#include <string>

#include "absl/types/optional.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// The only device that a preloaded program sees, through either library.
inline constexpr char kDeviceName[] = "eoib0";
inline constexpr char kBoardId[] = "EOIB_SOFTHCA";
inline constexpr char kFirmwareVersion[] = "0.1.0";

struct Environment {
  std::string fabric;
  std::string port;

  std::unique_ptr<SubnetLink> Connect() const;
};

// Returns nullopt, after a message from `library` on standard error, if one of the two variables is
// missing.
absl::optional<Environment> ReadEnvironment(const char* library);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_ENVIRONMENT_H_
