#include "vswitch/fabric/softhca/preload/environment.h"

#include <cstdio>
#include <cstdlib>

#include "vswitch/fabric/softhca/fabric_client.h"

namespace eoib::softhca {

std::unique_ptr<SubnetLink> Environment::Connect() const {
  FabricClient::Options options;
  options.socket = fabric;
  return std::make_unique<FabricClient>(options);
}

absl::optional<Environment> ReadEnvironment(const char* library) {
  const char* fabric = std::getenv("EOIB_FABRIC");
  const char* port = std::getenv("EOIB_PORT");
  if (fabric != nullptr && port != nullptr) return Environment{fabric, port};
  std::fprintf(
      stderr, "%s: no device: set EOIB_FABRIC to fabricd's socket and EOIB_PORT to a port's name\n",
      library);
  return absl::nullopt;
}

}  // namespace eoib::softhca
