// Reads captures back (erf.h). Test only.
#ifndef EOIB_VSWITCH_WIRE_IB_ERF_FOR_TEST_H_
#define EOIB_VSWITCH_WIRE_IB_ERF_FOR_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "vswitch/wire/ib/erf.h"

namespace eoib {

struct ErfRecord {
  uint8_t type = 0;
  uint8_t interface = 0;
  std::vector<uint8_t> bytes;  // bytes after the ERF header
  size_t wire_length = 0;      // of the whole packet
};

// The records in the bytes of a pcap file. A file that ends within a record fails the test.
inline std::vector<ErfRecord> ParseErf(const std::vector<uint8_t>& file) {
  constexpr size_t kFileHeader = 24, kPcapHeader = 16, kErfHeader = 16;
  std::vector<ErfRecord> records;
  size_t at = kFileHeader;
  while (at + kPcapHeader + kErfHeader <= file.size()) {
    const uint8_t* erf = &file[at + kPcapHeader];
    const size_t record_length = static_cast<size_t>(erf[10] << 8 | erf[11]);
    const size_t end = at + kPcapHeader + record_length;
    if (record_length < kErfHeader || end > file.size()) break;
    records.push_back({erf[8],
                       static_cast<uint8_t>(erf[9] & 3),
                       {erf + kErfHeader, file.data() + end},
                       static_cast<size_t>(erf[14] << 8 | erf[15])});
    at = end;
  }
  EXPECT_EQ(at, file.size()) << "the file ends in the middle of a record";
  return records;
}

inline std::vector<ErfRecord> ReadErf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return ParseErf({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_ERF_FOR_TEST_H_
