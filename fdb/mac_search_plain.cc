#include "fdb/mac_search_plain.h"

namespace eoib {
namespace {

constexpr MacSearch kPlain = SearchOf<Plain>("plain");

}  // namespace

const MacSearch* const kPlainSearch = &kPlain;

}  // namespace eoib
