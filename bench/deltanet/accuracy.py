#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relative L2 errors of these kernels and of flash-linear-attention's (FLA's), where the delta rule
is ill-conditioned too.

    accuracy.py --fla DIR --out DIR --faultline BINARY

Both sides are compared with `faultline reference`, in double, of the very inputs that they were
given; the inputs of the two sides are drawn alike, but are not the same numbers. A relative L2 is
|got - expected| / |expected| over a whole output. Triton 3.4 to 3.7.0 miscompiles FLA's gated
backward on Hopper, and FLA refuses it there: of FLA's gated kernels only the forward is run.
Writes OUT/accuracy.json and OUT/accuracy.md. Exit code 1 when `faultline verify` failed somewhere
or an output is missing; the tables say where.
"""

import argparse
import datetime
import json
import math
import pathlib
import subprocess
import sys

from compare_fla import import_fla, torch_dtype

BATCH, HEADS = 1, 4
CASES = [
    # (gated, t, keys, beta, gate, states, dtype), d = 64
    (False, 149, "unit", "half", None, "random", "f16"),
    (False, 149, "identical", "half", None, "random", "f16"),
    (False, 149, "identical", "coin", None, "random", "f16"),
    (False, 149, "identical", "coin", None, "random", "bf16"),
    (True, 149, "unit", "half", 0.01, "random", "f16"),
    (True, 149, "identical", "uniform", 0.01, "random", "f16"),
    (True, 149, "identical", "coin", 1, "random", "f16"),
    (True, 149, "identical", "coin", 20, "random", "f16"),
    (True, 149, "identical", "coin", 20, "random", "bf16"),
    (True, 149, "repeated", "coin", 20, "random", "f16"),
]
DIM = 64
FORWARD, BACKWARD = ("o", "hT"), ("dq", "dk", "dv", "dbeta", "dg", "dh0")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--fla", required=True, help="folder that holds the package fla")
    parser.add_argument("--fla-commit", default="unknown")
    parser.add_argument("--faultline", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--backend", default="cuda", help="of faultline verify")
    return parser.parse_args()


def take_first_configuration():
    """Of every kernel that the autotuner would time: accuracy does not wait for the fastest."""
    from triton.runtime.autotuner import Autotuner, OutOfResources

    def run(self, *args, **kwargs):
        for config in self.configs:
            try:
                return self.fn.run(*args, **{**kwargs, **config.all_kwargs()})
            except OutOfResources:
                continue
        raise RuntimeError(f"no configuration of {self.base_fn.__name__} fits this device")

    Autotuner.run = run


def draw(case, seed):
    """Inputs [B, T, H, D] of the distributions of kernels/deltanet/README.md, in double."""
    import numpy
    gated, t, keys, beta, gate, states, _ = case
    random = numpy.random.default_rng(seed)

    def unit(shared, own):
        rows = shared + own
        return rows / numpy.linalg.norm(rows, axis=-1, keepdims=True)

    full, one = (BATCH, t, HEADS, DIM), (BATCH, 1, HEADS, DIM)
    q = unit(0.0, random.normal(size=full))
    k = unit(0.0, random.normal(size=full))
    if keys == "identical":
        k = numpy.broadcast_to(unit(0.0, random.normal(size=one)), full).copy()
    v, do = random.normal(size=full), random.normal(size=full)
    if keys == "repeated":
        v = numpy.broadcast_to(random.normal(size=one), full).copy()
        do = numpy.broadcast_to(random.normal(size=one), full).copy()
    uniform = random.uniform(size=(BATCH, t, HEADS))
    strength = {"half": 0.5 * uniform, "uniform": uniform, "coin": (uniform < 0.5) * 1.0}[beta]
    inputs = {"q": q, "k": k, "v": v, "beta": strength, "do": do}
    if gated:
        inputs["g"] = -gate * random.uniform(size=(BATCH, t, HEADS))
    if states == "random":
        inputs["h0"] = random.normal(size=(BATCH, HEADS, DIM, DIM))
        inputs["dhT"] = random.normal(size=(BATCH, HEADS, DIM, DIM))
    return inputs


def run_fla(fla, case, inputs):
    """{output: array}; the gradients as FLA's autograd gives them."""
    import torch
    gated, dtype = case[0], case[-1]
    kind = torch_dtype(dtype)
    wide = ("g", "h0", "dhT")
    on_device = {
        name: torch.tensor(value, device="cuda", dtype=torch.float32 if name in wide else kind)
        for name, value in inputs.items()}
    leaves = {name: on_device[name].requires_grad_()
              for name in ("q", "k", "v", "beta", "g", "h0") if name in on_device}
    options = dict(scale=1.0, initial_state=leaves.get("h0"), output_final_state=True)
    if gated:
        o, final = fla.gated.chunk_gated_delta_rule(
            leaves["q"], leaves["k"], leaves["v"], leaves["g"], leaves["beta"], **options)
    else:
        o, final = fla.delta.chunk_delta_rule(
            leaves["q"], leaves["k"], leaves["v"], leaves["beta"], **options)
    got = {"o": o, "hT": final}
    if gated:  # see above: its results would be another's fault
        return {name: value.detach().double().cpu().numpy() for name, value in got.items()}
    torch.autograd.backward([o, final], [on_device["do"], on_device["dhT"].to(final.dtype)])
    got.update({"d" + name: leaf.grad for name, leaf in leaves.items()})
    return {name: value.detach().double().cpu().numpy() for name, value in got.items()}


