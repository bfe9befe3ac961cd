"""The batches that a peer draws and the weights that it begins with, written for the product.

Both sides then train on the very same numbers, so their losses can be compared step by step.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "peers"))

import common  # noqa: E402 - one of the peers' own modules, found by the line above

SHAPES = {"mlp": (784,), "conv": (28, 28, 1)}


def write_batches(kind: str, count: int, path: Path) -> None:
    """The first `count` batches of seed 0 as one .npz: `tokens`, or `x` and `y`."""
    if kind in common.GPT_SIZES:
        batches = common.token_batches(common.GPT_SIZES[kind], 0)
        tokens = np.concatenate(list(islice(batches, count)))
        np.savez(path, tokens=tokens.astype(np.uint16))
        return
    x, y = common.image_data("synthetic", SHAPES[kind])
    drawn = list(islice(common.image_batches(x, y, 128, 0), count))
    np.savez(path, x=np.concatenate([b for b, _ in drawn]), y=np.concatenate([b for _, b in drawn]))


_BLOCK = {
    "norm1/scale": "ln1_g", "norm1/bias": "ln1_b", "qkv/w": "qkv_w", "qkv/b": "qkv_b",
    "proj/w": "proj_w", "proj/b": "proj_b", "norm2/scale": "ln2_g", "norm2/bias": "ln2_b",
    "fc/w": "fc_w", "fc/b": "fc_b", "out/w": "out_w", "out/b": "out_b",
}  # fmt: skip
_PLACES = {"mlp": (0, 2, 4), "conv": (0, 3, 7, 9)}  # of layers with weights, in sx/'s stacks


def write_weights(kind: str, layers: int | None, path: Path) -> None:
    """The weights of seed 0 as one .npz, named as the parameters of sx/'s models."""
    if kind in common.GPT_SIZES:
        size = common.GPT_SIZES[kind]
        given = common.gpt_weights({**size, "layers": layers or size["layers"]}, 0)
        named = {
            "wte/w": given["wte"], "wpe/w": given["wpe"],
            "lnf/scale": given["lnf_g"], "lnf/bias": given["lnf_b"],
        }  # fmt: skip
        for i, block in enumerate(given["blocks"]):
            named |= {f"blocks/{i}/{ours}": block[theirs] for ours, theirs in _BLOCK.items()}
    else:
        pairs = common.mlp_weights(784, 0) if kind == "mlp" else common.conv_weights(0)
        named = {}
        for place, (w, b) in zip(_PLACES[kind], pairs, strict=True):
            named |= {f"body/{place}/w": w, f"body/{place}/b": b}
    np.savez(path, **named)
