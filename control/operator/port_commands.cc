#include "control/operator/port_commands.h"

#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/counter_text.h"
#include "vswitch/fabric/roce_gid.h"

namespace eoib {
namespace {

Json CaptureJson(const CaptureReport& capture) {
  Json json = {{"path", capture.path}, {"packets", capture.packets}, {"missed", capture.missed}};
  if (!capture.status.ok()) json["error"] = std::string(capture.status.message());
  if (capture.full) json["full"] = true;
  return json;
}

// "20 packets, 0 missed"
std::string Counts(const Json& capture) {
  return absl::StrCat(TextOf(capture, "packets"), " packets, ", TextOf(capture, "missed"),
                      " missed");
}

Json HcaJson(Hca* hca) {
  Json json = {{"name", hca->name()}, {"active", false}};
  const absl::StatusOr<HcaPortInfo> port = hca->QueryPort();
  json["state"] = !port.ok()     ? std::string(port.status().message())
                  : port->active ? "active"
                                 : PortTrouble(*port);
  if (!port.ok()) return json;
  json["active"] = port->active;
  json["link_layer"] = port->ethernet_link_layer ? "ethernet" : "infiniband";
  if (port->ethernet_link_layer) {
    const absl::StatusOr<ibv_gid_entry> gid = hca->QueryGidEntry();
    json["gid"] =
        gid.ok() ? RoceGid::FromEntry(*gid).ToString() : std::string(gid.status().message());
  } else {
    json["lid"] = port->lid.ToString();
    json["sm_lid"] = port->sm_lid.ToString();
    json["gid"] = port->gid.ToString();
  }
  json["mtu"] = MtuBytes(port->mtu);
  if (const absl::Status subnet = hca->SubnetStatus(); !subnet.ok())
    json["subnet"] = std::string(subnet.message());
  return json;
}

Answer HcaCounters(Hca* hca) {
  Json counters = Json::array();
  for (const Hca::PortCounter& counter : hca->PortCounters()) {
    counters.push_back(ExplainedCounter(counter.name, counter.value, counter.help));
  }
  return Answer({{"hca", hca->name()}, {"counters", std::move(counters)}}, [](const Json& json) {
    return absl::StrCat("HCA ", TextOf(json, "hca"), "\n",
                        ExplainedText(json["counters"], {22, 12}));
  });
}

absl::StatusOr<std::string> StartCapture(Hca* hca, const CaptureArguments& arguments) {
  const std::string& path = arguments.options.path;
  // A capture creates its file, so that it follows no link that somebody else has put there.
  // --force removes only a regular file.
  struct stat existing;
  if (arguments.overwrite && lstat(path.c_str(), &existing) == 0 && S_ISREG(existing.st_mode))
    unlink(path.c_str());
  if (absl::Status status = hca->StartCapture(arguments.options); !status.ok()) return status;
  const std::string note = hca->CaptureNote();
  return absl::StrCat("capturing to ", path, "\n", note, note.empty() ? "" : "\n");
}

absl::StatusOr<CaptureReport> StopCaptureTo(const std::string& path, Hca* hca) {
  const absl::optional<CaptureReport> running = hca->Capture();
  if (!running.has_value() || running->path == path) return hca->StopCapture();
  return absl::FailedPreconditionError(absl::StrCat(
      "stop the capture to ", path, ": it has ended; another one goes to ", running->path));
}

absl::StatusOr<Answer> StopCapture(Hca* hca, const CommandRegistry::Arguments& arguments) {
  const absl::StatusOr<CaptureReport> report =
      arguments.empty() ? hca->StopCapture() : StopCaptureTo(arguments[0], hca);
  if (!report.ok()) return report.status();
  return Answer(CaptureJson(*report), [](const Json& capture) {
    return absl::StrCat("stopped: ", Counts(capture), " in ", TextOf(capture, "path"), "\n");
  });
}

}  // namespace

Json PortJson(const FabricPort& port) {
  Hca* const hca = port.resources().hca;
  Json json = {{"hca", HcaJson(hca)}};
  if (!port.lost().empty()) json["lost"] = port.lost();
  if (const absl::optional<CaptureReport> capture = hca->Capture())
    json["capture"] = CaptureJson(*capture);
  if (port.subscriptions() != nullptr) json["notices"] = port.subscriptions()->Show();
  return json;
}

std::string PortText(const Json& shown) {
  const Json& hca = shown["hca"];
  std::string text = absl::StrCat("HCA ", TextOf(hca, "name"), ": ", TextOf(hca, "state"));
  if (HasValue(hca, "lid"))
    absl::StrAppend(&text, ", LID ", TextOf(hca, "lid"), ", SM LID ", TextOf(hca, "sm_lid"),
                    ", GID");
  if (HasValue(hca, "gid"))
    absl::StrAppend(&text, HasValue(hca, "lid") ? " " : ", ", TextOf(hca, "gid"));
  if (HasValue(hca, "mtu")) absl::StrAppend(&text, ", MTU ", TextOf(hca, "mtu"));
  text += "\n";
  if (HasValue(hca, "subnet")) {
    absl::StrAppend(&text, "subnet: ", TextOf(hca, "subnet"),
                    "; known peers are reached, but nothing new can be joined\n");
  }
  if (HasValue(shown, "lost")) absl::StrAppend(&text, "lost: ", TextOf(shown, "lost"), "\n");
  if (HasValue(shown, "capture")) {
    const Json& capture = shown["capture"];
    absl::StrAppend(&text, "capture to ", TextOf(capture, "path"), ": ", Counts(capture), "\n");
    if (HasValue(capture, "error"))
      absl::StrAppend(&text, "  ended: ", TextOf(capture, "error"), "\n");
    if (HasValue(capture, "full"))
      absl::StrAppend(&text, "  ended: its file has reached the limit\n");
  }
  if (HasValue(shown, "notices"))
    absl::StrAppend(&text, "notices of the subnet: ", TextOf(shown, "notices"), "\n");
  return text;
}

absl::StatusOr<CaptureFilter::VPort> FindNoVPort(const std::string&) {
  return absl::NotFoundError("this program has no vPorts");
}

void RegisterPortCommands(FabricPort* port, const VPortFilterFinder& vports,
                          CommandRegistry* registry) {
  using Arguments = CommandRegistry::Arguments;
  using enum CommandRegistry::Access;
  registry->Register({
      {"hca", "", "counters of the HCA port", kReadOnly, "hca",
       [port](const Arguments&) { return HcaCounters(port->resources().hca); }},
      {"capture/start", kCaptureUsage, "write the packets of the HCA port to a capture for tshark",
       kReadWrite, "message",
       [port, vports](const Arguments& arguments) -> absl::StatusOr<Answer> {
         const absl::StatusOr<CaptureArguments> parsed = ParseCaptureArguments(arguments, vports);
         if (!parsed.ok()) return parsed.status();
         return StartCapture(port->resources().hca, *parsed);
       }},
      {"capture/stop", "[PATH]", "end the capture; with PATH only if it goes there", kReadWrite,
       "capture",
       [port](const Arguments& arguments) {
         return StopCapture(port->resources().hca, arguments);
       }},
  });
}

}  // namespace eoib
