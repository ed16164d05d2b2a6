#include "control/protocol/mac_claims.h"

#include <algorithm>

namespace eoib {
namespace {

absl::optional<MacClaim> BestOf(const std::vector<MacClaim>& claims) {
  if (claims.empty()) return absl::nullopt;
  return *std::min_element(claims.begin(), claims.end(), [](const MacClaim& a, const MacClaim& b) { return a.Beats(b); });
}

}  // namespace

absl::optional<MacClaim> MacClaims::Best(FdbKey key) const {
  const auto at = claims_.find(key);
  return at == claims_.end() ? absl::nullopt : BestOf(at->second);
}

absl::optional<MacClaim> MacClaims::Of(FdbKey key, const AgentId& agent) const {
  const auto at = claims_.find(key);
  if (at == claims_.end()) return absl::nullopt;
  for (const MacClaim& claim : at->second) {
    if (claim.agent == agent) return claim;
  }
  return absl::nullopt;
}

absl::optional<MacClaim> MacClaims::BestBut(FdbKey key, const AgentId& agent) const {
  const auto at = claims_.find(key);
  if (at == claims_.end()) return absl::nullopt;
  std::vector<MacClaim> others = at->second;
  others.erase(std::remove_if(others.begin(), others.end(), [&](const MacClaim& claim) { return claim.agent == agent; }),
               others.end());
  return BestOf(others);
}

bool MacClaims::Set(FdbKey key, const MacClaim& claim) {
  std::vector<MacClaim>& claims = claims_[key];
  const absl::optional<MacClaim> before = BestOf(claims);
  const auto own =
      std::find_if(claims.begin(), claims.end(), [&](const MacClaim& other) { return other.agent == claim.agent; });
  if (own == claims.end()) {
    claims.push_back(claim);
  } else {
    *own = claim;
  }
  return BestOf(claims) != before;
}

bool MacClaims::Remove(FdbKey key, const AgentId& agent) {
  const auto at = claims_.find(key);
  if (at == claims_.end()) return false;
  std::vector<MacClaim>& claims = at->second;
  const absl::optional<MacClaim> before = BestOf(claims);
  claims.erase(std::remove_if(claims.begin(), claims.end(), [&](const MacClaim& claim) { return claim.agent == agent; }),
               claims.end());
  const bool changed = BestOf(claims) != before;
  if (claims.empty()) claims_.erase(at);
  return changed;
}

}  // namespace eoib