def reference(faultline, case, inputs, folder):
    """What `faultline reference` says of the inputs as the device was given them."""
    import numpy
    import torch
    gated, dtype = case[0], case[-1]
    given, wanted = folder / "given", folder / "wanted"
    for path in (given, wanted):
        path.mkdir(parents=True, exist_ok=True)
        for old in path.glob("*.npy"):
            old.unlink()
    for name, value in inputs.items():
        kind = torch.float32 if name in ("g", "h0", "dhT") else torch_dtype(dtype)
        numpy.save(given / f"{name}.npy", torch.tensor(value).to(kind).double().numpy())
    subject = ("gated_" if gated else "") + "deltanet_bwd"
    subprocess.run([faultline, "reference", subject, "scale=1", "--layout", "bthd", "--inputs",
                    str(given), "--outputs", str(wanted)], check=True, stdout=subprocess.DEVNULL)
    return {path.stem: numpy.load(path) for path in wanted.glob("*.npy")}


def relative(error, size):
    """Error over size, both norms.

    >>> [relative(1.0, 2.0), relative(0.0, 0.0), relative(1.0, 0.0), relative(math.nan, 0.0)]
    [0.5, 0.0, inf, nan]
    """
    if size == 0.0:
        return math.inf if error > 0.0 else error
    return error / size


def worst(values):
    """The largest; NaN is worse than any number, where max() would lose it.

    >>> [worst([1.0, 2.0]), worst([1.0, math.nan]), worst([math.nan, 1.0]), worst([math.inf, 1.0])]
    [2.0, nan, nan, inf]
    """
    values = list(values)
    return math.nan if any(map(math.isnan, values)) else max(values)


def relative_l2(got, expected):
    import numpy
    return relative(float(numpy.linalg.norm(got.reshape(expected.shape) - expected)),
                    float(numpy.linalg.norm(expected)))


def run_faultline(arguments, case):
    """{output: relative L2} of the clean kernels, worst of their configs, and the outputs of
    directions in which `faultline verify` failed."""
    gated, t, keys, beta, gate, states, dtype = case
    problem = [f"b={BATCH}", f"h={HEADS}", f"t={t}", f"dk={DIM}", f"dv={DIM}", f"dtype={dtype}",
               f"keys={keys}", f"beta={beta}", f"states={states}", "scale=1"]
    if gated:
        problem.append(f"gate={gate}")
    result, failed = {}, set()
    for direction in ("fwd", "bwd"):
        file = arguments.out / "verify.json"
        subject = ("gated_" if gated else "") + f"deltanet_{direction}"
        command = [arguments.faultline, "verify", subject, *problem, "--backend", arguments.backend,
                   "--trials", "1", "--quiet", "--json", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        record = json.loads(file.read_text())
        file.unlink()
        errors = errors_of(record)
        if done.returncode not in (0, 4):
            print(f"{' '.join(command)}: exit {done.returncode}", flush=True)
            failed |= set(errors)
        result.update(errors)
    return result, failed


def errors_of(record):
    """{output: relative L2} of a record, worst of its cells.

    >>> outputs = [{"name": "o", "sum_squared_error": e, "sum_squared_expected": 4.0}
    ...            for e in (1.0, "nan")]
    >>> cells = [{"result": {"outputs": [output]}} for output in outputs]
    >>> [errors_of({"evidence": {"configs": cells[:n]}}) for n in (1, 2)]
    [{'o': 0.5}, {'o': nan}]
    """
    errors = {}
    for cell in record["evidence"]["configs"]:
        for output in cell["result"]["outputs"]:
            error, size = output["sum_squared_error"], output["sum_squared_expected"]
            of_cell = relative(*(math.sqrt(float(x)) for x in (error, size)))
            errors[output["name"]] = worst([errors.get(output["name"], 0.0), of_cell])
    return errors


def text_of(error, failed=False):
    """A cell of the table.

    >>> [text_of(0.5), text_of(0.5, True), text_of(None), text_of(math.nan)]
    ['5.00e-01', '5.00e-01, fails', 'missing', 'nan']
    """
    return "missing" if error is None else f"{error:.2e}" + (", fails" if failed else "")


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    import torch
    fla = import_fla(arguments.fla)
    take_first_configuration()
    rows, sound = [], True
    for number, case in enumerate(CASES):
        inputs = draw(case, number)
        expected = reference(arguments.faultline, case, inputs, arguments.out / "tensors")
        theirs = run_fla(fla, case, inputs)
        ours, failed = run_faultline(arguments, case)
        for name in FORWARD + BACKWARD:
            if name == "dg" and not case[0]:
                continue  # no gate
            compared = name in expected and name in theirs
            rows.append({"gated": case[0], "t": case[1], "keys": case[2], "beta": case[3],
                         "gate": case[4], "dtype": case[6], "output": name,
                         "ours": ours.get(name), "ours_failed": name in failed,
                         "fla_ran": not case[0] or name in FORWARD,
                         "fla": relative_l2(theirs[name], expected[name]) if compared else None})
            row = rows[-1]
            sound &= row["ours"] is not None and not row["ours_failed"]
            sound &= row["fla"] is not None or not row["fla_ran"]
            print(row, flush=True)
    record = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "device": torch.cuda.get_device_name(0), "torch": torch.__version__,
              "fla_commit": arguments.fla_commit, "shape": dict(b=BATCH, h=HEADS, d=DIM),
              "rows": rows}
    (arguments.out / "accuracy.json").write_text(json.dumps(record, indent=1) + "\n")
    lines = ["| gated | keys | beta | gate | dtype | output | FLA | ours |",
             "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        cells = [str(row[k]) for k in ("gated", "keys", "beta", "gate", "dtype", "output")]
        cells += [text_of(row["fla"]) if row["fla_ran"] else "-",
                  text_of(row["ours"], row["ours_failed"])]
        lines.append("| " + " | ".join(cells) + " |")
    (arguments.out / "accuracy.md").write_text("\n".join(lines) + "\n")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
