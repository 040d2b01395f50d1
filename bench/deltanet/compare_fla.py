#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DeltaNet kernels of this repository beside those of flash-linear-attention (FLA), in one run.

    compare_fla.py --fla DIR --out DIR [--faultline BINARY] [--parts chunk,decode] ...

DIR of --fla holds FLA's package `fla` (a checkout of its repository). Needs PyTorch and Triton.

Both sides are timed the same way: a CUDA graph of N executions on the same buffers is replayed, and
a figure is the replay's time over N; the median of the replays is reported.
FLA's forward is its public operator under no_grad, its backward the function that its autograd
calls (which recomputes w, u and the chunk states, as `deltanet_bwd` does); neither is given an
initial state, nor asked for a final one. FLA's autotuner chooses among FLA's own configurations, at
sequence length --tune-length; the kernels are compiled beforehand by --jobs processes. --tuned FILE
keeps what it chose, and is read instead when it exists.

Inputs have the shapes, dtypes and distributions of the subjects' defaults: q, k, v, do = 0.1
normal, beta uniform on [0, 0.5), g uniform on [-1, 0), scale 1.

Writes OUT/fla.json (every sample) and OUT/fla.md (the table).
"""

import argparse
import ast
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import time

LENGTHS = (2048, 4096, 8192, 16384)
BATCH, HEADS = 2, 4
CHUNK_EXECUTIONS, DECODE_EXECUTIONS = 4, 256  # in a graph
CHUNK_FAMILIES = [
    # (gated, head dimension, dtype)
    (False, 64, "f16"), (False, 64, "bf16"), (False, 128, "f16"), (False, 128, "bf16"),
    (True, 128, "bf16"), (True, 128, "f16"), (True, 64, "bf16"),
]
DECODE_POINTS = [
    # (gated, batch, heads, head dimension, dtype, dtype of the state)
    (gated, batch, 32, 128, "bf16", state)
    for gated in (False, True)
    for batch in (1, 64)
    for state in ("f32", "input")
]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fla", required=True, help="folder that holds the package fla")
    parser.add_argument("--fla-commit", default="unknown", help="recorded in the JSON")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--faultline", help="the command; absent: only FLA is timed")
    parser.add_argument("--parts", default="chunk,decode")
    parser.add_argument("--families", default="",
                        help="of the chunk part, e.g. 64f16,128bf16,g128bf16; default: all")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--tune-length", type=int, default=8192)
    parser.add_argument("--tuned", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--compile-share", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def wanted_families(arguments):
    def name(gated, dim, dtype):
        return ("g" if gated else "") + f"{dim}{dtype}"
    chosen = set(filter(None, arguments.families.split(",")))
    return [f for f in CHUNK_FAMILIES if not chosen or name(*f) in chosen]


# ---- FLA ----

def tuning_key(tuner, args, kwargs):
    """As triton.runtime.autotuner.Autotuner.run makes it."""
    given = {**dict(zip(tuner.arg_names, args)), **kwargs}
    given = {k: v for k, v in given.items() if k in tuner.arg_names}
    key = [given[k] for k in tuner.keys if k in given]
    key += [str(v.dtype) for v in given.values() if hasattr(v, "dtype")]
    return str(tuple(key))


def kernel_name(tuner):
    function = tuner.base_fn if hasattr(tuner, "base_fn") else tuner.fn
    return f"{function.__module__}.{function.__name__}"


class Tuning:
    """What the autotuner chose, by kernel and key, kept in a file."""

    def __init__(self, path):
        self.path = path
        self.chosen = json.loads(path.read_text()) if path and path.exists() else {}

    def config_of(self, tuner, key):
        wanted = self.chosen.get(kernel_name(tuner), {}).get(key)
        return next((c for c in tuner.configs if str(c) == wanted), None)

    def remember(self, tuner, key, config):
        self.chosen.setdefault(kernel_name(tuner), {})[key] = str(config)

    def save(self):
        if self.path:
            self.path.write_text(json.dumps(self.chosen, indent=1, sort_keys=True) + "\n")


def patch_autotuner(tuning, share):
    """Short benchmarks of configurations, and choices kept. With share = (i, n): compiles the i-th
    of every n configurations and launches nothing."""
    import triton
    from triton.runtime.autotuner import Autotuner

    original = Autotuner.run
    Autotuner.do_bench = property(lambda self: lambda call, quantiles: triton.testing.do_bench(
        call, warmup=1, rep=4, quantiles=quantiles))
    seen = [0]

    def compile_share(self, *args, **kwargs):
        config = tuning.config_of(self, tuning_key(self, args, kwargs))
        for candidate in [config] if config else self.configs:
            seen[0] += 1
            if seen[0] % share[1] == share[0]:
                try:
                    self.fn.run(*args, **{**kwargs, **candidate.all_kwargs(), "warmup": True})
                except Exception as error:  # the autotuner will skip it likewise
                    print(f"{kernel_name(self)} {candidate}: {error}", file=sys.stderr)

    def run(self, *args, **kwargs):
        key = tuning_key(self, args, kwargs)
        config = tuning.config_of(self, key)
        if config:
            return self.fn.run(*args, **{**kwargs, **config.all_kwargs()})
        result = original(self, *args, **kwargs)
        tuning.remember(self, key, self.best_config)
        return result

    Autotuner.run = compile_share if share else run


def import_fla(folder):
    """FLA's operators without the packages around them, whose modules need what is not here."""
    import types
    sys.path.insert(0, folder)
    root = pathlib.Path(folder) / "fla"
    for name in ("fla", "fla.ops", "fla.modules"):
        package = types.ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        for line in (root / "__init__.py").read_text().splitlines():
            if name == "fla" and line.startswith("__version__"):
                package.__version__ = ast.literal_eval(line.split("=")[1].strip())
        sys.modules[name] = package
    from fla.ops.delta_rule import chunk as delta
    from fla.ops.delta_rule import fused_recurrent as delta_recurrent
    from fla.ops.gated_delta_rule import chunk as gated
    from fla.ops.gated_delta_rule import fused_recurrent as gated_recurrent
    # FLA refuses its gated backward where Triton (3.4 to 3.7.0, on Hopper) miscompiles it. It is
    # timed here all the same, as the bar; its results are not looked at.
    from fla.ops.common import chunk_o
    chunk_o.TRITON_ABOVE_3_7_1 = True
    return types.SimpleNamespace(delta=delta, gated=gated, delta_recurrent=delta_recurrent,
                                 gated_recurrent=gated_recurrent,
                                 version=sys.modules["fla"].__version__)


