#!/bin/sh
# Checks that programs and libraries are hardened (CMakeLists.txt, EOIB_HARDENED): programs are position-independent; all have
# full RELRO, the stack protector, glibc's fortified functions and libstdc++'s assertions.
#
# check_hardening.sh BUILD_DIR    checks BUILD_DIR/bin and BUILD_DIR/lib
# check_hardening.sh --self-test  tests the check on small programs
set -eu

# require FILE WHAT PATTERN READELF_OPTION...: prints WHAT unless readelf's output has a line that matches PATTERN.
require() {
  file=$1 what=$2 pattern=$3
  shift 3
  readelf -W "$@" "$file" 2>/dev/null | grep -qE -e "$pattern" || echo "$file: $what"
}

# Prints a line for each protection that the file lacks.
find_faults_of() {
  require "$1" "no full RELRO: no BIND_NOW" '\((FLAGS|FLAGS_1)\).*(BIND_NOW| NOW)' --dynamic
  require "$1" "no full RELRO: no GNU_RELRO segment" '^ +GNU_RELRO ' --program-headers
  require "$1" "no stack protector: __stack_chk_fail is not called" ' __stack_chk_fail(@|$)' --dyn-syms
  require "$1" "not fortified: no __*_chk function is called" ' __[a-z0-9_]+_chk(@|$)' --dyn-syms
  require "$1" "no libstdc++ assertions: __glibcxx_assert_fail is not called" '__glibcxx_assert_fail' --dyn-syms
}

find_faults() {
  for program in "$1"/bin/*; do
    [ -e "$program" ] || { echo "$1/bin: no programs: not built?"; continue; }
    require "$program" "no position-independent executable" '\(FLAGS_1\).* PIE' --dynamic
    find_faults_of "$program"
  done
  for library in "$1"/lib/*.so; do
    [ -e "$library" ] || { echo "$1/lib: no libraries: not built?"; continue; }
    find_faults_of "$library"
  done
}

check() {
  faults=$(find_faults "$1")
  if [ -n "$faults" ]; then
    echo "$faults"
    return 1
  fi
  echo "programs and libraries are hardened"
}

HARDENED="-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS -fstack-protector-strong -fPIE -pie -Wl,-z,relro,-z,now"

# expect WHAT TEXT FLAGS...: for a program built with the hardening flags and FLAGS, the check prints TEXT (empty: nothing).
expect() {
  what=$1 text=$2
  shift 2
  # shellcheck disable=SC2086
  printf '%s\n' '#include <array>' '#include <cstdio>' '#include <cstring>' \
    'int main(int c, char** v) { std::array<char, 64> b; strcpy(b.data(), v[0]); return puts(b.data()) + b[c]; }' |
    "${CXX:-c++}" -x c++ $HARDENED "$@" -o "$directory/bin/program" -
  output=$(find_faults "$directory")
  case "$output" in
    *"$text"*) if [ -n "$text" ] || [ -z "$output" ]; then return; fi ;;
  esac
  echo "self-test: $what: expected \"$text\", got: $output"
  failed=1
}

test_check() {
  directory=$(mktemp -d)
  mkdir "$directory/bin" "$directory/lib"
  # shellcheck disable=SC2086
  printf '%s\n' '#include <array>' '#include <cstring>' \
    'int f(int i, char* t, char* f) { std::array<char, 64> b; strcpy(b.data(), f); return *strcpy(t, b.data()) + b[i]; }' |
    "${CXX:-c++}" -x c++ $HARDENED -fPIC -shared -o "$directory/lib/good.so" -
  expect "a good program" ""
  expect "a fixed address" "program: no position-independent" -no-pie -fno-pie
  expect "late binding" "program: no full RELRO: no BIND_NOW" -Wl,-z,lazy
  expect "writable relocations" "program: no full RELRO: no GNU_RELRO" -Wl,-z,norelro
  expect "no stack protector" "program: no stack protector" -fno-stack-protector
  expect "no fortified functions" "program: not fortified" -U_FORTIFY_SOURCE
  expect "no assertions" "program: no libstdc++ assertions" -U_GLIBCXX_ASSERTIONS
  printf 'int one() { return 1; }\n' | "${CXX:-c++}" -x c++ -fPIC -shared -o "$directory/lib/bad.so" -
  expect "a library" "bad.so: not fortified"
  rm -r "$directory/bin"
  [ "$(find_faults "$directory" | head -n 1)" = "$directory/bin: no programs: not built?" ] ||
    { echo "self-test: no programs"; failed=1; }
  rm -rf "$directory"
}

. "$(dirname "$0")/command_line.sh"
