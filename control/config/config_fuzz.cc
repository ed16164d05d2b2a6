// Fuzzes the configuration: no crash, the same result from a file, and an accepted configuration
// satisfies config.h.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "control/config/config.h"
#include "vswitch/base/check.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib {
namespace {

void CheckAccepted(const AgentConfig& config) {
  EOIB_CHECK(!config.veses.empty());
  std::set<std::string> veses, vports;
  std::set<uint16_t> partitions;
  for (const VesConfig& ves : config.veses) {
    EOIB_CHECK(!ves.name.empty() && veses.insert(ves.name).second);
    EOIB_CHECK(ves.pkey.IsValid() && partitions.insert(ves.pkey.base()).second);
    EOIB_CHECK(!ves.group.mtu.has_value() || MtuCode(*ves.group.mtu) != 0);
    EOIB_CHECK((ves.group_fwd_mask & kPauseGroupBit) == 0);
    EOIB_CHECK(!ves.vlans.empty() && (!ves.qkey.has_value() || ves.qkey->IsControlled()));
  }
  for (const VPortConfig& vport : config.vports) {
    EOIB_CHECK(!vport.name.empty() && vport.name.size() <= 15 && vports.insert(vport.name).second);
    EOIB_CHECK(veses.count(vport.ves) == 1);
    EOIB_CHECK((vport.kind == &kNetdevVPort) == !vport.netdev.empty());
    EOIB_CHECK((vport.kind == &kVhostVPort) == !vport.socket.empty());
    EOIB_CHECK(!vport.mac.has_value() || (!vport.mac->IsGroup() && !vport.mac->IsZero()));
    EOIB_CHECK(!vport.mtu.has_value() || (*vport.mtu >= 68 && *vport.mtu <= 9000));
    EOIB_CHECK(vport.vlan.Untagged().IsValid() && !vport.vlan.trunk_vlans.empty());
  }
}

// Parses the text from a temporary file.
absl::StatusOr<AgentConfig> ParseFile(absl::string_view text, std::string* path) {
  const UniqueFd file(memfd_create("fuzz", MFD_CLOEXEC));
  EOIB_CHECK(write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  *path = absl::StrCat("/proc/self/fd/", file.get());
  return LoadConfig(*path);
}

}  // namespace
}  // namespace eoib

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  std::string path;
  const auto loaded = eoib::ParseFile(text, &path);
  EOIB_CHECK(eoib::LoadConfig(path).status().code() == absl::StatusCode::kNotFound);
  const auto parsed = eoib::ParseConfig(text, path);
  // The reader of files refuses UTF-16 by name, which is no TOML to the parser, and takes off one
  // byte order mark.
  const bool is_utf16 = absl::StartsWith(text, "\xff\xfe") || absl::StartsWith(text, "\xfe\xff");
  if (is_utf16) {
    EOIB_CHECK(!loaded.ok() && !parsed.ok());
  } else {
    EOIB_CHECK(loaded.status() ==
               eoib::ParseConfig(absl::StripPrefix(text, "\xef\xbb\xbf"), path).status());
  }
  if (parsed.ok()) {
    eoib::CheckAccepted(*parsed);
  } else {
    EOIB_CHECK(absl::StartsWith(parsed.status().message(), path + ":"));
  }
  return 0;
}
