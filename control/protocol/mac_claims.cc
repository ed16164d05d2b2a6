#include "control/protocol/mac_claims.h"

#include <algorithm>

namespace eoib {
namespace {

// The highest sequence number that counts.
uint32_t Ceiling(const std::vector<MacClaim>& claims) {
  std::vector<uint32_t> sequences;
  for (const MacClaim& claim : claims) sequences.push_back(claim.sequence);
  std::sort(sequences.begin(), sequences.end());
  const auto jump = std::adjacent_find(
      sequences.begin(), sequences.end(),
      [](uint32_t lower, uint32_t higher) { return higher - lower > MacClaims::kLargestJump; });
  return jump == sequences.end() ? sequences.back() : *jump;
}

absl::optional<MacClaim> BestOf(const std::vector<MacClaim>& claims) {
  if (claims.empty()) return absl::nullopt;
  if (claims.size() == 1) return claims.front();
  const auto fixed = std::find_if(claims.begin(), claims.end(),
                                  [](const MacClaim& claim) { return claim.IsFixed(); });
  if (fixed != claims.end()) return *fixed;
  const MacClaim best =
      *std::min_element(claims.begin(), claims.end(),
                        [](const MacClaim& a, const MacClaim& b) { return a.Beats(b); });
  if (best.sticky) return best;
  const uint32_t ceiling = Ceiling(claims);
  return *std::min_element(
      claims.begin(), claims.end(), [ceiling](const MacClaim& a, const MacClaim& b) {
        const bool a_counts = a.sequence <= ceiling, b_counts = b.sequence <= ceiling;
        return a_counts != b_counts ? a_counts : a.Beats(b);
      });
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
  others.erase(std::remove_if(others.begin(), others.end(),
                              [&](const MacClaim& claim) { return claim.agent == agent; }),
               others.end());
  return BestOf(others);
}

bool MacClaims::Set(FdbKey key, const MacClaim& claim) {
  std::vector<MacClaim>& claims = claims_[key];
  const absl::optional<MacClaim> before = BestOf(claims);
  auto own = std::find_if(claims.begin(), claims.end(),
                          [&](const MacClaim& other) { return other.agent == claim.agent; });
  if (own != claims.end() && claim.IsFixed() && !own->IsFixed()) {
    claims.erase(own);
    own = claims.end();
  }
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
  claims.erase(std::remove_if(claims.begin(), claims.end(),
                              [&](const MacClaim& claim) { return claim.agent == agent; }),
               claims.end());
  const bool changed = BestOf(claims) != before;
  if (claims.empty()) claims_.erase(at);
  return changed;
}

}  // namespace eoib
