#!/bin/bash
# Runs scenarios of tests/netns in a virtual machine, on the kernel's InfiniBand stack in place of the software fabric:
#
#   tests/vm/scenarios.sh PROGRAM[:FILTER]...
#
# PROGRAM is one of theirs, FILTER what GoogleTest is to run of it. One after the other, so that the machine boots once. Exits with 1
# if one fails, when all have run.
export EOIB_LAB_FABRIC=infiniband
failed=()
for scenario in "$@"; do
  program=${scenario%%:*}
  filter=${scenario#"$program"}
  filter=${filter:1}
  echo "==== $(basename "$program") $filter"
  "$program" --gtest_filter="${filter:-*}" && continue
  failed+=("$(basename "$program")")
  # If it was aborted: for the next one.
  rmmod simib 2>/dev/null
done
if [ "${#failed[@]}" = 0 ]; then exit 0; fi
echo "failed: ${failed[*]}"
exit 1
