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

struct LeftAlone {
  const char* key;
  const char* why;
};
constexpr LeftAlone kLeftAlone[] = {
    {"mac", "the netdev keeps its MAC (ip link set NETDEV address MAC)"},
    {"mtu", "the netdev keeps its MTU (ip link set NETDEV mtu BYTES)"},
    {"up", "the agent does not set the netdev up (ip link set NETDEV up)"},
    {"pin_mac", "the vPort has no MAC of its own; use static_macs for those behind it"},
};

}  // namespace

void ReadNetdev(const TableReader& reader, VPortConfig* vport) {
  if (vport->type != "netdev") {
    if (reader.Has("netdev"))
      reader.Mistake("netdev", "netdev is for type = \"netdev\"; add that, or remove netdev");
    return;
  }
  reader.Require("netdev", "\"eth1\", an interface of this host");
  if (const auto name = reader.String("netdev", kNetdevHint)) {
    vport->netdev = *name;
    if (!IsNetdevName(*name)) reader.Wrong("netdev", kNetdevHint);
  }
  for (const LeftAlone& one : kLeftAlone) {
    if (!reader.Has(one.key)) continue;
    reader.Mistake(
        one.key, absl::StrCat(one.key, " is not for type = \"netdev\": ", one.why, "; remove it"));
  }
}

void CheckNetdevsDiffer(const std::vector<VPortConfig>& vports, Mistakes* mistakes) {
  std::map<std::string, const VPortConfig*> first, taps;
  for (const VPortConfig& vport : vports) {
    if (vport.type == "tap") taps.emplace(vport.name, &vport);
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
