#include "tests/lab/fabric.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/lab/ib_fabric.h"
#include "tests/lab/soft_fabric.h"

namespace eoib::lab {

std::unique_ptr<Fabric> MakeFabric(Lab* lab, const std::vector<PartitionSpec>& partitions) {
  const char* kind = std::getenv("EOIB_LAB_FABRIC");
  if (kind == nullptr || std::string(kind) == "soft")
    return std::make_unique<SoftFabric>(lab, partitions);
  if (std::string(kind) == "infiniband") return std::make_unique<IbFabric>(partitions);
  Die(absl::StrCat("EOIB_LAB_FABRIC=", kind, ": neither soft nor infiniband"));
}

}  // namespace eoib::lab
