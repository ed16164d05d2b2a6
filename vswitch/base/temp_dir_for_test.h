// TempDir: a temporary directory for a test. The destructor removes it with its contents.
#ifndef EOIB_VSWITCH_BASE_TEMP_DIR_FOR_TEST_H_
#define EOIB_VSWITCH_BASE_TEMP_DIR_FOR_TEST_H_

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "gtest/gtest.h"
#include "vswitch/base/check.h"

namespace eoib {

class TempDir {
 public:
  TempDir() {
    std::string pattern = testing::TempDir() + "/eoib_test.XXXXXX";
    EOIB_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_TEMP_DIR_FOR_TEST_H_
