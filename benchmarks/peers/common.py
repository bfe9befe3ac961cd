"""Shared by all peers: sizes, data, initial weights, the timed loop, the JSON line.

Every peer starts from the same numpy weights and reads the same batches for a
given --seed, so first and last losses must agree between frameworks.
"""
import time
T_PROCESS = time.perf_counter()          # as early as the peer can look at a clock

import argparse
import json
import math
import os
import resource
import statistics
import sys

import numpy as np

GPT_SIZES = {
    #          layers heads width ctx vocab batch
    "nano":  dict(layers=4, heads=4, width=128, ctx=128, vocab=256, batch=16),
    "micro": dict(layers=6, heads=6, width=384, ctx=256, vocab=256, batch=12),
    "small": dict(layers=12, heads=12, width=768, ctx=256, vocab=50304, batch=1),
}
ADAMW = dict(lr=1e-3, min_lr=1e-4, warmup=20, b1=0.9, b2=0.95, eps=1e-8, decay=0.1, clip=1.0)


def arguments(**extra):
    """The flags every peer takes, plus `extra` = {name: dict(add_argument kwargs)}."""
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=50)
    p.add_argument("--warmup", type=int, default=5)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--losses", dest="all_losses", action="store_true", help="every step's loss in the JSON line")
    p.add_argument("--tag", default="", help="free text copied to the JSON line")
    for name, kw in extra.items():
        p.add_argument("--" + name.replace("_", "-"), **kw)
    return p.parse_args()


def gpt_config(args):
    cfg = dict(GPT_SIZES[args.size])
    for key, flag in (("layers", "depth"), ("batch", "batch")):
        if getattr(args, flag, None):
            cfg[key] = getattr(args, flag)
    return cfg


# ---- data -------------------------------------------------------------------
def token_stream(cfg, path=None, n=1 << 18):
    """A uint8/uint16 token array: a file, or a learnable synthetic walk (loss floor ln 4)."""
    if path:
        return np.memmap(path, dtype=np.uint8, mode="r")
    jumps = np.random.default_rng(1234).choice([1, 2, 3, 5], size=n)
    return (np.cumsum(jumps) % cfg["vocab"]).astype(np.uint16)


def token_batches(cfg, seed, path=None):
    """Endless int32 [batch, ctx+1] windows drawn at random from the stream."""
    data, rng = token_stream(cfg, path), np.random.default_rng(seed)
    window = np.arange(cfg["ctx"] + 1)
    while True:
        start = rng.integers(0, len(data) - cfg["ctx"] - 1, cfg["batch"])
        yield data[start[:, None] + window].astype(np.int32)


def image_data(source, shape):
    """(x float32 [n,*shape], y int32 [n]): synthetic, scikit-learn digits, or an .npz."""
    if source == "synthetic":
        rng = np.random.default_rng(99)
        centres = rng.normal(size=(10, math.prod(shape))).astype(np.float32)
        y = rng.integers(0, 10, 8192).astype(np.int32)
        x = 0.05 * centres[y] + 0.5 * rng.normal(size=(8192, centres.shape[1])).astype(np.float32)
        return x.reshape(-1, *shape), y
    if source == "digits":
        from sklearn.datasets import load_digits      # bundled with scikit-learn
        d = load_digits()
        return (d.data / 16.0).astype(np.float32), d.target.astype(np.int32)
    z = np.load(source)
    x = z["x_train"].astype(np.float32) / 255.0
    return x.reshape(-1, *shape), z["y_train"].astype(np.int32)


