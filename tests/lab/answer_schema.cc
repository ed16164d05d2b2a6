#include "tests/lab/answer_schema.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/base/check.h"

namespace eoib::lab {

using nlohmann::json;
using valijson::adapters::NlohmannJsonAdapter;

struct AnswerSchema::Parsed {
  json text;
  valijson::Schema schema;
};

// The merged files are one schema, of an object with an answer for each command.
AnswerSchema::AnswerSchema(const std::vector<std::string>& names)
    : parsed_(std::make_unique<Parsed>()) {
  json& text = parsed_->text;
  text = {{"type", "object"},
          {"additionalProperties", false},
          {"definitions", json::object()},
          {"properties", json::object()}};
  for (const std::string& name : names) {
    std::ifstream file(absl::StrCat(EOIB_SCHEMAS, "/", name, ".json"));
    const json part = json::parse(file, nullptr, false);
    EOIB_CHECK(part.is_object());
    if (part.contains("definitions")) text["definitions"].update(part["definitions"]);
    text["properties"].update(part["properties"]);
    for (const auto& [command, schema] : part["properties"].items()) commands_.insert(command);
  }
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(NlohmannJsonAdapter(text), parsed_->schema);
}

AnswerSchema::~AnswerSchema() = default;

std::string AnswerSchema::Violations(const std::string& command, const json& answer) const {
  const json document = {{command, answer}};
  valijson::ValidationResults results;
  valijson::Validator validator;
  if (validator.validate(parsed_->schema, NlohmannJsonAdapter(document), &results)) return "";
  std::string text;
  for (valijson::ValidationResults::Error error; results.popError(error);) {
    absl::StrAppend(&text, absl::StrJoin(error.context, ""), ": ", error.description, "\n");
  }
  return text;
}

}  // namespace eoib::lab
