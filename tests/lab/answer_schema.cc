#include "tests/lab/answer_schema.h"

#include <filesystem>
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

// One schema, of an object with a property for each definition.
AnswerSchema::AnswerSchema() : parsed_(std::make_unique<Parsed>()) {
  json& text = parsed_->text;
  text = {{"type", "object"}, {"additionalProperties", false}};
  for (const auto& entry : std::filesystem::directory_iterator(EOIB_SCHEMAS)) {
    if (entry.path().extension() != ".json") continue;
    const json part = json::parse(std::ifstream(entry.path()), nullptr, false);
    EOIB_CHECK(part.is_object());
    for (const auto& [name, schema] : part["definitions"].items()) {
      EOIB_CHECK(!text["definitions"].contains(name));
      text["definitions"][name] = schema;
      text["properties"][name] = {{"$ref", absl::StrCat("#/definitions/", name)}};
    }
  }
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(NlohmannJsonAdapter(text), parsed_->schema);
}

AnswerSchema::~AnswerSchema() = default;

std::string AnswerSchema::Violations(const std::string& definition, const json& answer) const {
  const json document = {{definition, answer}};
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
