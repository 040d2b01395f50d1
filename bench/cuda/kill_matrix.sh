#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# kill_matrix.sh FAULTLINE OUT [DEVICES [PART/PARTS]]
#
# `faultline mutants` on a GPU, row by row, one process a device at a time (others there would hide
# what a stress kernel does): OUT/rows.jsonl.gz, the records of all rows, OUT/log.txt, and
# OUT/kill_matrix.md, made of them by bench/results/kill_matrix.py. compute-sanitizer's column is
# run afterwards with six processes a device: what it says of the accesses does not depend on who
# else is there (SANITIZER=0 leaves it out). About 20 minutes on one H200. DeltaNet has 100 trials
# an arm, its reference being the host's; the others as many as `mutants` takes.
#
# With PART/PARTS (1/2, then 2/2) only every so many-th row, for machines that are lent for less
# than the whole takes: concatenate the parts' rows.jsonl.gz and log.txt, and run kill_matrix.py.
set -u
faultline=$(realpath "$1") out=$2 devices=${3:-1} part=${4:-1/1}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
cd "$out" || exit 1
export faultline devices

"$faultline" list | awk '
    /^[^ ]/ { subject = $1; names = 0; next }
    / (clean|mutants): / { names = 1; $1 = "" }
    names {  # the list, and lines that continue it
        for (i = 1; i <= NF; ++i) { gsub(/,/, "", $i); if ($i != "") print subject "@" $i }
    }' | grep -v '(' | awk -v k="${part%/*}" -v n="${part#*/}" 'NR % n == k % n' >names.txt

row() {  # row KIND NAME OPTION...
    local kind=$1 name=$2 started=$SECONDS
    shift 2
    export CUDA_VISIBLE_DEVICES=$((SLOT % devices))
    "$faultline" mutants "$name" --backend cuda "$@" --json "$kind-$name.json" --quiet \
        >"$kind-$name.txt" 2>&1
    local code=$?
    echo "$kind $name: exit $code, $((SECONDS - started)) s: faultline mutants $name $*" >>log.txt
}
export -f row

hangs='s/^ring_copy@.*/& --timeout 3/'
sed -E "s/^(gated_)?deltanet_(fwd|bwd)@.*/& --trials 100/; $hangs" names.txt |
    xargs -P "$devices" --process-slot-var=SLOT -L 1 bash -c 'row values "$@" --no-sanitizer' _
if [ "${SANITIZER:-1}" = 1 ]; then
    sed "$hangs" names.txt | xargs -P $((6 * devices)) --process-slot-var=SLOT -L 1 \
        bash -c 'row sanitizer "$@" --trials 5' _
fi

for record in values-*.json sanitizer-*.json; do
    [ -e "$record" ] || continue
    python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))))' "$record"
done | gzip -9 >rows.jsonl.gz
rm -f values-*.json sanitizer-*.json values-*.txt sanitizer-*.txt names.txt
python3 "$here/../results/kill_matrix.py" .
