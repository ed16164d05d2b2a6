#include "vswitch/fabric/softhca/fabricd/fault_commands.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "vswitch/base/daemon/counter_text.h"

namespace eoib::softhca {
namespace {

using Arguments = CommandRegistry::Arguments;
using Result = absl::StatusOr<Answer>;

template <typename Integer>
absl::Status ParseNumber(const std::string& word, const std::string& value, Integer* number) {
  if (absl::SimpleAtoi(value, number)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "fault: ", word, " ", value, ": must be a number; parts are of a million, 10000 is 1 %"));
}

absl::Status ParseDelay(const std::string& value, absl::Duration* delay) {
  if (absl::ParseDuration(value, delay)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("fault: delay ", value, ": must be a duration, such as 2ms"));
}

absl::Status ParseOption(const std::string& word, const std::string& value, FaultRule* rule) {
  if (word == "loss") return ParseNumber(word, value, &rule->loss_ppm);
  if (word == "duplicate") return ParseNumber(word, value, &rule->duplicate_ppm);
  if (word == "reorder") return ParseNumber(word, value, &rule->reorder_ppm);
  if (word == "delay") return ParseDelay(value, &rule->delay);
  if (word == "seed") return ParseNumber(word, value, &rule->seed);
  return absl::InvalidArgumentError(
      absl::StrCat("fault: ", word, ": must be loss, duplicate, reorder, delay or seed"));
}

Json ConservationJson(const Conservation& conservation) {
  Json rows = Json::array();
  const auto add = [&rows](const char* name, auto value, const char* help) {
    rows.push_back({{"name", name}, {"count", value}, {"explanation", help}});
  };
  add("copies", conservation.copies, "of datagrams that all ports posted, and that receivers made");
  add("delivered", conservation.delivered, "receives completed");
  add("dropped", conservation.dropped, "for a reason that a port counts");
  add("sending", conservation.sending, "in queues of senders now");
  add("in_rings", conservation.in_rings, "now");
  add("receiving", conservation.receiving, "in queues of receivers now");
  add("died", conservation.died, "in queues of ports whose processes ended");
  add("joint_deaths", conservation.joint_deaths,
      "processes that died while another port had none: in_rings keeps what was between them");
  return rows;
}

Json PortJson(const std::string& name, const SoftPortCounters& counters) {
  return {{"name", name}, {"counters", ExplainedCounters(counters)}};
}

std::string CountersText(const Json& answer) {
  constexpr CounterWidths kWidths = {26, 12};
  std::string text;
  for (const Json& port : answer["ports"]) {
    absl::StrAppend(&text, TextOf(port, "name"), "\n", ExplainedText(port["counters"], kWidths));
  }
  if (!answer.contains("conservation")) return text;
  return absl::StrCat(text, "conservation\n", ExplainedText(answer["conservation"], kWidths));
}

}  // namespace

absl::StatusOr<Fault> ParseFault(absl::Span<const std::string> words) {
  if (words.size() < 2)
    return absl::InvalidArgumentError("fault: must name a source and a destination");
  Fault fault{words[0], words[1], FaultRule()};
  for (size_t i = 2; i < words.size(); i += 2) {
    if (i + 1 == words.size())
      return absl::InvalidArgumentError(absl::StrCat("fault: ", words[i], ": needs a value"));
    if (absl::Status status = ParseOption(words[i], words[i + 1], &fault.rule); !status.ok())
      return status;
  }
  return fault;
}

std::string FormatFault(const Fault& fault) {
  const FaultRule& rule = fault.rule;
  std::string text = absl::StrCat(fault.source, " ", fault.destination);
  if (rule.loss_ppm != 0) absl::StrAppend(&text, " loss ", rule.loss_ppm);
  if (rule.duplicate_ppm != 0) absl::StrAppend(&text, " duplicate ", rule.duplicate_ppm);
  if (rule.reorder_ppm != 0) absl::StrAppend(&text, " reorder ", rule.reorder_ppm);
  if (rule.delay != absl::ZeroDuration())
    absl::StrAppend(&text, " delay ", absl::FormatDuration(rule.delay));
  if (rule.seed != FaultRule().seed) absl::StrAppend(&text, " seed ", rule.seed);
  return text;
}

namespace {

Result Set(const Arguments& arguments, Subnet* subnet) {
  const absl::StatusOr<Fault> fault = ParseFault(arguments);
  if (!fault.ok()) return fault.status();
  if (absl::Status status = subnet->SetFault(*fault); !status.ok()) return status;
  return "ok\n";
}

Result Show(Subnet* subnet) {
  Json faults = Json::array();
  for (const Fault& fault : subnet->Faults()) faults.push_back(FormatFault(fault));
  return Answer({{"faults", std::move(faults)}}, [](const Json& json) {
    std::string text;
    for (const Json& fault : json["faults"]) absl::StrAppend(&text, fault.get<std::string>(), "\n");
    return text;
  });
}

Result Clear(const Arguments& arguments, Subnet* subnet) {
  if (arguments.size() == 1)
    return absl::InvalidArgumentError(
        "fault/clear: must name a source and a destination, or nothing");
  if (arguments.empty()) {
    subnet->ClearFaults();
  } else if (absl::Status status = subnet->ClearFault(arguments[0], arguments[1]); !status.ok()) {
    return status;
  }
  return "ok\n";
}

Result Counters(const Arguments& arguments, Subnet* subnet) {
  Json json = {{"ports", Json::array()}};
  if (!arguments.empty()) {
    const std::string& name = arguments[0];
    const absl::optional<SoftPortCounters> counters = subnet->CountersOf(name);
    if (!counters.has_value()) {
      return absl::NotFoundError(
          absl::StrCat("counters of port ", name, ": no process has registered it"));
    }
    json["ports"].push_back(PortJson(name, *counters));
    return Answer(json, CountersText);
  }
  for (const Subnet::PortStatus& port : subnet->Ports()) {
    if (port.counters.has_value()) json["ports"].push_back(PortJson(port.name, *port.counters));
  }
  json["conservation"] = ConservationJson(subnet->GetConservation());
  return Answer(json, CountersText);
}

}  // namespace

void RegisterFaultCommands(Subnet* subnet, CommandRegistry* registry) {
  using enum CommandRegistry::Access;
  registry->Register({
      {"fault",
       "SOURCE|* DESTINATION|* [loss PPM] [duplicate PPM] [reorder PPM] [delay DURATION] [seed N]",
       "simulate faults on datagrams between two ports; replaces the rule with the same names",
       kReadWrite, "message",
       [subnet](const Arguments& arguments) { return Set(arguments, subnet); }},
      {"fault/show", "", "the faults that ports simulate", kReadOnly, "fault_show",
       [subnet](const Arguments&) { return Show(subnet); }},
      {"fault/clear", "[SOURCE DESTINATION]", "end the faults between two ports, or all",
       kReadWrite, "message",
       [subnet](const Arguments& arguments) { return Clear(arguments, subnet); }},
      {"counters", "[PORT]",
       "counters of ports, also of ended ones, and the conservation of datagrams", kReadOnly,
       "fabric_counters",
       [subnet](const Arguments& arguments) { return Counters(arguments, subnet); }},
  });
}

}  // namespace eoib::softhca
