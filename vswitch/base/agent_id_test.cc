#include "vswitch/base/agent_id.h"

#include <gtest/gtest.h>

namespace eoib {
namespace {

constexpr AgentId kId(AgentId::Bytes{0x2f, 0x1c, 0x4e, 0x0a, 0x93, 0xb7, 0x4d, 0x55, 0x8e, 0x21,
                                     0x0c, 0x6f, 0x5a, 0xb1, 0xd3, 0xe9});

TEST(AgentIdTest, PrintsTheFormOfAUuid) {
  EXPECT_EQ(kId.ToString(), "2f1c4e0a-93b7-4d55-8e21-0c6f5ab1d3e9");
  EXPECT_EQ(kId.ToShortString(), "2f1c4e0a");
}

TEST(AgentIdTest, ParsesWithAndWithoutHyphens) {
  for (const char* text :
       {"2f1c4e0a-93b7-4d55-8e21-0c6f5ab1d3e9", "2F1C4E0A93B74D558E210C6F5AB1D3E9"}) {
    const auto id = AgentId::Parse(text);
    ASSERT_TRUE(id.ok()) << id.status();
    EXPECT_EQ(*id, kId);
  }
}

TEST(AgentIdTest, RefusesOtherTexts) {
  for (const char* text :
       {"", "2f1c4e0a", "2f1c4e0a-93b7-4d55-8e21-0c6f5ab1d3e",
        "2f1c4e0a-93b7-4d55-8e21-0c6f5ab1d3e9a", "2g1c4e0a-93b7-4d55-8e21-0c6f5ab1d3e9",
        "00000000-0000-0000-0000-000000000000"}) {
    EXPECT_EQ(AgentId::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(AgentIdTest, OrderIsThatOfTheText) {
  EXPECT_LT(*AgentId::Parse("00000000-0000-0000-0000-0000000000ff"),
            *AgentId::Parse("00000000-0000-0000-0000-000000000100"));
}

}  // namespace
}  // namespace eoib
