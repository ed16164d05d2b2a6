#include "vswitch/fabric/link_rate.h"

#include "absl/types/span.h"

namespace eoib {
namespace {

constexpr uint8_t k1x = 1, k2x = 16, k4x = 2, k8x = 4, k12x = 8;
constexpr uint8_t kSdr = 1, kDdr = 2, kQdr = 4, kFdr10 = 8, kFdr = 16, kEdr = 32, kHdr = 64,
                  kNdr = 128;
constexpr struct {
  uint8_t rate;
  uint32_t mbps;
  LinkForm form;
} kRates[] = {
    {2, 2'500, {k1x, kSdr}},     {3, 10'000, {k4x, kSdr}},      {4, 30'000, {k12x, kSdr}},
    {5, 5'000, {k1x, kDdr}},     {6, 20'000, {k4x, kDdr}},      {7, 40'000, {k4x, kQdr}},
    {8, 60'000, {k12x, kDdr}},   {9, 80'000, {k8x, kQdr}},      {10, 120'000, {k12x, kQdr}},
    {11, 14'000, {k1x, kFdr}},   {12, 56'000, {k4x, kFdr}},     {13, 112'000, {k8x, kFdr}},
    {14, 168'000, {k12x, kFdr}}, {15, 25'000, {k1x, kEdr}},     {16, 100'000, {k4x, kEdr}},
    {17, 200'000, {k4x, kHdr}},  {18, 300'000, {k12x, kEdr}},   {19, 28'000, {k2x, kFdr}},
    {20, 50'000, {k1x, kHdr}},   {21, 400'000, {k4x, kNdr}},    {22, 600'000, {k12x, kHdr}},
    {23, 800'000, {k8x, kNdr}},  {24, 1'200'000, {k12x, kNdr}},
};

struct Code {
  uint8_t code;
  uint32_t value;
};
constexpr Code kLanes[] = {{k1x, 1}, {k2x, 2}, {k4x, 4}, {k8x, 8}, {k12x, 12}};
constexpr Code kLaneMbps[] = {{kSdr, 2'500},  {kDdr, 5'000},  {kQdr, 10'000}, {kFdr10, 10'000},
                              {kFdr, 14'000}, {kEdr, 25'000}, {kHdr, 50'000}, {kNdr, 100'000}};

uint32_t ValueOf(absl::Span<const Code> codes, uint8_t code) {
  for (const Code& each : codes) {
    if (each.code == code) return each.value;
  }
  return 0;
}

}  // namespace

LinkForm LinkFormOf(uint8_t rate) {
  for (const auto& row : kRates) {
    if (row.rate == rate) return row.form;
  }
  return {k4x, kSdr};
}

uint8_t RateOf(const LinkForm& link) {
  const uint32_t mbps = ValueOf(kLanes, link.width) * ValueOf(kLaneMbps, link.speed);
  for (const auto& row : kRates) {
    if (row.mbps == mbps) return row.rate;
  }
  return 0;
}

uint32_t RateMbps(uint8_t rate) {
  for (const auto& row : kRates) {
    if (row.rate == rate) return row.mbps;
  }
  return 0;
}

}  // namespace eoib
