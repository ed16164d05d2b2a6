// Answer: what a command answers: text for a person, and JSON for a program (`eoibctl -j`). The
// text is made from the JSON, or both from one list of rows, so they cannot differ.
// control/operator/schema/ describes the JSON of each command.
#ifndef EOIB_VSWITCH_BASE_DAEMON_ANSWER_H_
#define EOIB_VSWITCH_BASE_DAEMON_ANSWER_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace eoib {

// Keeps the order of its keys, so an answer reads as it was written.
using Json = nlohmann::ordered_json;

class Answer {
 public:
  // A message; its JSON is {"message": "..."}. Implicit, because most commands that change
  // something answer so.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Answer(std::string message);
  // NOLINTNEXTLINE(google-explicit-constructor)
  Answer(const char* message) : Answer(std::string(message)) {}
  // `json`, and the function that makes text of it.
  Answer(const Json& json, std::function<std::string(const Json&)> render);
  // For long lists: only the form that the client wants is made, from rows that both functions
  // share.
  Answer(std::function<std::string()> text, std::function<Json()> json);

  std::string Text() const { return text_(); }
  Json ToJson() const;

 private:
  std::function<std::string()> text_;
  std::function<Json()> json_;
};

// For renderers: the value of a key of an object, as text: a string without its quotes, a number,
// true, false. Empty if the object lacks the key or the value is null.
std::string TextOf(const Json& object, absl::string_view key);
// Whether the key has a value that is neither null, false, "", [] nor {}.
bool HasValue(const Json& object, absl::string_view key);

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_ANSWER_H_
