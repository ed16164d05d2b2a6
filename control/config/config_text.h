// ConfigText: the text of a program's configuration, from a file and its drop-ins, and changes of
// that text while the program runs. Comments and the order of tables stay as they are.
//
// The drop-ins of "eoibd.toml" are the files "eoibd.d/*.toml" beside it, in the order of their
// names. They have arrays of tables ([[ves]], [[vport]]) only. One of them is the live file,
// "live.toml", or "live-NAME.toml" of the program with that --name: it has the tables that were
// added while the program ran. The live files of other programs are left out. Control thread.
#ifndef EOIB_CONTROL_CONFIG_CONFIG_TEXT_H_
#define EOIB_CONTROL_CONFIG_CONFIG_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace eoib {

// Says which file and line a line of several files, read one after another, is from.
class SourceLines {
 public:
  SourceLines() = default;
  explicit SourceLines(absl::string_view name) { Add(name, 0); }
  // The next source, which has `lines` lines.
  void Add(absl::string_view name, int lines);
  // "eoibd.toml:12".
  std::string At(int line) const;
  // In a message about another line: "line 12" if there is one source, else as At.
  std::string Mention(int line) const;

 private:
  struct Source {
    std::string name;
    int before;  // lines of the sources before it
  };
  std::vector<Source> sources_;
  int lines_ = 0;
};

class ConfigText {
 public:
  // A table to change: kind "vport", and its `name` key.
  struct Table {
    std::string kind, name;
  };

  // kNotFound if there is no file at `path`: the message has `example`. `program`: its --name.
  static absl::StatusOr<ConfigText> Load(const std::string& path, absl::string_view example,
                                         absl::string_view program = "");
  // One source without a file, for tests.
  static ConfigText Of(absl::string_view text, absl::string_view source);

  // All sources, one after another.
  std::string text() const;
  SourceLines lines() const;

  // A change affects this object only. `assignments` are "KEY=VALUE"; VALUE is TOML, or text that
  // becomes a string. "KEY=" removes the key. kInvalidArgument: malformed; kNotFound: no such
  // table; the caller checks the result by parsing text().
  // Add writes into the live file, or into the only file if that cannot have drop-ins.
  absl::Status Add(const Table& table, absl::Span<const std::string> assignments);
  absl::Status Set(const Table& table, absl::Span<const std::string> assignments);
  absl::Status Remove(const Table& table);

  bool IsChanged() const;
  // Whether a file is changed that other programs may read, too: another one than the live file.
  bool IsSharedChanged() const;
  // Lines that were added ("+") and removed ("-") since Load, with their files.
  std::string Changes() const;
  // The same since `before`, for the sources that either has.
  std::string ChangesFrom(const ConfigText& before) const;
  // Writes the changed files, and makes the directory of the live file if it is missing.
  // kFailedPrecondition, with nothing written, if one of them was changed by others since Load.
  absl::Status Save();

 private:
  struct File {
    std::string path;
    absl::optional<std::string> loaded;  // its text then; absent: there was no such file
    std::string text;

    bool IsChanged() const { return text != loaded.value_or(""); }
  };
  struct Place {
    File* file;
    int first, end;  // lines, from 0 on; `end` is the line behind it
    std::vector<std::pair<std::string, std::pair<int, int>>> keys;
  };

  absl::optional<Place> Find(const Table& table);
  File* FileForAdditions();
  absl::Status CheckFiles() const;

  std::vector<File> files_;  // the main file, then its drop-ins in order
  std::string live_;         // the path of the live file; empty: there can be none
};

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_CONFIG_TEXT_H_
