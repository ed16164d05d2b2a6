#include <sys/un.h>

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

// After everything else.
#include "control/config/config_reader.h"
#include "control/config/vhost_config.h"

namespace eoib {
namespace {

constexpr char kSocketHint[] =
    "it is the path of a socket, such as \"/run/eoib/vm1.sock\": absolute, and at most 107 bytes";

bool IsSocketPath(const std::string& path) {
  return path.size() > 1 && path.front() == '/' && path.back() != '/' &&
         path.size() < sizeof(sockaddr_un::sun_path) &&
         std::none_of(path.begin(), path.end(),
                      [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}

}  // namespace

void ReadVhost(const TableReader& reader, VPortConfig* vport) {
  if (vport->kind != &kVhostVPort) return;
  if (const auto path = reader.String("socket", kSocketHint)) {
    vport->socket = *path;
    if (!IsSocketPath(*path)) reader.Wrong("socket", kSocketHint);
  }
  vport->connects = reader.OneOf("socket_mode", {"server", "client"}) == 1u;
}

void CheckSocketsDiffer(const std::vector<VPortConfig>& vports, Mistakes* mistakes) {
  std::map<std::string, const VPortConfig*> first;
  for (const VPortConfig& vport : vports) {
    if (vport.socket.empty()) continue;
    const auto [before, fresh] = first.emplace(vport.socket, &vport);
    if (fresh) continue;
    mistakes->Add(
        vport.line,
        absl::StrCat(
            "socket ", Quote(vport.socket), " of vPort ", Quote(vport.name),
            " is also that of vPort ", Quote(before->second->name), " on ",
            mistakes->Mention(before->second->line),
            "; an interface of a virtual machine has one vPort: give each its own socket"));
  }
}

}  // namespace eoib
