// The software HCA as a VerbsTable.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_VERBS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_VERBS_H_

#include "vswitch/fabric/verbs.h"

namespace eoib::softhca {

// Stateless; valid for the life of the process.
const VerbsTable& SoftVerbsTable();

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_VERBS_H_
