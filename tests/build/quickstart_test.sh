#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# quickstart.sh as a stranger meets it, with pretended apt-get, dpkg-query, cmake: exit codes, what
# it installs, and that every failure ends in one sentence. Usage: quickstart_test.sh QUICKSTART
# shellcheck disable=SC2016
set -euo pipefail

quickstart=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/tree" "$scratch/tools" "$scratch/fakes"
cp "$quickstart" "$scratch/tree/quickstart.sh"
for tool in bash cat dirname env grep head id mkdir nproc realpath sed tee; do
  ln -s "$(command -v "$tool")" "$scratch/tools/$tool"
done

failures=0
fake() { # fake NAME BODY
  printf '#!%s\n%s\n' "$(command -v bash)" "$2" >"$scratch/fakes/$1"
  chmod +x "$scratch/fakes/$1"
}

# run EXPECTED_CODE EXPECTED_TEXT [argument...]: with only the tools above and the fakes
run() {
  local expected=$1 text=$2 code=0 out
  shift 2
  out=$(cd "$scratch" && PATH="$scratch/fakes:$scratch/tools" "${as[@]}" \
    ./tree/quickstart.sh "$@" 2>&1 </dev/null) || code=$?
  if ((code != expected)) || [[ $out != *"$text"* ]]; then
    printf 'FAILED: quickstart.sh %s\n  wanted exit code %s and: %s\n  got %s and:\n%s\n\n' \
      "$*" "$expected" "$text" "$code" "$out"
    failures=$((failures + 1))
  fi
}

as=(env)
run 0 'usage: ./quickstart.sh' --help
run 2 "'bogus' is not understood" bogus
run 2 "--jobs wants a positive number, not 'none'" --jobs none
run 2 "--jobs wants a positive number, not ''" --jobs
run 3 'there is no apt here' # and the packages are named:
run 3 'libeigen3-dev' test
run 3 'chromium' test

fake dpkg-query 'exit 1' # nothing is installed
fake apt-get "echo \"apt-get \$* [\$DEBIAN_FRONTEND]\" >>$scratch/log"
fake cmake "echo \"cmake \$*\" >>$scratch/log; exit 1"
if ((EUID == 0)); then
  : >"$scratch/log"
  run 1 'the configuration failed' test
  for line in 'apt-get update -q [noninteractive]' \
    'apt-get install -y --no-install-recommends g++ cmake' 'cmake --preset cpu'; do
    grep -qF -- "$line" "$scratch/log" || {
      printf 'FAILED: not in the log: %s\n' "$line"
      cat "$scratch/log"
      failures=$((failures + 1))
    }
  done
  if [[ $(grep -c 'apt-get install' "$scratch/log") != 1 ]]; then
    printf 'FAILED: more than one install line\n'
    failures=$((failures + 1))
  fi
  fake apt-get '[[ $1 != update ]]'
  run 3 'apt-get update failed; the packages to install are: g++' test
  chmod -R a+rX "$scratch"
  as=("$(command -v setpriv)" --reuid=65534 --regid=65534 --clear-groups)
fi
run 3 'sudo apt-get install -y --no-install-recommends g++' test

as=(env)
fake dpkg-query 'printf installed'
run 1 'the configuration failed' test
fake cmake '[[ $1 == --preset ]]'
run 1 'the build failed' test
fake cmake ''
fake ctest 'echo "ctest $*"; exit 8'
run 1 'there are failing tests' test
fake ctest 'echo "ctest $*"'
run 0 'ctest --preset cpu --parallel 2 --output-on-failure' test

if ((failures)); then
  printf '%d failure(s)\n' "$failures"
  exit 1
fi
