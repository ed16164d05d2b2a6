#include <map>
#include <string>

#include "absl/strings/str_cat.h"

// After everything else.
#include "control/config/config_reader.h"
#include "control/config/netdev_config.h"

namespace eoib {
namespace {

constexpr char kNetdevHint[] =
    "it is the name of an interface of this host, such as \"eth1\": at most 15 bytes";

}  // namespace

void ReadNetdev(const TableReader& reader, VPortConfig* vport) {
  if (vport->kind != &kNetdevVPort) return;
  if (const auto name = reader.String("netdev", kNetdevHint)) {
    vport->netdev = *name;
    if (!IsNetdevName(*name)) reader.Wrong("netdev", kNetdevHint);
  }
}

void CheckNetdevsDiffer(const std::vector<VPortConfig>& vports, Mistakes* mistakes) {
  std::map<std::string, const VPortConfig*> first, taps;
  for (const VPortConfig& vport : vports) {
    if (vport.kind == &kTapVPort) taps.emplace(vport.name, &vport);
  }
  for (const VPortConfig& vport : vports) {
    if (vport.netdev.empty()) continue;
    const auto mistake = [&](const VPortConfig& other, absl::string_view of,
                             absl::string_view advice) {
      mistakes->Add(vport.line,
                    absl::StrCat("netdev ", Quote(vport.netdev), " of vPort ", Quote(vport.name),
                                 " is ", of, " vPort ", Quote(other.name), " on ",
                                 mistakes->Mention(other.line), "; ", advice));
    };
    const auto [before, fresh] = first.emplace(vport.netdev, &vport);
    if (!fresh)
      mistake(*before->second, "also that of",
              "each frame would enter twice: one vPort can be a trunk of several VLANs");
    const auto tap = taps.find(vport.netdev);
    if (tap != taps.end())
      mistake(*tap->second, "the TAP of", "give one of the two vPorts another name, or remove it");
  }
}

}  // namespace eoib
