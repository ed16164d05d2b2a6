// Replays corpora through a fuzz target, in builds without libFuzzer. Each argument is a directory
// of inputs.
//
// Fails if a directory is missing or empty: a test that replays nothing would always pass.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

// The files of `directory`, sorted, so that a crash is reproducible. Empty if it cannot be read.
std::vector<fs::path> Inputs(const fs::path& directory) {
  std::vector<fs::path> inputs;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->is_regular_file(error)) inputs.push_back(it->path());
  }
  if (error)
    std::fprintf(stderr, "read corpus %s: %s\n", directory.c_str(), error.message().c_str());
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

bool Replay(const fs::path& input) {
  std::ifstream file(input, std::ios::binary);
  // A vector of exactly the input's size, so that a sanitizer detects a read beyond it.
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)),
                                std::istreambuf_iterator<char>());
  if (!file) {
    std::fprintf(stderr, "read %s failed\n", input.c_str());
    return false;
  }
  std::fprintf(stderr, "%s (%zu bytes)\n", input.c_str(), bytes.size());
  return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS...\n", argv[0]);
    return 2;
  }
  size_t replayed = 0;
  for (int i = 1; i < argc; ++i) {
    const std::vector<fs::path> inputs = Inputs(argv[i]);
    if (inputs.empty()) {
      std::fprintf(stderr, "corpus %s is missing or empty\n", argv[i]);
      return 1;
    }
    for (const fs::path& input : inputs) {
      if (!Replay(input)) return 1;
      ++replayed;
    }
  }
  std::printf("%zu inputs replayed\n", replayed);
  return 0;
}
