#include "control/protocol/state_parts.h"

#include <algorithm>
#include <utility>

namespace eoib {
namespace {

// Whether the part has only elements in its range, and nothing that a state does not have.
bool IsProper(const VPortMessage& part) {
  if (!part.gone_addresses.empty() || !part.gone_vports.empty() || !part.gone_macs.empty())
    return false;
  const StateRange& range = part.ranges.front();
  const bool has_agent = part.capabilities || !part.host.empty() || !part.addresses.empty();
  return (!has_agent || range.first == StateRange::kAgent) &&
         std::all_of(part.vports.begin(), part.vports.end(),
                     [&](const auto& vport) { return range.Contains(StateRange::Of(vport.id)); }) &&
         std::all_of(part.macs.begin(), part.macs.end(),
                     [&](const auto& mac) { return range.Contains(StateRange::Of(mac.key)); });
}

// The first vPort and the first MAC of a view at a position or behind it.
auto VPortFrom(uint64_t position, const AgentView& view) {
  constexpr uint64_t kFirst = StateRange::Of(uint16_t{0}), kLast = StateRange::Of(uint16_t{0xffff});
  if (position > kLast) return view.vports.end();
  return view.vports.lower_bound(static_cast<uint16_t>(std::max(position, kFirst) - kFirst));
}
auto MacFrom(uint64_t position, const AgentView& view) {
  constexpr uint64_t kFirst = StateRange::Of(FdbKey());
  return view.macs.lower_bound(FdbKey::FromPacked(std::max(position, kFirst) - kFirst));
}

}  // namespace

VPortMessage CutPart(const AgentView& view, StateRange wanted, VPortMessage header,
                     size_t largest) {
  header.ranges = {wanted};
  if (wanted.first == StateRange::kAgent) {
    header.capabilities = view.capabilities;
    header.host = view.host;
    for (const auto& [peer, receives_groups] : view.addresses)
      header.addresses.push_back({peer, receives_groups});
  }
  // Whether the part has room for one more element; else it ends before it.
  size_t size = EncodedSize(header) + VPortMessage::kListHeaderSize;
  const auto add = [&](uint64_t position, size_t bytes) {
    if (size + bytes > largest) {
      header.ranges.front().last = position - 1;
      return false;
    }
    size += bytes;
    return true;
  };
  for (auto at = VPortFrom(wanted.first, view); at != view.vports.end(); ++at) {
    const uint64_t position = StateRange::Of(at->first);
    if (position > wanted.last) break;
    if (!add(position, EncodedSize(at->second))) return header;
    header.vports.push_back(at->second);
  }
  for (auto at = MacFrom(wanted.first, view); at != view.macs.end(); ++at) {
    const uint64_t position = StateRange::Of(at->first);
    if (position > wanted.last) break;
    if (!add(position, VPortMessage::kMacSize)) return header;
    header.macs.push_back(AgentView::ToAnnounced(at->first, at->second));
  }
  return header;
}

bool StateAssembly::Take(const VPortMessage& part) {
  if (part.ranges.size() != 1 || !IsProper(part)) return false;
  auto [first, last] = part.ranges.front();
  // The ranges that overlap or adjoin this one become one with it.
  auto at = covered_.upper_bound(first);
  if (at != covered_.begin() &&
      (std::prev(at)->second >= first || std::prev(at)->second + 1 == first))
    --at;
  if (at != covered_.end() && at->first <= first && at->second >= last) return false;
  auto end = at;
  while (end != covered_.end() && (end->first <= last || end->first - 1 == last)) {
    first = std::min(first, end->first);
    last = std::max(last, end->second);
    ++end;
  }
  if (at == end && covered_.size() >= kMaxGaps) return false;
  version_ = empty() ? part.version : std::min(version_, part.version);
  covered_.erase(at, end);
  covered_[first] = last;
  view_.Apply(part);
  return true;
}

std::vector<StateRange> StateAssembly::Missing(size_t most) const {
  std::vector<StateRange> missing;
  uint64_t next = StateRange::kAgent;
  for (const auto& [first, last] : covered_) {
    if (missing.size() == most) return missing;
    if (next < first) missing.push_back({next, first - 1});
    if (last == StateRange::kLast) return missing;
    next = last + 1;
  }
  if (missing.size() < most) missing.push_back({next, StateRange::kLast});
  return missing;
}

AgentView StateAssembly::Release() {
  AgentView view = std::exchange(view_, AgentView());
  view.version = version_;
  covered_.clear();
  return view;
}

}  // namespace eoib
