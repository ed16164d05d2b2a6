// AnswerSchema: the JSON Schemas of all commands (control/operator/schema).
#ifndef EOIB_TESTS_LAB_ANSWER_SCHEMA_H_
#define EOIB_TESTS_LAB_ANSWER_SCHEMA_H_

#include <memory>
#include <string>

#include "nlohmann/json_fwd.hpp"

namespace eoib::lab {

class AnswerSchema {
 public:
  // Of all files together. CHECKs that they are schemas, and that no two definitions have one name.
  AnswerSchema();
  ~AnswerSchema();

  // Why the answer does not fit the definition of that name; empty: it fits.
  std::string Violations(const std::string& definition, const nlohmann::json& answer) const;

 private:
  struct Parsed;

  std::unique_ptr<Parsed> parsed_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_ANSWER_SCHEMA_H_
