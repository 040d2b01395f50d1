#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# From a fresh machine to a verdict: see usage() below.
set -Eeuo pipefail
trap 'printf "quickstart.sh: unexpected failure in line %s\n" "$LINENO" >&2' ERR

# Debian 12 packages, the one place that lists them.
build_packages=(
  g++ cmake ninja-build ccache
  libeigen3-dev librapidcheck-dev libgtest-dev libgmock-dev libfmt-dev nlohmann-json3-dev
  libcli11-dev libsqlite3-dev libboost-dev libzstd-dev
)
test_packages=(python3 python3-jsonschema chromium)

# NVIDIA's wheels that together hold nvcc, for machines without a CUDA toolkit.
nvcc_wheels=(
  'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*'
  'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*'
)

usage() {
  cat <<'TEXT'
usage: ./quickstart.sh [run|test] [--skip-packages] [--jobs N]

  run   (default) installs what is missing, builds, and stress-tests the two-pass GLA decode kernel:
        first a variant with a real race (verdict fail), then the correct kernel (verdict pass), on
        the GPU if there is one, else on the simulator. Prints both verdicts and the reports' paths.
  test  the same set-up, then every test.

  --skip-packages   install nothing; you have the dependencies from somewhere else
  --jobs N          compile with N jobs (default: one a core, and 1.5 GB of memory each)

Packages are installed only as root on a system with apt; otherwise the line to run is printed.
A CUDA 13 toolkit is not installed: without nvcc the script says how to get it, and builds the rest.
Exit codes: 0 done, 1 a build, test or verdict was not as expected, 2 usage, 3 something is missing.
TEXT
}

say() { printf '\n== [%d s] %s\n' "$SECONDS" "$*"; }

# fail CODE SENTENCE
fail() {
  printf 'quickstart.sh: %s\n' "$2" >&2
  exit "$1"
}

action=run
skip_packages=no
jobs=
while (($#)); do
  case $1 in
    run | test) action=$1 ;;
    --skip-packages) skip_packages=yes ;;
    --jobs)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail 2 "--jobs wants a positive number, not '${2:-}'"
      jobs=$2
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      usage >&2
      fail 2 "'$1' is not understood"
      ;;
  esac
  shift
done

cd "$(dirname "${BASH_SOURCE[0]}")"

install_packages() {
  local wanted=("${build_packages[@]}") missing=() package
  [[ $action == test ]] && wanted+=("${test_packages[@]}")
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    printf 'Install the equivalents of these Debian packages: %s\n' "${wanted[*]}"
    fail 3 "there is no apt here; install the packages above, then run with --skip-packages"
  fi
  for package in "${wanted[@]}"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    say "Debian packages: all there"
    return
  fi
  local line="apt-get install -y --no-install-recommends ${missing[*]}"
  if ((EUID != 0)); then
    printf 'Missing packages. Run:\n  sudo apt-get update && sudo %s\n' "$line"
    fail 3 "not root, so nothing was installed; run the line above, then this script again"
  fi
  say "Debian packages: $line"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q </dev/null ||
    fail 3 "apt-get update failed; the packages to install are: ${missing[*]}"
  # shellcheck disable=SC2086 # a line of words by intention: it was printed as it is run
  $line -q </dev/null || fail 3 "apt-get install failed; the packages to install are: ${missing[*]}"
}

# Prints the path of an nvcc, or nothing.
find_nvcc() {
  local candidate
  for candidate in "$(command -v nvcc || true)" "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" \
    /usr/local/cuda/bin/nvcc .venv/lib/python3*/site-packages/nvidia/cu13/bin/nvcc; do
    if [[ -n $candidate && -x $candidate ]]; then
      realpath -s "$candidate"
      return
    fi
  done
}

say "faultline quickstart: $action"
if [[ $skip_packages == no ]]; then
  install_packages
fi

nvcc=$(find_nvcc)
if [[ -n $nvcc ]]; then
  say "nvcc: $nvcc ($("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p'))"
else
  say "nvcc: none. The subjects are left out; everything else is built. To get nvcc:"
  printf "  python3 -m venv .venv && .venv/bin/pip install"
  printf " '%s'" "${nvcc_wheels[@]}"
  printf '\nthen run this script again.\n'
fi

preset=cpu
devices=$(nvidia-smi -L 2>/dev/null || true)
if [[ -n $nvcc && $devices == *GPU* ]]; then
  preset=cuda
  say "device: ${devices%%$'\n'*}"
else
  say "device: no GPU here, the simulator runs the kernels"
fi

if [[ -z $jobs ]]; then
  memory_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
  jobs=$(nproc)
  by_memory=$((${memory_kib:-4194304} / 1572864))
  ((by_memory < jobs)) && jobs=$((by_memory > 0 ? by_memory : 1))
fi

options=(-DFAULTLINE_QUICK_BUILD=ON)
for part in TESTS EXAMPLES; do
  options+=("-DFAULTLINE_BUILD_$part=$([[ $action == test ]] && echo ON || echo OFF)")
done
# A quick build is not what to measure with; the presets build the benchmarks.
options+=(-DFAULTLINE_BUILD_BENCH=OFF)
if [[ -n $nvcc ]]; then
  options+=("-DFAULTLINE_NVCC=$nvcc")
fi
say "configure (preset $preset)"
cmake --preset "$preset" "${options[@]}" ||
  fail 1 "the configuration failed; its last lines say why"
# The demonstration needs the command only; without the subjects there is none, so all is built.
target=all
[[ $action == run && -n $nvcc ]] && target=faultline
say "build $target with $jobs job(s)"
cmake --build "build/$preset" --target "$target" --parallel "$jobs" ||
  fail 1 "the build failed; the first error is above"

if [[ $action == test ]]; then
  say "test"
  ctest --preset "$preset" --parallel 2 --output-on-failure </dev/null ||
    fail 1 "there are failing tests; their output is above"
  say "all tests passed"
  exit 0
fi

faultline=build/$preset/bin/faultline
[[ -n $nvcc ]] || fail 3 "built, but the demonstration needs the subjects, and those need nvcc"
[[ -x $faultline ]] || fail 1 "the build left no $faultline"

reports=build/$preset/quickstart
mkdir -p "$reports"
problem=(b=1 h=1 dk=64 dv=64 dtype=bf16)
verdicts=()

# demonstrate EXPECTED_EXIT_CODE VARIANT
demonstrate() {
  local expected=$1 variant=$2 code=0 html=$reports/gla_decode-$2.html
  local command=("$faultline" stress gla_decode --variant "$variant" "${problem[@]}"
    --trials 2000 --seed 1 --html "$html")
  say "${command[*]}"
  "${command[@]}" </dev/null | tee "$reports/gla_decode-$variant.txt" || code=${PIPESTATUS[0]}
  if ((code != expected)); then
    fail 1 "gla_decode@$variant ended with exit code $code, expected $expected"
  fi
  [[ -s $html ]] || fail 1 "gla_decode@$variant left no report at $html"
  local verdict
  read -r verdict <"$reports/gla_decode-$variant.txt" ||
    fail 1 "gla_decode@$variant printed nothing"
  verdicts+=("$verdict")
  verdicts+=("    report: $PWD/$html")
}

demonstrate 1 shared_buffer
demonstrate 0 pipelined

say "verdicts (the first variant has a planted race, the second is the correct kernel)"
printf '%s\n' "${verdicts[@]}"
