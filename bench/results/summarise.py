#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""summarise.py FOLDER: the records of bench/cuda/campaigns.sh in FOLDER as Markdown, on stdout."""
import gzip
import json
import pathlib
import sys


def read(path):
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def percent(x):
    return f"{100 * x:.3g} %"


def tile_counts(output):
    """Failing trials by position inside the group, for a pipelined output."""
    geometry = output["geometry"]
    group = geometry["tiles_per_group"] or len(output["tiles"])
    counts = [0] * group
    for index, tile in enumerate(output["tiles"]):
        counts[index % group] += tile["bad_trials"]
    return counts if any(counts) else None


def campaign(name, record):
    print(f"### {name}\n")
    print(f"`{record['provenance']['command_line'].replace('faultline ', 'faultline ', 1)}`  ")
    summary = record["verdict"]["summary"]
    print(f"Verdict: {summary}\n")
    print("| arm | failed | of | rate (Wilson 95 %) | outputs wrong | tiles wrong | note |")
    print("|---|---|---|---|---|---|---|")
    for arm in record["evidence"]["arms"]:
        result = arm["result"]
        if result["skipped"]:
            print(f"| {arm['perturbation']['name']} | - | 0 | skipped | | | {result['note']} |")
            continue
        rate = result["failed"] / max(result["trials"], 1)
        if result["failed"]:
            low, high = arm["wilson95"]["low"], arm["wilson95"]["high"]
            shown = f"{percent(rate)} ({percent(low)} .. {percent(high)})"
        else:
            shown = f"0 (below {percent(arm['upper95'])})"
        wrong = ", ".join(f"{o['name']} {o['bad_trials']}" for o in result["outputs"]
                          if o["bad_trials"])
        tiles = [f"{o['name']} {tile_counts(o)}" for o in result["outputs"]
                 if o["geometry"]["pipeline_depth"] and tile_counts(o)]
        note = [] if result["overlap_proven"] else ["overlap not proven"]
        if result["batch"] > 1:
            note.append(f"batch {result['batch']}")
        if result["failed"]:
            note.append(f"first failing trial {result['first_failed_trial']}")
        which = arm["perturbation"]["name"]
        print(f"| {which} | {result['failed']} | {result['trials']} | {shown} "
              f"| {wrong} | {'; '.join(tiles)} | {'; '.join(note)} |")
    rows = [p for p in record["evidence"]["provenance"] if p["matched"] > 0]
    if rows:
        print("\nWhose data wrong tiles held: " + "; ".join(
            f"{p['output_name']} tile {p['destination']} <- tile {p['source']}: "
            f"{p['matched']} of {p['wrong']} wrong elements" for p in rows))
    print()


def bench(name, record):
    print(f"### {name}\n\n`{record['provenance']['command_line']}`  ")
    print(f"Method: {record['analysis_plan']}\n")
    print("| problem | what | graph us | event us | TB/s | of read ceiling | baseline / own "
          "| spread | note |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in record["bench"]:
        ratio = f"{row['ratio_to_baseline']:.3f}" if row["ratio_to_baseline"] else ""
        tbs = f"{row['tb_per_s']:.3f}" if row["tb_per_s"] else ""
        share = percent(row["fraction_of_ceiling"]) if row["fraction_of_ceiling"] else ""
        event = f"{row['median_event_us']:.2f}" if row["median_event_us"] else ""
        print(f"| {row['problem']} | {row['name']} {row['config']} | {row['median_graph_us']:.3f} "
              f"| {event} | {tbs} | {share} | {ratio} | {percent(row['spread_graph'])} "
              f"| {row['note']} |")
    print()


def verify(name, record):
    configs = record["evidence"]["configs"]
    failed = sum(1 for c in configs if c["failed"])
    worst = {}
    for config in configs:
        for output in config["result"]["outputs"]:
            ratio = output["worst_ratio"]
            ratio = float("inf") if isinstance(ratio, str) else float(ratio)
            worst[output["name"]] = max(worst.get(output["name"], 0.0), ratio)
    print(f"| {name} | {record['verdict']['summary'][:120]} | {failed} of {len(configs)} | " +
          ", ".join(f"{k} {v:.3g}" for k, v in worst.items()) + " |")


def main():
    folder = pathlib.Path(sys.argv[1])
    records = {p.name.removesuffix(".gz").removesuffix(".json"): read(p)
               for p in sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")])}
    if not records:
        sys.exit(f"summarise.py: no records in {folder}")
    provenance = next(iter(records.values()))["provenance"]
    backend = provenance["backend"]
    print(f"{backend['device']}, {backend['driver']}, {backend['runtime']}, "
          f"{provenance['started_at'][:10]}\n")
    for name, record in records.items():
        if record["command"] == "bench":
            bench(name, record)
    for name, record in records.items():
        if record["command"] == "stress":
            campaign(name, record)
    sweeps = {n: r for n, r in records.items() if r["command"] == "verify"}
    if sweeps:
        print("### Sweeps\n\n| run | verdict | failed configurations | worst fraction of bound |")
        print("|---|---|---|---|")
        for name, record in sweeps.items():
            verify(name, record)
        print()
    tools = folder / "sanitizer.txt"
    if tools.exists():
        print("### compute-sanitizer\n\n20 trials of the tight loop under each tool.\n")
        print("\n".join("- " + line for line in tools.read_text().splitlines()))


if __name__ == "__main__":
    main()
