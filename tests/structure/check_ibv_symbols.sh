#!/bin/sh
# Checks two properties of a build that the compiler does not check:
#
# - Undefined ibv_* symbols are in one object only, verbs_libibverbs.cc.o: all other code reaches verbs through VerbsTable, so
#   the code that runs without hardware is the code that runs with it. Likewise umad_* symbols, in umad_transport.cc.o. The
#   preload libraries have neither, since they replace the libraries that define them. Tests, fuzzers, benchmarks are exempt.
# - Only the libraries in the software HCA's folder have symbols of eoib::softhca. Other libraries, and programs linked without
#   the software HCA (such as fabric_tests), have none. The embeddable library has them, because it opens HCAs as a program does.
#
# check_ibv_symbols.sh BUILD_DIR    checks a build
# check_ibv_symbols.sh --self-test  tests the check on small objects
set -eu

softhca_symbol=4eoib7softhca  # the namespace as mangled by the C++ ABI

production_objects() {
  find "$1" -path '*/CMakeFiles/*.dir/*' -name '*.o' ! -path "$1/tests/*" ! -path '*/CMakeFiles/CMakeTmp/*' \
    ! -path '*/CMakeFiles/[0-9]*' ! -name '*_test.cc.o' ! -name '*_fuzz.cc.o' ! -name '*_bench.cc.o' \
    ! -path '*_tests.dir/Unity/*'
}

# check_seam BUILD_DIR PREFIX OBJECT LIBRARY: only OBJECT may have undefined symbols that begin with PREFIX, which LIBRARY
# defines.
check_seam() {
  # Lines "OBJECT: U SYMBOL". One nm for all objects, since a process for each would take most of the time.
  production_objects "$1" | xargs nm -A -u 2>/dev/null | awk -v build="$1" -v prefix="$2" -v only="$3" -v library="$4" '
    index($NF, prefix) == 1 {
      object = $1
      sub(/:$/, "", object)
      name = object
      sub(/^.*\//, "", name)
      if (name == only) seam = 1
      else symbols[object] = symbols[object] " " $NF
    }
    END {
      for (object in symbols) {
        print object ": undefined" symbols[object] ": only " only " may call " library
        bad = 1
      }
      if (!seam) {
        print build ": no " only " with undefined " prefix "* symbols found: not built?"
        bad = 1
      }
      exit bad
    }'
}

check_softhca() {
  bad=0
  seen=0
  program=0
  for file in $(find "$1" -name 'lib*.a' ! -path '*softhca*' ! -path '*/control/embed/*' ! -name libeoib.a \
    ! -path "$1/tests/*") $(find "$1" -type f -name fabric_tests); do
    seen=$((seen + 1))
    case "$file" in */fabric_tests) program=1 ;; esac
    if nm "$file" 2>/dev/null | grep -q "$softhca_symbol"; then
      echo "$file: has symbols of eoib::softhca"
      bad=1
    fi
  done
  if [ "$program" -eq 0 ]; then
    echo "$1: no program fabric_tests found: not built?"
    return 1
  fi
  # The software HCA's own library must have such symbols; otherwise the name above is wrong and the check proves nothing.
  for file in $(find "$1" -name libeoib_softhca.a); do
    if ! nm "$file" 2>/dev/null | grep -q "$softhca_symbol"; then
      echo "$file: has no symbol of eoib::softhca: this check looks for the wrong name"
      bad=1
    fi
  done
  return "$bad"
}

check() {
  status=0
  check_seam "$1" ibv_ verbs_libibverbs.cc.o libibverbs || status=1
  check_seam "$1" umad_ umad_transport.cc.o libibumad || status=1
  check_softhca "$1" || status=1
  [ "$status" -eq 0 ] && echo "libibverbs and libibumad behind one object each; the software HCA in its own library only"
  return "$status"
}

# compile SOURCE_TEXT OBJECT
compile() {
  mkdir -p "$(dirname "$2")"
  printf '%s\n' "$1" | "${CXX:-c++}" -x c++ -c -o "$2" -
}

