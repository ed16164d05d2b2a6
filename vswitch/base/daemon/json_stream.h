// JsonStream: finds where each JSON object ends in a stream without framing.
#ifndef EOIB_VSWITCH_BASE_DAEMON_JSON_STREAM_H_
#define EOIB_VSWITCH_BASE_DAEMON_JSON_STREAM_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace eoib {

// Collects bytes and cuts them into objects by counting brackets outside strings. It looks at each
// byte once. In a valid stream every cut is right; whether an object is valid JSON is for a parser
// to decide. Not thread-safe; owns its bytes.
class JsonStream {
 public:
  // More than requests need, and little enough for recursive parsers of the objects.
  static constexpr size_t kMaxDepth = 16;

  // `limit` bounds the bytes of one object.
  explicit JsonStream(size_t limit) : limit_(limit) {}

  void Append(absl::string_view bytes);
  // The next whole object; nullopt if it has not arrived completely. kInvalidArgument if the stream
  // is not a sequence of objects or one is nested too deeply, kResourceExhausted if one is longer
  // than the limit. After an error every call returns it.
  absl::StatusOr<absl::optional<std::string>> Next();

 private:
  void SkipWhitespace();
  // True if `byte` ends the object.
  bool ScanByte(char byte);
  std::string Cut();

  size_t limit_;
  std::string buffer_;
  size_t begin_ = 0;    // of the current object in buffer_; the bytes before it have been returned
  size_t scanned_ = 0;  // end of the scanned bytes; >= begin_
  size_t depth_ = 0;    // open brackets and braces
  bool in_string_ = false;
  bool escaped_ = false;  // the last byte was a backslash inside a string
  absl::Status error_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_JSON_STREAM_H_
