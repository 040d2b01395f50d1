#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of PyTorch's float64 autograd of the naive delta rule, beside delta_reference_bench.

    taskset -c 0,1 python3 autograd.py --threads 2 [--b 2 --h 4 --t 2048 --d 64 --gate 0]

The recurrence is written as everybody writes it: one Python step per time step, batched over heads.
"""
import argparse
import time

import torch


def delta_rule(q, k, v, beta, g, scale):
    """o [B, H, T, D] and the final state; q, k, v [B, H, T, D], beta, g [B, H, T]."""
    state = q.new_zeros(*q.shape[:2], k.shape[-1], v.shape[-1])
    outputs = []
    for t in range(q.shape[2]):
        if g is not None:
            state = state * g[:, :, t, None, None].exp()
        read = torch.einsum("bhk,bhkv->bhv", k[:, :, t], state)
        write = beta[:, :, t, None] * (v[:, :, t] - read)
        state = state + k[:, :, t, :, None] * write[:, :, None, :]
        outputs.append(scale * torch.einsum("bhk,bhkv->bhv", q[:, :, t], state))
    return torch.stack(outputs, 2), state


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("b", 2), ("h", 4), ("t", 2048), ("d", 64), ("threads", 2),
                          ("repeats", 3)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--gate", type=float, default=0.0, help="g uniform on [-gate, 0)")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    shape = (a.b, a.h, a.t, a.d)
    q, k = (torch.nn.functional.normalize(torch.randn(shape, dtype=torch.float64), dim=-1)
            for _ in range(2))
    v, do = (torch.randn(shape, dtype=torch.float64) for _ in range(2))
    beta = torch.rand(shape[:3], dtype=torch.float64)
    g = -a.gate * torch.rand(shape[:3], dtype=torch.float64) if a.gate > 0 else None
    inputs = [x for x in (q, k, v, beta, g) if x is not None]
    for x in inputs:
        x.requires_grad_()
    best = float("inf")
    for _ in range(a.repeats):
        start = time.perf_counter()
        o, _ = delta_rule(q, k, v, beta, g, 1.0)
        torch.autograd.grad(o, inputs, do)
        best = min(best, time.perf_counter() - start)
    print(f"torch {torch.__version__} float64 autograd of the recurrence, {a.threads} threads: "
          f"B={a.b} H={a.h} T={a.t} D={a.d} gate={a.gate}: {1e3 * best:.1f} ms "
          f"(best of {a.repeats})")


if __name__ == "__main__":
    main()
