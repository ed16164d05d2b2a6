#include "vswitch/fabric/softhca/subnet/lid_file.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "vswitch/base/file.h"
#include "vswitch/fabric/softhca/port_name.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"

namespace eoib::softhca {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(100);
constexpr absl::Duration kRetry = absl::Seconds(1);
constexpr size_t kMaxLidFileSize = 16 << 20;
constexpr char kHeading[] =
    "# LIDs and GUIDs of the ports of eoib-fabricd. To free those of a port that is no more, "
    "delete its line while\n"
    "# eoib-fabricd is stopped.\n";

}  // namespace

absl::StatusOr<std::unique_ptr<LidFile>> LidFile::Open(const std::string& directory) {
  absl::StatusOr<UniqueFd> lock = LockStateDirectory(directory);
  if (!lock.ok()) return lock.status();
  std::unique_ptr<LidFile> file(new LidFile(directory, *std::move(lock)));
  if (absl::Status status = file->Load(); !status.ok()) return status;
  return file;
}

absl::Status LidFile::Load() {
  const absl::StatusOr<std::string> text = ReadFile(path_, kMaxLidFileSize);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (!text.ok())
    return absl::Status(text.status().code(),
                        absl::StrCat("read ", path_, ": ", text.status().message()));
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (absl::Status status = ParseLine(std::string(line), ++number); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status LidFile::ParseLine(const std::string& line, int number) {
  const std::vector<std::string> fields =
      absl::StrSplit(line.substr(0, line.find('#')), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  if (fields.empty()) return absl::OkStatus();
  const auto mistake = [&](absl::string_view what) {
    return absl::DataLossError(
        absl::StrCat(path_, ":", number, ": ", what,
                     "; correct the file, or move it away to have all ports given new LIDs"));
  };
  if (fields.size() != 3) {
    return mistake(
        absl::StrCat("\"", absl::CHexEscape(line.substr(0, 80)), "\" is not NAME LID GUID"));
  }
  if (absl::Status status = CheckPortName(fields[0]); !status.ok())
    return mistake(status.message());
  const absl::StatusOr<Lid> lid = Lid::Parse(fields[1]);
  if (!lid.ok()) return mistake(lid.status().message());
  const absl::StatusOr<Guid> guid = Guid::Parse(fields[2]);
  if (!guid.ok()) return mistake(guid.status().message());
  if (*lid == ManagedSwitch::kDefaultLid)
    return mistake(absl::StrCat("LID ", lid->ToString(), " is the subnet manager's"));
  const KeptPort port{*lid, *guid};
  for (const auto& [name, other] : ports_) {
    if (name == fields[0] || other.lid == port.lid || other.guid == port.guid) {
      return mistake(
          absl::StrCat("port ", fields[0], " has the name, the LID or the GUID of port ", name));
    }
  }
  ports_[fields[0]] = port;
  return absl::OkStatus();
}

void LidFile::Keep(const std::string& name, const KeptPort& port) {
  ports_[name] = port;
  unsaved_ = true;
}

void LidFile::Run(absl::Time now) {
  if (!unsaved_ || now < next_run_) return;
  next_run_ = now + (Save().ok() ? kInterval : kRetry);
}

absl::Status LidFile::Save() {
  if (!unsaved_) return absl::OkStatus();
  status_ = ReplaceFile(path_, Text(), /*sync=*/false);
  unsaved_ = !status_.ok();
  return status_;
}

std::string LidFile::Text() const {
  std::string text = kHeading;
  for (const auto& [name, port] : ports_) {
    absl::StrAppend(&text, name, " ", port.lid.ToString(), " ", port.guid.ToString(), "\n");
  }
  return text;
}

}  // namespace eoib::softhca
