#!/bin/sh
# Prints CHANGELOG.md as a Debian changelog (deb-changelog(5)).
#
#   deploy/debian/changelog.sh CHANGELOG.md REVISION "MAINTAINER <ADDRESS>"
#
# Each "## VERSION (YEAR-MONTH-DAY)" with its list is an entry.
set -eu

# entries FILE: prints "@VERSION DATE" for each head, and the lines of the list below it.
entries() {
  sed -nE '/^## /s/^## ([^ ]+) \(([0-9-]+)\)$/@\1 \2/p; /^- /{s/^- /  * /p;d}; s/^  ([^ ].*)$/    \1/p' "$1"
}

# finish DATE: ends an entry.
finish() {
  if [ -n "$1" ]; then printf '\n -- %s  %s\n\n' "$maintainer" "$(date --utc --rfc-email --date="$1")"; fi
}

revision=$2 maintainer=$3 date=
entries "$1" | {
  while IFS= read -r line; do
    case $line in
      @*)
        finish "$date"
        version=${line#@} version=${version% *} date=${line##* }
        printf 'eoib (%s-%s) unstable; urgency=medium\n\n' "$version" "$revision"
        ;;
      *) printf '%s\n' "$line" ;;
    esac
  done
  finish "$date"
}
