# Sourced by checks that compare texts with the programs in $bin: flags_of; start_programs, wait_for_programs and stop_programs, on a software subnet. Call
# them as root in a network namespace of the check's own.

# start_programs RUNDIR: each with the least configuration.
start_programs() {
  local r=$1
  printf '[[partition]]\npkey = 0x8001\nfull = ["ALL"]\n' >"$r/partitions.toml"
  printf '[[ves]]\nname = "blue"\npkey = 0x8001\n' | tee "$r/eoib-gateway.toml" >"$r/eoibd.toml"
  printf '[[vport]]\nname = "v1"\nves = "blue"\ntype = "test"\n' >>"$r/eoibd.toml"
  printf '[[gateway]]\nname = "gw0"\nves = "blue"\n' >>"$r/eoib-gateway.toml"
  "$bin/eoib-fabricd" --rundir="$r" --statedir= --config="$r/partitions.toml" >"$r/log" 2>&1 &
  "$bin/eoibd" --hca=soft:h1 --rundir="$r" --statedir="$r/h1" --config="$r/eoibd.toml" >>"$r/log" 2>&1 &
  "$bin/eoib-gateway" --hca=soft:gw --rundir="$r" --statedir="$r/gw" --config="$r/eoib-gateway.toml" >>"$r/log" 2>&1 &
  "$bin/eoib-ipoib" --hca=soft:s1 --rundir="$r" --pkey=0x8001 >>"$r/log" 2>&1 &
}

# A program answers once it has all its commands.
wait_for_programs() {
  local program tries
  for program in fabricd eoibd eoib-gateway eoib-ipoib; do
    for tries in {1..300}; do
      "$bin/eoibctl" --rundir="$1" -t "$program" help >/dev/null 2>&1 && break
      [ "$tries" != 300 ] || { echo "$program does not answer:"; cat "$1/log"; return 1; }
      sleep 0.1
    done
  done
}

stop_programs() {
  # shellcheck disable=SC2046
  kill $(jobs -p)
  wait
}

# flags_of SOURCE: the flags that a main file defines.
flags_of() {
  grep -Pzo 'DEFINE_[a-z0-9]+\(\s*\w+' "$1" | tr '\0' '\n' | grep -oE '\w+$' | grep -v '^DEFINE' | sed 's/^/--/; s/^--\(.\)$/-\1/'
}
