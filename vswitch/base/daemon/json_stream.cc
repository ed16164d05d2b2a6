#include "vswitch/base/daemon/json_stream.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace eoib {

void JsonStream::Append(absl::string_view bytes) {
  // Drop the objects that Next has returned, so that the buffer does not grow for ever.
  buffer_.erase(0, begin_);
  scanned_ -= begin_;
  begin_ = 0;
  buffer_.append(bytes.data(), bytes.size());
}

void JsonStream::SkipWhitespace() {
  while (begin_ < buffer_.size() && absl::ascii_isspace(buffer_[begin_])) ++begin_;
  scanned_ = begin_;
}

bool JsonStream::ScanByte(char byte) {
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (byte == '\\') {
      escaped_ = true;
    } else if (byte == '"') {
      in_string_ = false;
    }
    return false;
  }
  // Kinds of brackets need not match: the parser of the object checks that.
  if (byte == '"') in_string_ = true;
  if (byte == '{' || byte == '[') ++depth_;
  if (byte == '}' || byte == ']') return --depth_ == 0;
  return false;
}

std::string JsonStream::Cut() {
  std::string object = buffer_.substr(begin_, scanned_ - begin_);
  begin_ = scanned_;
  return object;
}

absl::StatusOr<absl::optional<std::string>> JsonStream::Next() {
  if (!error_.ok()) return error_;
  if (depth_ == 0) {
    SkipWhitespace();
    if (begin_ == buffer_.size()) return absl::optional<std::string>();
    if (buffer_[begin_] != '{') {  // where the next object begins is unknown from here on
      return error_ = absl::InvalidArgumentError(
                 absl::StrCat("a message is a JSON object and begins with '{', not with '",
                              absl::CHexEscape(absl::string_view(buffer_).substr(begin_, 1)), "'"));
    }
  }
  while (scanned_ < buffer_.size()) {
    const bool complete = ScanByte(buffer_[scanned_++]);
    if (scanned_ - begin_ > limit_) {
      return error_ = absl::ResourceExhaustedError(
                 absl::StrCat("a message is at most ", limit_, " bytes long"));
    }
    if (depth_ > kMaxDepth) {
      return error_ = absl::InvalidArgumentError(
                 absl::StrCat("a message is nested at most ", kMaxDepth, " deep"));
    }
    if (complete) return absl::make_optional(Cut());
  }
  return absl::optional<std::string>();
}

}  // namespace eoib
