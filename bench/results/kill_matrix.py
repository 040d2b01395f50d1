#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill_matrix.py FOLDER: FOLDER/kill_matrix.md from the records in FOLDER/rows.jsonl.gz.

The records are those of `faultline mutants`, one a line, in any number and order
(bench/cuda/kill_matrix.sh). Where several have a row, a detector's cell is that of the first in
which it ran: the sanitizer's may come from a run of its own.
"""

import gzip
import json
import pathlib
import sys

DETECTORS = ("tight_loop", "verify", "stress", "sanitizer")


def merged(folder):
    rows = {}
    with gzip.open(folder / "rows.jsonl.gz", "rt") as records:
        for record in records:
            for row in json.loads(record)["mutants"]:
                known = rows.setdefault((row["subject"], row["variant"]), row)
                cells = {c["detector"]: c for c in known["cells"] if c["ran"]}
                for cell in row["cells"]:
                    if cell["ran"]:
                        cells.setdefault(cell["detector"], cell)
                known["merged"] = cells
    return [rows[key] for key in sorted(rows)]


def text_of(cell, row):
    if cell is None:
        return "n/a"
    if cell["detector"] == "sanitizer":
        said = [part for part in cell["note"].split("; ") if not part.endswith(": 0 errors")]
        return ", ".join(said) or "0 errors"
    trials = f"{cell['failed']:,} / {cell['trials']:,}"
    if row["is_mutant"] and cell["right"]:
        first = f", first {cell['trials_to_kill']:,}" if cell["failed"] else ""
        return f"**right**, {trials}{first}"
    if cell["classes"]:
        return f"{cell['classes'][0]}, {trials}"
    return trials


def main():
    folder = pathlib.Path(sys.argv[1])
    rows = merged(folder)
    lines = [
        "# `mutants` on a GPU",
        "",
        "Failed / all trials of each detector; **right**: the required finding came first; first: "
        "the first trial that failed; n/a: did not run; sanitizer: what compute-sanitizer's tools "
        "report of three trials of the kernel alone.",
        "",
        "| variant | required | tight loop | verify | stress | compute-sanitizer |",
        "|---|---|---|---|---|---|",
    ]
    shown = killed = right = caught = clean = open_rows = accused = 0
    for row in rows:
        cells = row["merged"]
        lines.append(
            f"| {row['subject']}@{row['variant']} | {row['required'] or 'no finding'} | "
            + " | ".join(text_of(cells.get(d), row) for d in DETECTORS) + " |")
        values = [cells[d] for d in DETECTORS[:3] if d in cells]
        reported = cells.get("sanitizer", {}).get("killed", False)
        if row["is_mutant"] and values and not row["no_evidence"]:
            shown += 1
            killed += any(c["killed"] for c in values)
            right += any(c["right"] for c in values)
            caught += reported
        elif not row["is_mutant"] and values:
            clean += 1
            open_rows += any(c["outcome"] != "pass" or c["killed"] for c in values)
            accused += reported
    lines += [
        "",
        f"{killed} of {shown} mutants killed, {right} under the right name, compute-sanitizer "
        f"reports something in {caught}; {clean} clean variants, {open_rows} not cleared, "
        f"compute-sanitizer reports something in {accused}.",
    ]
    (folder / "kill_matrix.md").write_text("\n".join(lines) + "\n")
    print(lines[-1])


main()
