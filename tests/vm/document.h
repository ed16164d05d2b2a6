// Document: a section of one of our manuals, of which a test runs the listings.
#ifndef EOIB_TESTS_VM_DOCUMENT_H_
#define EOIB_TESTS_VM_DOCUMENT_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tests/lab/process.h"

namespace eoib::lab {

class Document {
 public:
  // The section below the line `heading`.
  Document(const std::string& path, const std::string& heading) {
    const std::string text = ReadFile(path);
    const size_t begin = text.find(absl::StrCat("\n", heading, "\n"));
    EXPECT_NE(begin, std::string::npos) << path << " has no " << heading;
    if (begin == std::string::npos) return;
    const std::string section = text.substr(begin, text.find("\n## ", begin + 1) - begin);
    for (absl::string_view line : absl::StrSplit(section, '\n')) Add(line);
  }

  // The first listing below the first line of text that contains `mark`, without its indentation.
  std::string ListingBelow(absl::string_view mark) const {
    bool found = false;
    for (const Part& part : parts_) {
      if (found && part.is_listing) return part.text;
      found = found || (!part.is_listing && absl::StrContains(part.text, mark));
    }
    ADD_FAILURE() << "no listing below " << mark;
    return "";
  }
  // All listings that begin with `beginning`.
  std::vector<std::string> ListingsOf(absl::string_view beginning) const {
    std::vector<std::string> listings;
    for (const Part& part : parts_) {
      if (part.is_listing && absl::StartsWith(part.text, beginning)) listings.push_back(part.text);
    }
    EXPECT_FALSE(listings.empty()) << "no listing that begins with " << beginning;
    return listings;
  }

 private:
  struct Part {
    bool is_listing;
    std::string text;
    size_t indent;
  };

  // A listing ends with a blank line; each line of text is a part.
  void Add(absl::string_view line) {
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const bool is_listing = indent >= 4;
    if (is_listing && !parts_.empty() && parts_.back().is_listing) {
      absl::StrAppend(&parts_.back().text, line.substr(std::min(indent, parts_.back().indent)),
                      "\n");
    } else {
      parts_.push_back({is_listing, absl::StrCat(line.substr(indent), "\n"), indent});
    }
  }

  std::vector<Part> parts_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_VM_DOCUMENT_H_
