#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# campaigns.sh FAULTLINE OUT PART...
#
# The measurements on a GPU that docs and README quote: one JSON record each in OUT, and OUT/log.txt
#   timing     gemv against cuBLAS; trial rates and times of gla_decode, cold and hot
#   race       5,000 trials an arm of the two racy mutants and of the clean kernel
#   rare       the early-release race under memory stress, up to 300,000 trials a kernel
#   clean      1,000,000 trials of clean kernels under memory stress
#   verify     differential checks at real shapes
#   gemm       differential checks up to 8192 cubed, its mutants, and times beside cuBLAS
#   sanitizer  compute-sanitizer's four tools over the same kernels
# Every command may fail (a mutant must): the exit codes are in the log.
set -u
faultline=$1 out=$2
shift 2
mkdir -p "$out"
log=$out/log.txt
gla="b=2 h=4 dk=64 dv=64 dtype=bf16"

run() {  # run NAME ARGUMENT...: one record
    local name=$1 started=$SECONDS code
    shift
    "$faultline" "$@" --json "$out/$name.json" --quiet >>"$log" 2>&1
    code=$?
    echo "$name: exit $code, $((SECONDS - started)) s: faultline $*" | tee -a "$log"
}

part_timing() {
    run bench_gemv bench gemv
    # shellcheck disable=SC2086
    run bench_gla_decode bench gla_decode $gla
    # shellcheck disable=SC2086
    run bench_gla_decode_hot bench gla_decode $gla --hot
}

part_gemm() {
    local dtype
    run verify_gemm_listed verify gemm --variant all --backend cuda
    for dtype in f16 bf16; do
        run "verify_gemm_4096_$dtype" verify gemm m=4096 n=4096 k=4096 "dtype=$dtype" \
            --backend cuda --trials 1
        run "verify_gemm_8192_$dtype" verify gemm m=8192 n=8192 k=8192 "dtype=$dtype" \
            --config tile_m=128,tile_n=256,tile_k=32,stages=4 --backend cuda --trials 1
        run "verify_gemm_ragged_$dtype" verify gemm m=4095 n=4097 k=2049 "dtype=$dtype" \
            inputs=mean_zero --backend cuda --trials 1
    done
    run stress_gemm stress gemm m=512 n=512 k=512 --backend cuda --trials 2000 --seed 1
    run stress_gemm_missing_barrier stress gemm@missing_barrier m=512 n=512 k=512 \
        --backend cuda --trials 2000 --seed 1
    run verify_gemm_epilogue verify gemm@epilogue_before_accumulate m=1024 n=1024 k=1024 \
        --backend cuda
    run bench_gemm bench gemm -v
}

part_race() {
    for copy in tensor bulk; do
        # shellcheck disable=SC2086
        run "stress_shared_buffer_$copy" stress gla_decode@shared_buffer $gla \
            --config "copy=$copy" --backend cuda --trials 5000 --seed 1
    done
    # Detection by the default plan in under 1,000 trials altogether.
    # shellcheck disable=SC2086
    run stress_shared_buffer_short stress gla_decode@shared_buffer $gla \
        --config copy=tensor --backend cuda --trials 45 --seed 2
    for producer in warpgroup thread; do
        # shellcheck disable=SC2086
        run "stress_clean_tensor_$producer" stress gla_decode $gla \
            --config "copy=tensor,producer=$producer" --backend cuda --trials 5000 --seed 1
    done
    # shellcheck disable=SC2086
    run stress_early_release_tensor_thread stress gla_decode@early_release $gla \
        --config copy=tensor,producer=thread --backend cuda --trials 5000 --seed 1
}

part_rare() {
    for copy in tensor bulk; do
        for producer in thread warpgroup; do
            # shellcheck disable=SC2086
            run "rare_early_release_${copy}_$producer" stress gla_decode@early_release $gla \
                --config "copy=$copy,producer=$producer" --backend cuda \
                --plan memory_stress,memory_stress_fresh --trials 100000 --seed 1
        done
    done
}

part_clean() {
    for copy in tensor bulk; do
        # shellcheck disable=SC2086
        run "clean_memory_stress_$copy" stress gla_decode $gla \
            --config "copy=$copy,producer=thread" --backend cuda \
            --plan memory_stress,memory_stress_fresh --trials 260000 --seed 3
    done
}

part_verify() {
    # shellcheck disable=SC2086
    run verify_gla_decode verify gla_decode --backend cuda
    for shape in "n=7168 k=16384 dtype=f16" "n=1024 k=1024 dtype=f16" "n=3001 k=3000 dtype=bf16"; do
        # shellcheck disable=SC2086
        run "verify_gemv_$(echo $shape | tr ' =' '_-')" verify gemv $shape --backend cuda --trials 2
    done
    run verify_stage_sentinel verify gemv@stage_sentinel n=1024 k=3000 dtype=f16 --backend cuda
    run verify_dropped_tail verify gemv@dropped_tail n=1024 k=3000 dtype=f16 --backend cuda
}

part_sanitizer() {
    if ! command -v compute-sanitizer >/dev/null; then
        echo "no compute-sanitizer" | tee -a "$log"
        return
    fi
    local variant copy tool text code filter
    for variant in ${SANITIZER_VARIANTS:-shared_buffer early_release pipelined}; do
        for copy in ${SANITIZER_COPIES:-bulk tensor}; do
            for tool in racecheck memcheck synccheck initcheck; do
                # The kernel under test only; initcheck must also see who wrote the inputs.
                filter=(--kernel-regex kernel_substring=gla_decode_)
                [ "$tool" = initcheck ] && filter=()
                # shellcheck disable=SC2086
                text=$(timeout 45 compute-sanitizer --tool "$tool" "${filter[@]}" --print-limit 3 \
                    "$faultline" stress gla_decode@$variant $gla --config "copy=$copy" \
                    --backend cuda --plan none --trials 10 --quiet 2>&1)
                code=$?
                printf '%s %s %s: exit %s; %s; %s\n' "$tool" "$variant" "$copy" "$code" \
                    "$(grep -aoE '(ERROR|RACECHECK) SUMMARY: .*' <<<"$text" | tail -1)" \
                    "$(grep -aE 'PASS|FAIL|INCONCLUSIVE' <<<"$text" | head -1)" |
                    tee -a "$out/sanitizer.txt" "$log"
            done
        done
    done
}

for part; do
    "part_$part"
done