def image_batches(x, y, batch, seed):
    """Endless shuffled epochs of (x, y); the short last batch of an epoch is dropped."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(x))
        for i in range(0, len(x) - batch + 1, batch):
            pick = order[i:i + batch]
            yield x[pick], y[pick]


# ---- initial weights --------------------------------------------------------
def gpt_weights(cfg, seed):
    """{'wte','wpe','lnf_g','lnf_b','blocks':[{...12 arrays}]}; GPT-2 initialisation."""
    rng, C, L = np.random.default_rng(seed), cfg["width"], cfg["layers"]

    def normal(*shape, std=0.02):
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(std)

    zeros = lambda *s: np.zeros(s, np.float32)
    ones = lambda *s: np.ones(s, np.float32)
    resid = 0.02 / math.sqrt(2 * L)
    return dict(
        wte=normal(cfg["vocab"], C), wpe=normal(cfg["ctx"], C),
        blocks=[dict(
            ln1_g=ones(C), ln1_b=zeros(C),
            qkv_w=normal(C, 3 * C), qkv_b=zeros(3 * C),
            proj_w=normal(C, C, std=resid), proj_b=zeros(C),
            ln2_g=ones(C), ln2_b=zeros(C),
            fc_w=normal(C, 4 * C), fc_b=zeros(4 * C),
            out_w=normal(4 * C, C, std=resid), out_b=zeros(C)) for _ in range(L)],
        lnf_g=ones(C), lnf_b=zeros(C))


def dense_weights(sizes, rng):
    """[(w [in,out], b [out])] with He-normal weights."""
    return [(rng.standard_normal((i, o), dtype=np.float32) * np.float32(math.sqrt(2 / i)),
             np.zeros(o, np.float32)) for i, o in zip(sizes, sizes[1:])]


def mlp_weights(features, seed, hidden=512):
    return dense_weights([features, hidden, hidden, 10], np.random.default_rng(seed))


def conv_weights(seed):
    """Two 3x3 kernels (HWIO) and two dense layers of the 28x28 convnet."""
    rng = np.random.default_rng(seed)
    kernel = lambda i, o: (rng.standard_normal((3, 3, i, o), dtype=np.float32)
                           * np.float32(math.sqrt(2 / (9 * i))), np.zeros(o, np.float32))
    return [kernel(1, 32), kernel(32, 64)] + dense_weights([7 * 7 * 64, 128, 10], rng)


# ---- measuring --------------------------------------------------------------
def lr_at(step, total, h=ADAMW):
    """Linear warmup, then cosine to min_lr (the schedule every GPT peer uses)."""
    if step < h["warmup"]:
        return h["lr"] * (step + 1) / (h["warmup"] + 1)
    t = min(1.0, (step - h["warmup"]) / max(1, total - h["warmup"]))
    return h["min_lr"] + 0.5 * (1 + math.cos(math.pi * t)) * (h["lr"] - h["min_lr"])


def peak_rss_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Window:
    """Wall time, own CPU time and cores used by others between two moments.

    On a shared machine `foreign_cores` tells whether a timing can be trusted.
    """

    def __init__(self):
        self.start = self.now()

    @staticmethod
    def now():
        ticks = [int(n) for n in open("/proc/stat").readline().split()[1:9]]
        busy = sum(ticks) - ticks[3] - ticks[4]                 # less idle and iowait
        own = resource.getrusage(resource.RUSAGE_SELF)
        kids = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = own.ru_utime + own.ru_stime + kids.ru_utime + kids.ru_stime
        return time.perf_counter(), cpu, busy / os.sysconf("SC_CLK_TCK")

    def close(self):
        wall, cpu, busy = (b - a for a, b in zip(self.start, self.now()))
        return wall, cpu, max(0.0, (busy - cpu) / max(wall, 1e-9))


PROCESS = Window()


def timed_loop(step, state, batches, args, read, items, per_call=1, lag=1, stages=None):
    """Run 1 + warmup + steps calls of `step(state, batch) -> (state, loss)`.

    `read(loss)` blocks and gives a float. Losses are read `lag` calls late
    (0 = read at once, None = only at the end). `items` = tokens or samples a
    step; `per_call` = optimizer steps in one call. Returns the JSON fields.
    """
    calls = max(1, args.steps // per_call)
    t0 = time.perf_counter()
    state, loss = step(state, next(batches))
    first = read(loss)
    t_first = time.perf_counter()
    print(json.dumps(dict(event="first-step", loss=first)), flush=True)     # seen by run.py
    _, first_cpu, first_foreign = PROCESS.close()
    for _ in range(args.warmup):
        state, loss = step(state, next(batches))
    read(loss)
    window, faults = Window(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pending, stamps, losses = [], [time.perf_counter()], []
    for _ in range(calls):
        state, loss = step(state, next(batches))
        pending.append(loss)
        if lag is not None and len(pending) > lag:
            losses.append(read(pending.pop(0)))
        stamps.append(time.perf_counter())
    losses.extend(read(p) for p in pending)
    last = losses[-1] if losses else read(loss)
    end = time.perf_counter()
    _, cpu, foreign = window.close()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    ms = [1e3 * (b - a) / per_call for a, b in zip(stamps, stamps[1:])]
    ms = ms[lag or 0:] or ms             # the first `lag` calls return before they are done
    rate = calls * per_call / (end - stamps[0])
    out = dict(steps_per_s=rate, median_step_ms=statistics.median(ms),
               min_step_ms=min(ms), p90_step_ms=sorted(ms)[int(0.9 * (len(ms) - 1))],
               cpu_ms_per_step=1e3 * cpu / (calls * per_call), foreign_cores=foreign,
               page_faults_per_step=faults / (calls * per_call), items_per_s=rate * items,
               first_step_s=t_first - t0 + sum((stages or {}).values()),
               process_to_first_step_s=t_first - T_PROCESS, first_cpu_s=first_cpu,
               first_foreign_cores=first_foreign,
               peak_rss_mib=peak_rss_mib(), first_loss=first, last_loss=last,
               tail_loss=statistics.fmean(losses[-8:] or [last]))
    if args.all_losses:
        out["losses"] = [first, *losses]
    out.update(stages or {})
    return out


def emit(script, args, fields, **more):
    line = dict(script=os.path.basename(script), **vars(args), **more, **fields)
    print(json.dumps({k: round(v, 5) if isinstance(v, float) else v for k, v in line.items()}))
    sys.stdout.flush()
