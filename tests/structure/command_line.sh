# Sourced at the end of the checks of a build: runs "BUILD_DIR | --self-test" with the caller's functions check BUILD_DIR and
# test_check, which sets failed=1 for each failure.
case "${1:-}" in
  "")
    echo "usage: $0 BUILD_DIR | --self-test" >&2
    exit 2
    ;;
  --self-test)
    failed=0
    test_check
    [ "$failed" -eq 0 ] && echo "self-test: all checks passed"
    ;;
  *) check "$1" ;;
esac
