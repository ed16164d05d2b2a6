#!/bin/bash
# Makes the root of a small Debian with systemd, and with the libraries that packages need, as a tar file:
#
#   tests/packages/root.sh DIRECTORY PACKAGE.deb...
#
# Prints its path. DIRECTORY keeps it for later calls, until the packages need other libraries.
set -euo pipefail

# dependencies PACKAGE.deb...: the names of the packages that they need, without each other and without alternatives.
dependencies() {
  local package
  for package in "$@"; do
    dpkg-deb -f "$package" Depends | tr ',' '\n'
  done | sed 's/^ *//; s/[ (|].*//' | grep -vE '^(eoib-|libeoib)' | sort -u
}

directory=$1
shift
packages=$(dependencies "$@" | paste -sd,)
include=systemd,systemd-sysv,init-system-helpers,iproute2,$packages
mkdir -p "$directory"
root=$directory/root-$(echo "$include" | sha256sum | cut -c1-12).tar
if [ ! -e "$root" ]; then
  rm -f "$directory"/root-*.tar
  # Documentation would take half of the time; that of our packages is looked at.
  mmdebstrap --variant=minbase --include="$include" --aptopt='Acquire::Languages "none"' --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/eoib-*' \
    bookworm "$root.new.tar" >"$directory/mmdebstrap.log" 2>&1 || {
    cat "$directory/mmdebstrap.log" >&2
    exit 1
  }
  mv "$root.new.tar" "$root"
fi
echo "$root"