# Makes a build directory that passes.
good_build() {
  build=$(mktemp -d)
  objects="$build/vswitch/fabric/CMakeFiles"
  compile 'extern "C" void ibv_close_device(); void Close() { ibv_close_device(); }' \
    "$objects/eoib_fabric_verbs.dir/verbs_libibverbs.cc.o"
  compile 'extern "C" void umad_init(); void Init() { umad_init(); }' "$objects/eoib_fabric_verbs.dir/umad_transport.cc.o"
  compile 'extern "C" void umad_done() {}' "$objects/eoib-umad.dir/umad_preload.cc.o"
  compile 'void Plain() {}' "$objects/eoib_fabric.dir/hca.cc.o"
  compile 'extern "C" void ibv_f(); void Test() { ibv_f(); }' "$objects/fabric_tests.dir/hca_test.cc.o"
  compile 'namespace eoib::softhca { void Soft() {} }' "$objects/eoib_softhca.dir/soft.cc.o"
  ar rc "$build/vswitch/fabric/libeoib_fabric.a" "$objects/eoib_fabric.dir/hca.cc.o"
  ar rc "$build/vswitch/fabric/libeoib_softhca.a" "$objects/eoib_softhca.dir/soft.cc.o"
  cp "$objects/eoib_fabric.dir/hca.cc.o" "$build/vswitch/fabric/fabric_tests"
}

# expect pass|fail DESCRIPTION TEXT: checks $build for that verdict and for TEXT in the output; then deletes it.
expect() {
  if output=$(check "$build"); then result=pass; else result=fail; fi
  rm -rf "$build"
  case "$result:$output" in
    "$1:"*"$3"*) ;;
    *)
      echo "self-test: $2: expected $1 and \"$3\", got $result: $output"
      failed=1
      ;;
  esac
}

test_check() {
  good_build
  expect pass "a good build" "one object each"
  good_build
  compile 'extern "C" int ibv_query_gid(); int Bad() { return ibv_query_gid(); }' "$objects/eoib_fabric.dir/bad.cc.o"
  expect fail "a second object that calls libibverbs" "bad.cc.o: undefined ibv_query_gid"
  good_build
  compile 'void Plain() {}' "$objects/eoib_fabric_verbs.dir/verbs_libibverbs.cc.o"
  expect fail "no object calls libibverbs" "not built"
  good_build
  compile 'extern "C" int umad_size(); int Bad() { return umad_size(); }' "$objects/eoib-umad.dir/umad_preload.cc.o"
  expect fail "a preload library that calls the library it replaces" "umad_preload.cc.o: undefined umad_size"
  good_build
  compile 'void Plain() {}' "$objects/eoib_fabric_verbs.dir/umad_transport.cc.o"
  expect fail "no object calls libibumad" "no umad_transport.cc.o"
  good_build
  compile 'namespace eoib::softhca { void Soft(); } void Bad() { eoib::softhca::Soft(); }' "$objects/eoib_fabric.dir/bad.cc.o"
  ar rc "$build/vswitch/fabric/libeoib_fabric.a" "$objects/eoib_fabric.dir/bad.cc.o"
  expect fail "a library that calls the software HCA" "libeoib_fabric.a: has symbols of eoib::softhca"
  good_build
  cp "$objects/eoib_softhca.dir/soft.cc.o" "$build/vswitch/fabric/fabric_tests"
  expect fail "a program that should not have the software HCA" "fabric_tests: has symbols of eoib::softhca"
  good_build
  ar d "$build/vswitch/fabric/libeoib_softhca.a" soft.cc.o
  ar rc "$build/vswitch/fabric/libeoib_softhca.a" "$objects/eoib_fabric.dir/hca.cc.o"
  expect fail "a software HCA under another name" "wrong name"
  good_build
  rm "$build/vswitch/fabric/fabric_tests"
  expect fail "a build without the program" "no program fabric_tests"
  build=$(mktemp -d)
  expect fail "an empty build directory" "not built"
}

. "$(dirname "$0")/command_line.sh"
