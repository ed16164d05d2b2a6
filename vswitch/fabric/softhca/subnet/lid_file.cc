#include "vswitch/fabric/softhca/subnet/lid_file.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "vswitch/base/atomic_file.h"
#include "vswitch/fabric/softhca/port_name.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"

namespace eoib::softhca {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(100);
constexpr absl::Duration kRetry = absl::Seconds(1);
constexpr char kHeading[] =
    "# LIDs and GUIDs of the ports of eoib-fabricd. To free those of a port that is no more, delete its line while\n"
    "# eoib-fabricd is stopped.\n";

absl::Status SystemError(const std::string& what) { return absl::ErrnoToStatus(errno, what); }

}  // namespace

absl::StatusOr<std::unique_ptr<LidFile>> LidFile::Open(const std::string& directory) {
  std::unique_ptr<LidFile> file(new LidFile(directory));
  if (absl::Status status = file->Lock(); !status.ok()) return status;
  if (absl::Status status = file->Load(); !status.ok()) return status;
  return file;
}

absl::Status LidFile::Lock() {
  lock_.reset(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock_.valid()) return SystemError("open state directory " + directory_);
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK) return SystemError("lock state directory " + directory_);
  return absl::AlreadyExistsError(absl::StrCat("lock state directory ", directory_,
                                               ": another eoib-fabricd uses it; stop that one, or give this one its own "
                                               "(--statedir)"));
}

absl::Status LidFile::Load() {
  errno = 0;
  std::ifstream file(path_);
  if (!file) return errno == ENOENT ? absl::OkStatus() : SystemError("read " + path_);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (absl::Status status = ParseLine(line, number); !status.ok()) return status;
  }
  return file.bad() ? SystemError("read " + path_) : absl::OkStatus();
}

absl::Status LidFile::ParseLine(const std::string& line, int number) {
  const std::vector<std::string> fields = absl::StrSplit(line.substr(0, line.find('#')), ' ', absl::SkipWhitespace());
  if (fields.empty()) return absl::OkStatus();
  const auto mistake = [&](absl::string_view what) {
    return absl::DataLossError(
        absl::StrCat(path_, ":", number, ": ", what, "; correct the file, or move it away to have all ports given new LIDs"));
  };
  if (fields.size() != 3) {
    return mistake(absl::StrCat("\"", absl::CHexEscape(line.substr(0, 80)), "\" is not NAME LID GUID"));
  }
  if (absl::Status status = CheckPortName(fields[0]); !status.ok()) return mistake(status.message());
  const absl::StatusOr<Lid> lid = Lid::Parse(fields[1]);
  if (!lid.ok()) return mistake(lid.status().message());
  const absl::StatusOr<Guid> guid = Guid::Parse(fields[2]);
  if (!guid.ok()) return mistake(guid.status().message());
  if (*lid == ManagedSwitch::kDefaultLid) return mistake(absl::StrCat("LID ", lid->ToString(), " is the subnet manager's"));
  const KeptPort port{*lid, *guid};
  for (const auto& [name, other] : ports_) {
    if (name == fields[0] || other.lid == port.lid || other.guid == port.guid) {
      return mistake(absl::StrCat("port ", fields[0], " has the name, the LID or the GUID of port ", name));
    }
  }
  ports_[fields[0]] = port;
  return absl::OkStatus();
}

LidFile::~LidFile() { Save().IgnoreError(); }

void LidFile::Keep(const std::string& name, const KeptPort& port) {
  ports_[name] = port;
  ++changes_;
}

void LidFile::StartWrite() {
  writing_ = changes_;
  // If no thread can be started, AwaitWrite does the write.
  write_ = std::async(std::launch::async | std::launch::deferred, ReplaceFile, path_, Text());
}

void LidFile::Run(absl::Time now) {
  if (!unsaved() || now < next_run_) return;
  next_run_ = now + kInterval;
  if (!writing()) return StartWrite();
  if (write_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout) return;
  AwaitWrite();
  if (!status_.ok()) {
    next_run_ = now + kRetry;
  } else if (unsaved()) {
    StartWrite();
  }
}

void LidFile::AwaitWrite() {
  status_ = write_.get();
  if (status_.ok()) saved_ = writing_;
}

absl::Status LidFile::Save() {
  if (writing()) AwaitWrite();
  if (unsaved()) {
    StartWrite();
    AwaitWrite();
  }
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
