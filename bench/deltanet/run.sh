#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh FAULTLINE FLA OUT [OPTION...]
#
# DeltaNet kernels beside FLA's in one run on this machine's GPU (compare_fla.py, which takes the
# options). FAULTLINE: the command, or - to time FLA alone. FLA: a clone of
# https://github.com/fla-org/flash-linear-attention, or a folder that holds its package `fla` and
# the commit in a file COMMIT.
# OUT: gets fla.json and fla.md. With FLA_TUNED=FILE the autotuner's choices are kept there, or read
# from there when it exists (bench/results holds one for an H200).
set -euo pipefail
faultline=$1 fla=$2 out=$3
shift 3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

commit=unknown
if [ -f "$fla/COMMIT" ]; then
    commit=$(cat "$fla/COMMIT")
elif [ "$(git -C "$fla" rev-parse --show-toplevel 2>/dev/null)" = "$(cd "$fla" && pwd)" ]; then
    commit=$(git -C "$fla" rev-parse HEAD)
fi
options=(--fla "$fla" --fla-commit "$commit" --out "$out")
[ "$faultline" = - ] || options+=(--faultline "$faultline")
[ -z "${FLA_TUNED:-}" ] || options+=(--tuned "$FLA_TUNED")
exec python3 "$here/compare_fla.py" "${options[@]}" "$@"
