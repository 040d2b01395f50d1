#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs that are cut off and continued: the record is that of a run that was not, what was finished
is not run again, and a folder that holds another run is refused.

    resume_test.py FAULTLINE
"""

import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

FAULTLINE = os.path.abspath(sys.argv[1])
TINY = "b=1 h=1 dk=64 dv=64 dtype=bf16"
CELLS = "gemv@dropped_tail n=4 dtype=f16 --sweep k=64,257,100,300 --trials 15 --backend simulator"
MASK = (1 << 64) - 1
RESULTS = ("trials", "piece", "row")


class EndedTooSoon(Exception):
    """The run was over before it could be cut off."""


class Done:
    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr


def environment():
    kept = {k: v for k, v in os.environ.items() if k != "FAULTLINE_STORE"}
    return {**kept, "COLUMNS": "200"}


def run(command):
    return Done(subprocess.run([FAULTLINE, *shlex.split(command)], capture_output=True, text=True,
                               check=False, env=environment()))


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


def lines_of(folder):
    try:
        with open(f"{folder}/journal.tsv", encoding="utf-8", newline="") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    return text.split("\n")[:-1]


def results(folder):
    return [line for line in lines_of(folder) if line.split("\t")[1] in RESULTS]


def cut_off(command, folder, more, by):
    """Start it, and end it by this signal once the journal holds so many results more."""
    enough = len(results(folder)) + more
    process = subprocess.Popen([FAULTLINE, *shlex.split(command)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, env=environment())
    deadline = time.monotonic() + 60
    while len(results(folder)) < enough:
        if process.poll() is not None:
            raise EndedTooSoon(command)
        check(time.monotonic() < deadline, f"{command}: {enough} results")
        time.sleep(0.002)
    process.send_signal(by)
    said = process.communicate()[1]
    if process.returncode >= 0 and not lines_of(folder):
        raise EndedTooSoon(command)
    if by != signal.SIGKILL:
        check(process.returncode == 130, f"{command}: exit {process.returncode}, {said}")
        check(f"--resume {folder}` continues it" in said, said)
    return lines_of(folder)


def record(folder):
    with open(f"{folder}/run.json", encoding="utf-8") as file:
        whole = json.load(file)
    del whole["provenance"]
    return whole


def command_line(folder):
    with open(f"{folder}/run.json", encoding="utf-8") as file:
        return json.load(file)["provenance"]["command_line"]


def continued_equals_uninterrupted(command, more=1, by=signal.SIGINT):
    name = command.split()[0]
    whole = run(f"{command} --run whole")
    check(whole.code in (0, 1), command, whole)
    check(not os.path.exists("whole/journal.tsv"), "a finished run needs no journal")
    for attempt in range(10):  # a machine under load may not get to it in time
        try:
            killed = cut_off(f"{command} --run cut", "cut", more, signal.SIGKILL)
            stopped = cut_off(f"{name} --resume cut", "cut", more, by)
            break
        except EndedTooSoon:
            check(attempt < 9, f"{command}: cut off")
    check(stopped[:len(killed)] == killed or stopped[:len(killed) - 1] == killed[:-1],
          "what was finished stays")
    keys = [line.split("\t")[1:3] for line in results("cut")]
    check(len(keys) == len({tuple(key) for key in keys}), "nothing is run twice")
    check(record("cut")["evidence"]["interrupted"], "marked as unfinished")
    last = expect(run(f"{name} --resume cut"), whole.code)
    check(record("cut") == record("whole"), f"{command}: the same record", last)
    check(command_line("cut") == f"faultline {command} --run cut (resumed)", command_line("cut"))
    check(not os.path.exists("cut/journal.tsv"), "it is finished")
    expect(run(f"{name} --resume cut"), 2, "the run there is finished; `faultline report cut`")


def verify_is_continued():
    continued_equals_uninterrupted(f"verify {CELLS}", 3)


def stress_is_continued():
    continued_equals_uninterrupted(f"stress gla_decode@shared_buffer {TINY} --trials 36 "
                                   "--backend simulator --seed 3", 3, signal.SIGHUP)


def race_is_continued():
    continued_equals_uninterrupted(f"race gla_decode@shared_buffer {TINY} --schedules 12", 3)


def mutants_are_continued():
    continued_equals_uninterrupted("mutants softmax unpack_bwd transpose --backend simulator")


def a_file_is_continued():
    loop = ("mov.u32 %r1, 0;\nL:\n st.global.u32 [%rd1], %r1;\n add.u32 %r1, %r1, 1;\n"
            "setp.lt.u32 %p1, %r1, 2000;\n@%p1 bra L;\n ret;\n")
    with open("k.ptx", "w", encoding="utf-8") as file:
        file.write(".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a"
                   ")\n{\n.reg .u32 %r<2>;\n.reg .u64 %rd<2>;\n.reg .pred %p<2>;\n"
                   f"ld.param.u64 %rd1, [a];\n{loop}}}\n")
    continued_equals_uninterrupted("race k.ptx --entry k --arg buffer:4 --grid 2 --schedules 12", 3)
    evidence = record("whole")["evidence"]
    check(all(0.2 < arm["wilson95"]["low"] < 0.21 and abs(arm["upper95"] - 0.95) < 1e-9
              for arm in evidence["arms"]), f"intervals of 1 of 1: {evidence['arms'][0]}")
    check("no values were compared" in json.dumps(record("whole")["verdict"]), "nothing compared")
    cut_off("race k.ptx --entry k --arg buffer:4 --grid 2 --schedules 12 --run cut", "cut", 1,
            signal.SIGKILL)
    with open("k.ptx", "a", encoding="utf-8") as file:
        file.write("// changed\n")
    expect(run("race --resume cut"), 2, "the kernels' code is not what the run was begun with (k")


def files_in(folder):
    return sorted(os.path.join(where, name) for where, _, names in os.walk(folder)
                  for name in names)


def every_variant_is_continued():
    command = "verify gemv n=40 k=64 dtype=f16 --trials 8 --backend simulator --variant all"
    whole = run(f"{command} --run whole")
    variants = sorted(os.listdir("whole"))
    check(len(variants) >= 2 and whole.code == 0, "all variants", whole)
    process = subprocess.Popen([FAULTLINE, *shlex.split(command + " --run cut")],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env=environment())
    deadline = time.monotonic() + 60
    while sum(os.path.isdir(f"cut/{name}") for name in variants) < 2:
        check(process.poll() is None and time.monotonic() < deadline, "a second variant")
        time.sleep(0.002)
    process.send_signal(signal.SIGSTOP)
    files = files_in("cut")
    expect(run(f"{command} --run cut"), 3, "The journal 'cut/journal.tsv' is held by another")
    check(files_in("cut") == files, "a second start leaves the first one's files as they are")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    said = process.communicate()[1]
    check(process.returncode == 130 and said.count("continues it") == 1 and
          "`faultline verify --resume cut` continues it" in said, said)
    process = subprocess.Popen([FAULTLINE, "verify", "--resume", "cut"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=environment())
    time.sleep(0.05)
    process.kill()
    process.wait()
    # One that is marked as interrupted is not finished, with or without a journal.
    first = next(f"cut/{name}" for name in variants
                 if f"cut/{name}/run.json" in files and f"cut/{name}/journal.tsv" not in files)
    with open(f"{first}/run.json", encoding="utf-8") as file:
        changed = json.load(file)
    changed["evidence"]["interrupted"] = True
    with open(f"{first}/run.json", "w", encoding="utf-8") as file:
        json.dump(changed, file)
    expect(run("verify --resume cut"), 0)
    check(sorted(os.listdir("cut")) == variants, "no journal is left")
    for name in variants:
        check(record(f"cut/{name}") == record(f"whole/{name}"), name)
        check(command_line(f"cut/{name}").startswith(f"faultline {command} --run cut"), name)


def the_store_has_one_run():
    expect(run("verify gemv@dropped_tail n=1 k=257 dtype=f16 --config stages=3 --trials 1 "
               "--backend simulator --store s.db"), 1)
    cut_off(f"verify {CELLS} --run cut --store s.db", "cut", 4, signal.SIGKILL)
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
    expect(run("verify --resume ../cut"), 1, "stored: run 2 in ", "/s.db")
    os.chdir("..")
    connection = sqlite3.connect("s.db")
    check(connection.execute("SELECT count(*), count(finished_at) FROM runs").fetchall() ==
          [(2, 2)], "two runs, both finished")
    check(connection.execute("SELECT times_seen FROM failing_cases WHERE id = 1").fetchall() ==
          [(2,)], "the replay counts once")
    connection.close()


def another_store_replays_nothing_of_its_own():
    failing = ("verify gemv@dropped_tail n=1 dtype=f16 --config stages=3 --trials 1 "
               "--backend simulator")
    expect(run(f"{failing} k=257 --store s.db"), 1)
    expect(run(f"{failing} k=261 --seed 5 --store other.db"), 1)
    shutil.copy("s.db", "w.db")
    whole = run(f"verify {CELLS} --run whole --store w.db")
    cut_off(f"verify {CELLS} --run cut --store s.db", "cut", 2, signal.SIGKILL)
    last = expect(run("verify --resume cut --store other.db"), whole.code,
                  "stored case 1 (n=1 k=257")
    check(record("cut") == record("whole"), "the same record", last)
    connection = sqlite3.connect("other.db")
    check(connection.execute("SELECT times_seen, fixed_at FROM failing_cases WHERE id = 1")
          .fetchall() == [(1, None)], "its case was not replayed")
    connection.close()


def mix(z):
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & MASK
    z = (z ^ z >> 27) * 0x94d049bb133111eb & MASK
    return z ^ z >> 31


def with_checksum(rest):
    data = rest.encode()
    total = mix(len(data))
    for i in range(0, len(data), 8):
        total = mix(total ^ int.from_bytes(data[i:i + 8], "little"))
    return f"{total:016x}\t{rest}"


def write_lines(lines, end="\n"):
    with open("cut/journal.tsv", "w", encoding="utf-8", newline="") as file:
        file.write("\n".join(lines) + end)


def what_does_not_fit_is_refused():
    command = f"verify {CELLS}"
    whole = expect(run(f"{command} --run whole"), 1)
    lines = cut_off(f"{command} --run cut", "cut", 3, signal.SIGINT)
    expect(run("verify --resume nowhere"), 2, "there is no run in this folder")
    expect(run("stress --resume cut"), 2, "the run there is one of `faultline verify`")
    expect(run("verify --resume cut --seed 2"), 2, "--seed decides results")
    expect(run(f"{command} --seed 2 --resume cut"), 2, f"was begun as `faultline {command}",
           "('--seed 2' instead of '--seed 1')")
    expect(run("verify --resume cut --run cut"), 2, "give one of them")
    for kind, place, value, words in (
            ("build", 3, "0123456789abcdef", "begun by another build of faultline"),
            ("runs_on", 3, "cuda: NVIDIA H200", "was begun on cuda: NVIDIA H200, and this is"),
            ("module", 3, "0123456789abcdef", "the kernels' code is not what the run was begun"),
            ("decides", 3, "--odd 1", "was begun with another command line")):
        changed = list(lines)
        at = next(i for i, line in enumerate(lines) if line.split("\t")[1] == kind)
        fields = lines[at].split("\t")
        check(with_checksum("\t".join(fields[1:])) == lines[at], "the checksum of the documents")
        fields[place] = value
        changed[at] = with_checksum("\t".join(fields[1:]))
        write_lines(changed)
        expect(run("verify --resume cut"), 2, words)
    for line in (len(lines) - 2, 0):
        damaged = list(lines)
        damaged[line] = damaged[line][:-1] + ("x" if damaged[line][-1] != "x" else "y")
        write_lines(damaged)
        expect(run("verify --resume cut"), 3, f"is damaged at line {line + 1}")
    write_lines(lines[:4])
    expect(run("verify --resume cut"), 2, "was cut off before anything was finished")
    # The torn end is done again; the whole command line is as good as none.
    torn = list(lines)
    torn[-1] = torn[-1][:len(torn[-1]) // 2]
    write_lines(torn, "")
    last = expect(run(f"{command} --resume cut --json r.json"), whole.code)
    check(record("cut") == record("whole") and os.path.exists("r.json"), "the same record", last)


def a_new_run_keeps_the_old_journal():
    cut_off(f"verify {CELLS} --run cut", "cut", 1, signal.SIGKILL)
    process = subprocess.Popen([FAULTLINE, *shlex.split("verify --resume cut")],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=environment())
    before = len(results("cut"))
    while len(results("cut")) == before and process.poll() is None:
        time.sleep(0.002)
    held = run("verify --resume cut")
    process.kill()
    process.wait()
    expect(held, 3, "is held by another process")
    old = lines_of("cut")
    expect(run("verify gemv n=1 k=8 --trials 1 --backend simulator --run cut"), 0)
    with open("cut/journal.previous.tsv", encoding="utf-8", newline="") as file:
        check(file.read().split("\n")[:len(old)] == old, "the journal of the run before")


def main():
    failures = 0
    for test in (verify_is_continued, stress_is_continued, race_is_continued,
                 mutants_are_continued, a_file_is_continued, every_variant_is_continued,
                 the_store_has_one_run, another_store_replays_nothing_of_its_own,
                 what_does_not_fit_is_refused, a_new_run_keeps_the_old_journal):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            begin = time.monotonic()
            try:
                test()
                print(f"ok    {test.__name__} ({time.monotonic() - begin:.1f} s)")
            except (AssertionError, EndedTooSoon) as problem:
                failures += 1
                print(f"FAIL  {test.__name__}: expected {problem}")
            os.chdir("/")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
