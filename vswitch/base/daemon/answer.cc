#include "vswitch/base/daemon/answer.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/strip.h"

namespace eoib {

Answer::Answer(std::string message)
    : Answer([message] { return message; },
             [message] {
               return Json{{"message", std::string(absl::StripSuffix(message, "\n"))}};
             }) {}

Answer::Answer(const Json& json, std::function<std::string(const Json&)> render)
    : Answer([json, render = std::move(render)] { return render(json); }, [json] { return json; }) {
}

Answer::Answer(std::function<std::string()> text, std::function<Json()> json)
    : text_(std::move(text)), json_(std::move(json)) {}

Json Answer::ToJson() const { return json_(); }

std::string TextOf(const Json& object, absl::string_view key) {
  const auto found = object.find(std::string(key));
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

bool HasValue(const Json& object, absl::string_view key) {
  const auto found = object.find(std::string(key));
  if (found == object.end() || found->is_null()) return false;
  if (found->is_boolean()) return found->get<bool>();
  if (found->is_string()) return !found->get_ref<const std::string&>().empty();
  return !found->empty();
}

}  // namespace eoib
