#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store through the command: what is kept, replayed, explained, reduced, rendered and compared,
and what happens when the file cannot be used or the process is killed.

    store_test.py FAULTLINE
"""

import json
import os
import re
import resource
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

FAULTLINE = os.path.abspath(sys.argv[1])
CASE = "gemv n=1 k=257 dtype=f16 --variant dropped_tail --config stages=3 --trials 1 --no-race"
CLEAN = CASE.replace("dropped_tail", "pipelined")


class Done:
    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if k != "FAULTLINE_STORE"}
    return {**kept, "COLUMNS": "200", **more}


def run(command, limit=None, **more):
    def lower():
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return Done(subprocess.run([FAULTLINE, *shlex.split(command)], capture_output=True, text=True,
                               check=False, env=environment(**more), preexec_fn=lower))


def check(condition, what, done=None):
    if condition:
        return
    text = f"\n  exit {done.code}\n  out: {done.out}\n  err: {done.err}" if done else ""
    raise AssertionError(what + text)


def expect(done, code, *texts):
    check(done.code == code, f"exit code {code}", done)
    for text in texts:
        check(text in done.out + done.err, f"'{text}'", done)
    return done


def rows(store, sql):
    connection = sqlite3.connect(store)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def refused(command, text, **more):
    done = expect(run(command, **more), 3, text)
    check(done.err.startswith("faultline: The store '") and done.err.count("\n") == 1,
          "one sentence", done)
    return done


def nothing_is_written_without_a_store():
    expect(run("verify " + CASE + " --backend simulator"), 1)
    check(os.listdir(".") == [], "no file")


def failing_cases_come_first():
    command = f"verify {CASE} --backend simulator --store s.db"
    expect(run(command), 1, "stored: run 1 in s.db; 1 failing case")
    check(os.listdir(".") == ["s.db"], "one file")
    again = expect(run(command + " --json r.json"), 1, "Replayed first: 1 of 1 stored failing case",
                   "stored case 1 (", "failed again: fail(")
    with open("r.json", encoding="utf-8") as file:
        record = json.load(file)
    names = [arm["perturbation"]["name"] if isinstance(arm["perturbation"], dict)
             else arm["perturbation"] for arm in record["evidence"]["arms"]]
    check(any("stored_case_1" in name for name in names), "an arm", again)
    seen = rows("s.db", "SELECT times_seen, fixed_at FROM failing_cases")
    check(seen == [(2, None)], "seen twice")
    expect(run(f"verify {CLEAN} --backend simulator --store s.db"), 0, "stored: run 3 in s.db")
    check(rows("s.db", "SELECT outcome, finished_at IS NULL FROM runs") ==
          [("fail", 0), ("fail", 0), ("pass", 0)], "three runs")
    # The environment names it, too; a report on standard output stands alone.
    done = expect(run(f"verify {CASE} --backend simulator --json -", FAULTLINE_STORE="s.db"), 1)
    json.loads(done.out)
    check(rows("s.db", "SELECT count(*) FROM runs") == [(4,)], "a fourth run")
    expect(run("race gemv@dropped_tail n=1 k=64 --schedules 1 --store s.db"), 1)
    expect(run("stress gemv@pipelined n=1 k=64 --trials 12 --backend simulator --store s.db"), 0)
    check(rows("s.db", "SELECT command FROM runs WHERE id > 4") == [("race",), ("stress",)], "all")
    # What fails in a replay fails the run, although the sweep passes.
    done = expect(run("verify gemv@dropped_tail n=1 k=2048 dtype=f16 --config stages=3 --trials 1 "
                      "--no-race --backend simulator --store s.db --json r.json"), 1,
                  " FAIL  unknown", "stored case 1 failed again: faultline replay fl1.")
    with open("r.json", encoding="utf-8") as file:
        summary = json.load(file)["verdict"]["summary"]
    check("2 of 2 stored cases failed again" in summary and "the others: pass" in summary,
          "both in the summary, not " + summary, done)


def a_case_that_cannot_be_read_is_said():
    expect(run(f"verify {CASE} --backend simulator --store s.db"), 1)
    connection = sqlite3.connect("s.db")
    connection.execute("UPDATE failing_cases SET token = 'fl1.nonsense'")
    connection.commit()
    connection.close()
    done = expect(run(f"verify {CLEAN} --backend simulator --store s.db"), 0)
    done = expect(run("verify gemv@dropped_tail n=1 k=2048 dtype=f16 --config stages=3 --trials 1 "
                      "--no-race --backend simulator --store s.db"), 4, "INCONCLUSIVE",
                  "Replayed first: 0 of 1 stored", "stored case 1 (n=1 k=257",
                  "not judged: not a trial token")
    expect(run("report --store s.db"), 0, "cannot be run: not a trial token")
    expect(run("explain 1 --store s.db"), 2, "stored case 1: not a trial token")


def text_of_a_foreign_store_does_nothing_to_a_terminal():
    expect(run(f"verify {CASE} --backend simulator --store s.db"), 1)
    connection = sqlite3.connect("s.db")
    connection.execute("UPDATE runs SET subject = ?", ("\x1b]0;owned\x07\n  99  forged",))
    connection.execute("UPDATE failing_cases SET finding = ?, command = ?, last_seen = ?",
                       ("\x1b[2J", "a\x1b[31m", "\x9b31m\x1b[1m"))
    connection.commit()
    connection.close()
    listing = run("report --store s.db")
    for done in (listing, run(f"verify {CASE} --backend simulator --store s.db")):
        check(not re.search("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]", done.out + done.err),
              "no control character", done)
    check("[U+001B][2J" in listing.out and "[U+000A]  99" in listing.out, "made visible", listing)


def explains_and_reduces():
    expect(run(f"verify {CASE} --backend simulator --store s.db"), 1,
           " x bound:\n  faultline replay fl1.")
    token = rows("s.db", "SELECT token FROM failing_cases")[0][0]
    wide = " --width 1000"
    done = expect(run("explain " + token + wide), 0, "gemv@dropped_tail n=1 k=257", "fails as ")
    table = {line.split()[1]: line for line in done.out.splitlines() if line.startswith("  ")}
    check(re.search(r" free .*fails at every other value", table["n"]), "n is free", done)
    check(re.search(r" multiple .*passes at multiples of 2048", table["k"]), "k", done)
    check(" free " in table["seed"] and " free " in table["dtype"], "seed and dtype", done)
    line = "faultline verify " + CASE + " --backend simulator"
    for words in ("1 --store s.db", shlex.quote(line), CASE + " --backend simulator"):
        check(run("explain " + words + wide).out == done.out, "the same by other words: " + words)
    expect(run(f"explain {CLEAN} --backend simulator"), 4, "does not fail in 1 trial")
    expect(run("explain 1"), 2, "needs --store FILE")
    expect(run("explain 7 --store s.db"), 2, "has no failing case 7")
    expect(run(f"explain {token} --executions 5"), 0, "the budget was spent")
    quiet = expect(run(f"explain -q {token}"), 0)
    check(quiet.out == done.out.splitlines(keepends=True)[0], "the first line", quiet)
    verbose = expect(run(f"explain -v {token}" + wide), 0, "  k passes at ")
    check(verbose.out.startswith(done.out), "more of the same", verbose)
    narrow = expect(run(f"explain -v {token} --width 60"), 0)
    check(max(map(len, narrow.out.splitlines())) <= 60, "60 columns", narrow)

    done = expect(run(f"reduce -v {token}"), 0, "taken", "k 257 -> 1", "n=1 k=1 ")
    quiet = expect(run(f"reduce -q {token}"), 0)
    check(quiet.out.startswith("faultline replay fl1.") and quiet.out.count("\n") == 1, "a command")
    check(re.search(r"  from  n=1 k=257 .*\n(.*\n)*  to    n=1 k=1 (.*\n)*  the smallest found",
                    done.out), "from what to what", done)
    expect(run(quiet.out[len("faultline "):]), 1)
    expect(run(f"reduce {CLEAN} --backend simulator"), 4, "does not fail in 1 trial")


def renders_and_compares():
    for command in (CASE, CLEAN):
        expect(run(f"verify {command} --backend simulator --store s.db --run {len(command)}"),
               1 if command == CASE else 0)
    listing = expect(run("report --store s.db"), 0, "2 runs, newest first", "1 failing case")
    check("faultline replay fl1." in listing.out, "the command", listing)
    expect(run("report last --store s.db"), 0, "PASS")
    expect(run("report last-1 --store s.db --html p.html"), 0, "FAIL", "html report: p.html")
    folder = expect(run(f"report {len(CASE)} --json -"), 0)
    stored = expect(run("report 1 --store s.db --json -"), 0)
    check(folder.out == stored.out, "the folder's record is the store's")
    expect(run("report last-2 --store s.db"), 2, "holds 2 runs")
    expect(run("report absent"), 3, "cannot be read")
    os.rename(str(len(CASE)), "last-night")
    expect(run("report last-night", FAULTLINE_STORE="s.db"), 0, "FAIL")
    os.rename("last-night", str(len(CASE)))
    expect(run("compare last-1 last --store s.db"), 0, "better", "outcome: fail -> pass")
    expect(run("compare last last-1 --store s.db"), 1, "worse", "outcome: pass -> fail",
           "is new", "rate of ")
    expect(run(f"compare {len(CASE)} {len(CASE)}"), 0, "no difference in ")
    expect(run("verify gemv n=2 k=8 --trials 1 --no-race --backend simulator --store s.db"), 0)
    expect(run("compare last-1 last --store s.db"), 4, "no arm, cell or row in common")
    expect(run("compare last --store s.db"), 2, "takes two RUNs")


def survives_kill_9():
    expect(run(f"verify {CASE} --backend simulator --store s.db"), 1)
    process = subprocess.Popen(
        [FAULTLINE, *shlex.split("verify gemv@dropped_tail --trials 2000 --no-race --backend "
                                 "simulator --store s.db")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
    deadline = time.monotonic() + 60
    while not rows("s.db", "SELECT 1 FROM runs WHERE id = 2 AND trials > 0"):
        check(process.poll() is None and time.monotonic() < deadline, "a checkpoint")
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    check(rows("s.db", "PRAGMA integrity_check") == [("ok",)], "a sound file")
    done = rows("s.db", "SELECT finished_at, trials, record FROM runs ORDER BY id")
    check(done[0][0] and done[1][0] is None and done[1][1] > 0, "what it had done")
    check(json.loads(done[1][2])["evidence"]["interrupted"], "marked as unfinished")
    expect(run("report last --store s.db"), 0, "Cut short: ")
    # What the replay of case 1 showed is kept, too, though the sweep was killed.
    check(rows("s.db", "SELECT times_seen, last_run_id FROM failing_cases WHERE id = 1") ==
          [(2, 2)], "the replay")
    arms = json.loads(done[1][2])["evidence"]["arms"]
    check(any("stored_case_1" in json.dumps(arm["perturbation"]) for arm in arms), "its arm")
    expect(run(f"verify {CLEAN} --backend simulator --store s.db"), 0, "stored: run 3")


def replays_leave_half_of_the_budget():
    expect(run(f"verify {CASE} --backend simulator --store s.db"), 1)
    columns = ("origin, subject, variant, problem, config, backend, data, seed, trial, "
               "perturbation, race, token, command, finding, reason, failed, trials, first_seen, "
               "last_seen, times_seen")
    connection = sqlite3.connect("s.db")
    for seed in range(100, 120):
        values = columns.replace(" seed", f" {seed}")
        connection.execute(f"INSERT INTO failing_cases ({columns}) SELECT {values} "
                           "FROM failing_cases WHERE id = 1")
    connection.commit()
    connection.close()
    expect(run(f"verify {CASE} --backend simulator --store s.db"), 1,
           "Replayed first: 4 of 21 stored", "17 stored cases (", "alike but for data and seed")
    # Of a case that takes longer than half of the budget no other comes after it.
    large = CASE.replace("n=1 ", "n=3000 ")
    expect(run(f"verify {large} --backend simulator --store t.db"), 1)
    done = run(f"verify {large} --backend simulator --store t.db --budget 40ms")
    check(done.code in (1, 4) and "Replayed first: " in done.out, "a verdict", done)
    check("the time for stored cases ran out" in done.out, "not judged", done)


def unusable_files_are_one_sentence():
    command = f"verify {CLEAN} --backend simulator --store "
    refused(command + "no/such.db", "does not exist")
    refused(command + ".", "it is a folder")
    refused(command + "/dev/full", "it is no regular file")
    with open("text", "w", encoding="utf-8") as file:
        file.write("no database " * 20)
    check(refused(command + "text", "it is no SQLite database").out == "", "nothing ran")
    connection = sqlite3.connect("other.db")
    connection.execute("CREATE TABLE songs (title)")
    connection.close()
    refused(command + "other.db", "a database of something else (tables: songs)")
    expect(run(command + "s.db"), 0)
    connection = sqlite3.connect("s.db")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    refused(command + "s.db", "written by a newer faultline (schema 2")
    expect(run(f"{command}r --json r"), 2, "one would replace the other")
    # No room at the end of the run: the verdict is there, and so is the report.
    full = f"verify gemv@pipelined n=40 --trials 1 --no-race --backend simulator --store f.db"
    done = expect(run(full, limit=65536), 3, "the limit on the size of files is reached")
    # A checkpoint may have warned before.
    said = done.err.splitlines()[-1]
    check("PASS" in done.out and said.startswith("faultline: The store"), "the verdict", done)
    # Held by another process from the start.
    expect(run(command + "l.db"), 0)
    connection = sqlite3.connect("l.db")
    connection.execute("BEGIN IMMEDIATE")
    refused(command + "l.db", "another process has held it for more than 5 s")
    connection.close()


def main():
    failures = 0
    for test in (nothing_is_written_without_a_store, failing_cases_come_first,
                 a_case_that_cannot_be_read_is_said,
                 text_of_a_foreign_store_does_nothing_to_a_terminal, explains_and_reduces,
                 renders_and_compares, survives_kill_9, replays_leave_half_of_the_budget,
                 unusable_files_are_one_sentence):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                test()
                print(f"ok    {test.__name__}")
            except AssertionError as problem:
                failures += 1
                print(f"FAIL  {test.__name__}: expected {problem}")
            os.chdir("/")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
