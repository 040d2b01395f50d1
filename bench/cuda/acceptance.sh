#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Everything that must hold on a GPU, in one run: every subject over all its problems and configs,
# the kill matrix, the coded data modes. Raw JSON and text go to OUT.
#   bench/cuda/acceptance.sh FAULTLINE OUT
# Independent processes share the device; none of these figures is a time.
set -u
faultline=$1
out=$2
mkdir -p "$out"

run() {  # name, then the command's arguments
  name=$1
  shift
  "$faultline" "$@" --backend cuda --color never --width 160 --json "$out/$name.json" \
    >"$out/$name.txt" 2>"$out/$name.err"
  echo "$name exit $?" >>"$out/log.txt"
}

: >"$out/log.txt"
for subject in gemv gla_decode; do
  run "verify_$subject" verify "$subject" --variant all --trials 3 &
done
for subject in deltanet_fwd gated_deltanet_fwd deltanet_bwd gated_deltanet_bwd deltanet_decode \
  gated_deltanet_decode; do
  run "verify_$subject" verify "$subject" &
done
wait
run mutants mutants
for mode in exact digits epoch illconditioned special; do
  run "gemv_$mode" verify gemv n=1000 k=3000 dtype=f16 --data "$mode" &
done
for mode in exact epoch; do
  run "gla_decode_$mode" verify gla_decode b=2 h=4 --data "$mode" &
done
wait
sort "$out/log.txt"
