// AnswerSchema: the JSON Schemas of a program's commands (control/operator/schema).
#ifndef EOIB_TESTS_LAB_ANSWER_SCHEMA_H_
#define EOIB_TESTS_LAB_ANSWER_SCHEMA_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace eoib::lab {

class AnswerSchema {
 public:
  // Of the files NAME.json together. CHECKs that they are schemas.
  explicit AnswerSchema(const std::vector<std::string>& names);
  ~AnswerSchema();

  const std::set<std::string>& commands() const { return commands_; }
  // Why the answer to `command` does not fit; empty: it fits.
  std::string Violations(const std::string& command, const nlohmann::json& answer) const;

 private:
  struct Parsed;

  std::set<std::string> commands_;
  std::unique_ptr<Parsed> parsed_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_ANSWER_SCHEMA_H_
