#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's transcript is what the command prints.

    check_transcript.py README.md FAULTLINE

Runs the indented block that starts with "$ faultline" and looks for each of its lines in the
output, in order; "..." stands for lines left out, and durations are not compared.
"""

import os
import re
import shlex
import subprocess
import sys


def normal(line):
    return re.sub(r"; [0-9.]+ m?s$", "; TIME", line.strip())


def main():
    readme, faultline = sys.argv[1:3]
    with open(readme, encoding="ascii") as file:
        text = file.read()
    block = re.search(r"^    \$ faultline (.*?)\n\n(?=\S)", text, re.MULTILINE | re.DOTALL)
    if not block:
        print(f"{readme} has no transcript")
        return 1
    command, _, shown = block.group(1).replace("\\\n", " ").partition("\n")
    environment = {**os.environ, "LC_ALL": "C", "COLUMNS": "80", "NO_COLOR": "1"}
    run = subprocess.run([faultline, *shlex.split(command)], env=environment, check=False,
                         capture_output=True, text=True)
    printed = [normal(line) for line in run.stdout.splitlines()]
    position, compared = 0, 0
    for line in (normal(line) for line in shown.splitlines()):
        if line in ("", "..."):
            continue
        if line not in printed[position:]:
            print(f"{readme} shows a line that `faultline {command}` does not print there:\n"
                  f"  {line}\nIt printed:\n{run.stdout}{run.stderr}")
            return 1
        position = printed.index(line, position) + 1
        compared += 1
    print(f"{compared} lines compared, exit code {run.returncode}")
    return 0 if compared else 1


if __name__ == "__main__":
    sys.exit(main())