def torch_dtype(name):
    import torch
    return {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[name]


def chunk_calls(fla, gated, dim, dtype, length):
    """{'fwd': call, 'bwd': call} on fresh inputs [B, T, H, D]."""
    import torch
    kind = torch_dtype(dtype)
    generator = torch.Generator("cuda").manual_seed(1)

    def normal(*shape):
        return (0.1 * torch.randn(*shape, device="cuda", generator=generator)).to(kind)

    def uniform(*shape):
        return torch.rand(*shape, device="cuda", generator=generator)

    q, k, v, do = (normal(BATCH, length, HEADS, dim) for _ in range(4))
    beta = (0.5 * uniform(BATCH, length, HEADS)).to(kind)
    if not gated:
        _, a, _ = fla.delta.chunk_delta_rule_fwd(q, k, v, beta, 1.0, None, False)

        def forward():
            return fla.delta.chunk_delta_rule(q, k, v, beta, scale=1.0)

        def backward():
            return fla.delta.chunk_delta_rule_bwd(q, k, v, beta, a, 1.0, None, do, None)
    else:
        g = -uniform(BATCH, length, HEADS)
        saved = fla.gated.chunk_gated_delta_rule_fwd(q, k, v, g, beta, 1.0, None, False)
        sums, a = saved[0], saved[2]

        def forward():
            return fla.gated.chunk_gated_delta_rule(q, k, v, g, beta, scale=1.0)

        def backward():
            return fla.gated.chunk_gated_delta_rule_bwd(q, k, v, sums, beta, a, 1.0, None, do,
                                                        None)
    return {"fwd": forward, "bwd": backward}


def decode_call(fla, gated, batch, heads, dim, dtype, state):
    import torch
    kind = torch_dtype(dtype)
    generator = torch.Generator("cuda").manual_seed(1)

    def normal(*shape):
        return 0.1 * torch.randn(*shape, device="cuda", generator=generator)

    q, k, v = (normal(batch, 1, heads, dim).to(kind) for _ in range(3))
    h0 = normal(batch, heads, dim, dim).to(kind if state == "input" else torch.float32)
    beta = (0.5 * torch.rand(batch, 1, heads, device="cuda", generator=generator)).to(kind)
    if not gated:
        return lambda: fla.delta_recurrent.fused_recurrent_delta_rule_fwd(
            q, k, v, beta, 1.0, h0, True)
    g = -torch.rand(batch, 1, heads, device="cuda", generator=generator)
    return lambda: fla.gated_recurrent.fused_recurrent_gated_delta_rule_fwd(
        q, k, v, g=g, beta=beta, scale=1.0, initial_state=h0, output_final_state=True)


def time_graph(call, executions, samples):
    """Microseconds of one execution, one figure a replay."""
    import torch
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(executions):
            call()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    figures = []
    for _ in range(samples):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        figures.append(round(begin.elapsed_time(end) * 1e3 / executions, 3))
    return figures


def compile_everything(arguments, fla):
    import torch
    with torch.no_grad():
        if "chunk" in arguments.parts:
            for family in wanted_families(arguments):
                for call in chunk_calls(fla, *family, arguments.tune_length).values():
                    call()
        if "decode" in arguments.parts:
            for point in DECODE_POINTS:
                decode_call(fla, *point)()


def time_fla(arguments, fla, tuning):
    import torch
    rows = []

    def record(subject, problem, figures):
        rows.append({"subject": subject, "problem": problem, "fla_us": figures})
        print(f"fla {subject} {problem}: {statistics.median(figures):.2f} us", flush=True)

    with torch.no_grad():
        if "decode" in arguments.parts:
            for point in DECODE_POINTS:
                gated, batch, heads, dim, dtype, state = point
                subject = ("gated_" if gated else "") + "deltanet_decode"
                problem = dict(b=batch, h=heads, dk=dim, dv=dim, dtype=dtype, state=state)
                figures = time_graph(decode_call(fla, *point), DECODE_EXECUTIONS,
                                     arguments.samples)
                record(subject, problem, figures)
        if "chunk" in arguments.parts:
            for gated, dim, dtype in wanted_families(arguments):
                started = time.time()
                for call in chunk_calls(fla, gated, dim, dtype, arguments.tune_length).values():
                    call()
                torch.cuda.synchronize()
                print(f"tuned D={dim} {dtype} gated={gated}: {time.time() - started:.1f} s",
                      flush=True)
                tuning.save()
                for length in map(int, arguments.lengths.split(",")):
                    for direction, call in chunk_calls(fla, gated, dim, dtype, length).items():
                        subject = ("gated_" if gated else "") + "deltanet_" + direction
                        problem = dict(b=BATCH, h=HEADS, t=length, dk=dim, dv=dim, dtype=dtype)
                        record(subject, problem,
                               time_graph(call, CHUNK_EXECUTIONS, arguments.samples))
    return rows


# ---- this repository ----

def time_faultline(arguments, rows):
    """Adds 'ours' to each row: what `faultline bench` says of each clean variant and config."""
    def key(problem):
        return tuple(sorted((k, str(v)) for k, v in problem.items()))

    for subject in dict.fromkeys(row["subject"] for row in rows):
        wanted = {key(row["problem"]): row for row in rows if row["subject"] == subject}
        names = {k for row in wanted.values() for k in row["problem"]}
        file = arguments.out / f"bench_{subject}.json"
        executions = DECODE_EXECUTIONS if "decode" in subject else CHUNK_EXECUTIONS
        command = [arguments.faultline, "bench", subject, "--hot", "--graph-launches",
                   str(executions), "--samples", str(arguments.samples), "-v", "--quiet", "--json",
                   str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not file.exists():
            print(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}", flush=True)
            continue
        for measured in json.loads(file.read_text())["bench"]:
            values = dict(word.split("=", 1) for word in measured["problem"].split())
            row = wanted.get(key({k: v for k, v in values.items() if k in names}))
            if row is not None:
                row.setdefault("ours", []).append(
                    {k: measured[k] for k in ("name", "config", "median_graph_us", "spread_graph",
                                              "contaminated")})


def best_of_ours(row):
    timed = [m for m in row.get("ours", []) if m["median_graph_us"] > 0]
    return min(timed, key=lambda m: m["median_graph_us"], default=None)


def table(rows):
    lines = ["| subject | problem | FLA us | ours us | ours / FLA | config |",
             "|---|---|---|---|---|---|"]
    for row in rows:
        fla = statistics.median(row["fla_us"])
        ours = best_of_ours(row)
        problem = " ".join(f"{k}={v}" for k, v in row["problem"].items())
        cells = [f"{ours['median_graph_us']:.2f}", f"{ours['median_graph_us'] / fla:.3f}",
                 ours["config"]] if ours else ["-", "-", "-"]
        lines.append(f"| {row['subject']} | {problem} | {fla:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write_record(path, record):
    """A line a row."""
    head = json.dumps({k: v for k, v in record.items() if k != "rows"}, indent=1)
    rows = ",\n  ".join(json.dumps(row) for row in record["rows"])
    path.write_text(f'{head[:-2]},\n "rows": [\n  {rows}\n ]\n}}\n')


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    tuning = Tuning(arguments.tuned)
    share = tuple(map(int, arguments.compile_share.split("/"))) if arguments.compile_share else None
    if not share:  # compile with all cores, each process a share of every kernel's configurations
        started = time.time()
        workers = [subprocess.Popen([sys.executable, *sys.argv, "--compile-share",
                                     f"{i}/{arguments.jobs}"], stdout=subprocess.DEVNULL)
                   for i in range(arguments.jobs)]
        failed = sum(worker.wait() != 0 for worker in workers)
        print(f"compiled in {time.time() - started:.1f} s ({failed} of {arguments.jobs} processes "
              "failed)", flush=True)
    import torch
    import triton
    fla = import_fla(arguments.fla)
    patch_autotuner(tuning, share)
    if share:
        compile_everything(arguments, fla)
        return
    record = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": [word.replace(str(arguments.out), "OUT") for word in sys.argv],
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "fla": {"commit": arguments.fla_commit, "version": fla.version},
        "samples": arguments.samples,
        "tune_length": arguments.tune_length,
        "rows": time_fla(arguments, fla, tuning),
    }
    tuning.save()
    path = arguments.out / "fla.json"
    write_record(path, record)
    if arguments.faultline:
        time_faultline(arguments, record["rows"])
        write_record(path, record)
    text = table(record["rows"])
    (arguments.out / "fla.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
