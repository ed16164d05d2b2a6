// Finds the ends of JSON texts in a stream that has no framing.
#ifndef EOIB_CONTROL_JSON_STREAM_H_
#define EOIB_CONTROL_JSON_STREAM_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace eoib {

// Collects bytes and cuts them into objects by counting brackets outside strings; each byte is looked at once. Whether an
// object is valid JSON is for a parser to say: of a stream that is valid, every cut is right. Not thread-safe; owns its bytes.
class JsonStream {
 public:
  // Far above what requests need, and low enough that recursive code survives whatever comes out of here.
  static constexpr size_t kMaxDepth = 16;

  // `limit` bounds the bytes of one object.
  explicit JsonStream(size_t limit) : limit_(limit) {}

  void Append(absl::string_view bytes);
  // The next whole object; nullopt if it has not all arrived. kInvalidArgument if the stream is not a sequence of objects or
  // one is nested too deeply, kResourceExhausted if one is longer than the limit. After an error the stream is dead and repeats
  // it.
  absl::StatusOr<absl::optional<std::string>> Next();

 private:
  void SkipWhitespace();
  // True if `byte` ends the object.
  bool ScanByte(char byte);
  std::string Cut();

  size_t limit_;
  std::string buffer_;
  size_t begin_ = 0;    // of the current object in buffer_; what is before it has been handed out
  size_t scanned_ = 0;  // end of what the scanner has seen; >= begin_
  size_t depth_ = 0;    // open brackets and braces
  bool in_string_ = false;
  bool escaped_ = false;  // the last byte was a backslash inside a string
  absl::Status error_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_JSON_STREAM_H_
