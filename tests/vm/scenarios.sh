#!/bin/bash
# Runs scenarios of tests/netns in a virtual machine, on the kernel's InfiniBand stack in place of the software fabric:
#
#   tests/vm/scenarios.sh PROGRAM[:FILTER]...
#
# PROGRAM is a test program of tests/netns, FILTER a GoogleTest filter. Runs all of them in one machine, one after the other.
# Exits with 1 if one has failed.
export EOIB_LAB_FABRIC=infiniband
failed=()
for scenario in "$@"; do
  program=${scenario%%:*}
  filter=${scenario#"$program"}
  filter=${filter:1}
  echo "==== $(basename "$program") $filter"
  "$program" --gtest_filter="${filter:-*}" && continue
  failed+=("$(basename "$program")")
  # An aborted program leaves the module loaded; unload it for the next one.
  rmmod simib 2>/dev/null
done
if [ "${#failed[@]}" = 0 ]; then exit 0; fi
echo "failed: ${failed[*]}"
exit 1
