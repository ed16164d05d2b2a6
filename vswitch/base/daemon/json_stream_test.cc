#include "vswitch/base/daemon/json_stream.h"

#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// All objects that `stream` has now; an error is appended as its message.
std::vector<std::string> Drain(JsonStream* stream) {
  std::vector<std::string> objects;
  while (true) {
    const auto object = stream->Next();
    if (!object.ok()) objects.push_back(std::string(object.status().message()));
    if (!object.ok() || !object->has_value()) return objects;
    objects.push_back(**object);
  }
}

TEST(JsonStreamTest, CutsObjects) {
  const struct {
    const char* description;
    const char* text;
    std::vector<std::string> expected;
  } kCases[] = {
      {"nothing", "", {}},
      {"white space only", " \n\t\r ", {}},
      {"one", "{}", {"{}"}},
      {"two without anything between", R"({"a":1}{"b":2})", {R"({"a":1})", R"({"b":2})"}},
      {"two with white space around", " {} \n {} ", {"{}", "{}"}},
      {"nested", R"({"a":{"b":[1,{"c":2}]}}{})", {R"({"a":{"b":[1,{"c":2}]}})", "{}"}},
      {"brackets in a string", R"({"a":"}]{["}{})", {R"({"a":"}]{["})", "{}"}},
      {"an escaped quote", R"({"a":"\"}"}{})", {R"({"a":"\"}"})", "{}"}},
      {"an escaped backslash before the quote", R"({"a":"\\"}{})", {R"({"a":"\\"})", "{}"}},
      {"brackets that do not match are the parser's matter", R"({"a":[}})", {R"({"a":[}})"}},
      {"one and the beginning of another", R"({}{"a")", {"{}"}},
  };
  for (const auto& c : kCases) {
    JsonStream stream(1000);
    stream.Append(c.text);
    EXPECT_EQ(c.expected, Drain(&stream)) << c.description;
  }
}

TEST(JsonStreamTest, CutsTheSameForAnyPartitionOfTheBytes) {
  const std::string text = R"( {"method":"a\"}b","params":["{","\\"],"id":0} {}{"x":[[]]} )";
  JsonStream whole(1000);
  whole.Append(text);
  const std::vector<std::string> expected = Drain(&whole);
  ASSERT_EQ(3u, expected.size());
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    JsonStream stream(1000);
    std::vector<std::string> objects;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % 8;
      stream.Append(absl::string_view(text).substr(at, size));
      at += size;
      for (std::string& object : Drain(&stream)) objects.push_back(std::move(object));
    }
    EXPECT_EQ(expected, objects) << "round " << round;
  }
}

TEST(JsonStreamTest, ErrorForWhatIsNoObjectIsFinal) {
  for (const char* text : {"x", "1", "[1]", "\"{}\"", "}", "null{}"}) {
    JsonStream stream(1000);
    stream.Append(text);
    EXPECT_THAT(Drain(&stream),
                ElementsAre(HasSubstr("a message is a JSON object and begins with '{', not with")))
        << text;
    stream.Append("{}");
    EXPECT_FALSE(stream.Next().ok()) << text;
  }
}

TEST(JsonStreamTest, BoundsTheLengthOfOneObjectButNotOfAll) {
  JsonStream stream(10);
  for (int i = 0; i < 100; ++i) {
    stream.Append(R"({"a":"bc"})");
    EXPECT_THAT(Drain(&stream), ElementsAre(R"({"a":"bc"})"));
  }
  stream.Append(R"({"a":"bcd")");
  EXPECT_THAT(Drain(&stream), ElementsAre());
  stream.Append("}");
  EXPECT_EQ(absl::StatusCode::kResourceExhausted, stream.Next().status().code());
}

TEST(JsonStreamTest, BoundsTheDepth) {
  const std::string at_limit = absl::StrCat("{\"a\":", std::string(JsonStream::kMaxDepth - 1, '['),
                                            std::string(JsonStream::kMaxDepth - 1, ']'), "}");
  JsonStream stream(1000);
  stream.Append(at_limit);
  EXPECT_THAT(Drain(&stream), ElementsAre(at_limit));
  stream.Append(absl::StrCat("{\"a\":", std::string(JsonStream::kMaxDepth, '[')));
  EXPECT_THAT(Drain(&stream), ElementsAre("a message is nested at most 16 deep"));
}

}  // namespace
}  // namespace eoib
