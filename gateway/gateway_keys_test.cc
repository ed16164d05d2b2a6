// The keys of [[gateway]] and [[uplink]] in the documents.
#include <string>
#include <vector>

#include "control/config/key_documents_for_test.h"
#include "gateway/translation/gateway_config.h"
#include "gateway/uplink/uplink_config.h"
#include "gtest/gtest.h"

namespace eoib::gateway {
namespace {

const std::vector<KeyRow>& GatewayRows() {
  static const std::vector<KeyRow> rows = {EOIB_GATEWAY_KEYS(EOIB_KEY_ROW)};
  return rows;
}
const std::vector<KeyRow>& UplinkRows() {
  static const std::vector<KeyRow> rows = {EOIB_UPLINK_KEYS(EOIB_KEY_ROW)};
  return rows;
}

constexpr KeyTable kTables[] = {
    {"gateway",
     GatewayRows,
     {"man/eoib-gateway.toml.5", ".SS Of [[gateway]]", ".SS"},
     {"../gateway/README.md", "| Key of `[[gateway]]` | Default | |", "[Commands]"},
     "eoib-gateway.toml"},
    {"uplink",
     UplinkRows,
     {"man/eoib-gateway.toml.5", ".SS Of [[uplink]]", ".SH"},
     {"../gateway/uplink/README.md", "| Key of `[[uplink]]` | Default | |", "`ves`, `netdev`"},
     "eoib-gateway.toml"}};

class GatewayKeysTest : public testing::TestWithParam<KeyTable> {};

TEST_P(GatewayKeysTest, TheManPageHasTheRows) { CheckManPage(GetParam()); }
TEST_P(GatewayKeysTest, TheManualHasTheRows) { CheckManual(GetParam()); }
TEST_P(GatewayKeysTest, TheExampleHasTheKeys) { CheckExample(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Tables, GatewayKeysTest, testing::ValuesIn(kTables),
                         [](const auto& table) { return std::string(table.param.name); });

}  // namespace
}  // namespace eoib::gateway
