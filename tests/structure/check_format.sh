#!/bin/sh
# Checks that C and C++ files have the format of .clang-format.
#
#   check_format.sh SOURCE_DIRECTORY    reports each line that has not
#   check_format.sh --self-test         tests the check
# To mend a file: clang-format -i FILE
set -eu

# Prints a complaint for each line of the files below the directories that clang-format would change.
complaints() {
  find "$@" \( -name '*.cc' -o -name '*.h' -o -name '*.c' \) -print0 |
    xargs -0 -n 40 -P 2 clang-format --dry-run --ferror-limit=3 2>&1
}

if [ "$1" = --self-test ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cp "$(dirname "$0")/../../.clang-format" "$work"
  printf 'int main() { return 0; }\n' >"$work/good.cc"
  [ -z "$(complaints "$work")" ] || { echo "a good file is reported" >&2; exit 1; }
  printf 'int  main( ) {return 0;}\n' >"$work/bad.cc"
  complaints "$work" | grep -q 'bad.cc:1' || { echo "a bad file is not reported" >&2; exit 1; }
  exit 0
fi
cd "$1"
found=$(complaints vswitch fdb control gateway tests)
[ -z "$found" ] || { echo "$found" >&2; echo "to mend a file: clang-format -i FILE" >&2; exit 1; }
