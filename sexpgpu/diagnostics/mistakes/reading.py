"""Text that does not read, and names that no module has."""

from __future__ import annotations

import re

from sexpgpu.diagnostics.mistakes.mend import (
    NAME,
    Mend,
    after,
    replaced,
)
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.source import Span


def missing_alias(found: Diagnostic, span: Span) -> Mend | None:
    alias, colon, _ = span.text.partition(":")
    if not colon or "no module is called" not in found.headline:
        return None
    text = span.source.text
    if re.search(rf":as\s+{re.escape(alias)}\b", text):
        return Mend("mend the require above that was to name it")
    plain = re.search(
        rf'\(require\s+"(?:sexpgpu|\./?[^"]*)/?{re.escape(alias)}(?:\.sx)?"(\s*)\)', text
    )
    if plain is not None:
        told = f"name the module where it is required: (require … :as {alias})"
        return Mend(told, (plain.start(1), plain.end(1), f" :as {alias}"), safe=True)
    if alias not in ("nn", "optim"):
        return None
    first = re.search(r"^\(", text, re.MULTILINE)
    at = first.start() if first else 0
    line = f'(require "sexpgpu/{alias}" :as {alias})\n'
    return Mend(found.fix or "", (at, at, line), safe=True)


LAYERS = {
    "mse-loss": "mse",
    "l1-loss": "mae",
    "crossentropy": "cross-entropy",
    "softmax-cross-entropy": "cross-entropy",
    "cross-entropy-loss": "cross-entropy",
    "nll-loss": "cross-entropy",
    "kaiming-normal": "he-normal",
    "kaiming-uniform": "he-uniform",
    "xavier-normal": "glorot-normal",
    "xavier-uniform": "glorot-uniform",
    "cosine-annealing": "cosine",
    "dense": "linear",
    "fc": "linear",
    "fully-connected": "linear",
    "layernorm": "layer-norm",
    "batchnorm": "batch-norm",
    "rmsnorm": "rms-norm",
    "groupnorm": "group-norm",
    "embed": "embedding",
    "conv": "conv2d",
    "maxpool2d": "max-pool2d",
    "multi-head-attention": "attention",
    "mha": "attention",
    "adam-w": "adamw",
}
"""What other libraries call the definitions of sexpgpu/nn and sexpgpu/optim."""


def layer_name(found: Diagnostic, span: Span) -> Mend | None:
    alias, colon, name = span.text.lower().partition(":")
    name = name.replace("_", "-")
    if not colon or " has no " not in found.headline:
        return None
    if name in ("ones", "zeros"):
        return Mend(f"an initial value may be a number: :init {'1.0' if name == 'ones' else '0.0'}")
    ours = LAYERS.get(name)
    near = re.fullmatch(r"write (\S+)", found.fix or "")
    if ours is None and near is None:
        return None
    written = f"{alias}:{ours}" if ours else near[1] if near else ""
    return Mend(f"write {written}", replaced(span, written))


def double_colon(found: Diagnostic, span: Span) -> Mend | None:
    if not re.fullmatch(rf"{NAME}::{NAME}", span.text):
        return None
    ours = span.text.replace("::", ":")
    return Mend(f"write {ours}", replaced(span, ours), safe=True)


def hash_comment(found: Diagnostic, span: Span) -> Mend | None:
    if not span.text.startswith("#") or span.text[1:2] not in (" ", "\t", "#", "!"):
        return None
    told = "a comment begins with a semicolon: ; …"
    return Mend(told, (span.start, span.start + 1, ";"), safe=True)


def extra_parenthesis(found: Diagnostic, span: Span) -> Mend | None:
    it = "it" if len(span.text) == 1 else "them"
    told = f"remove {it}; or, if the form above should go on to here, what ends that too early"
    return Mend(told, replaced(span, ""), safe=True)


def comma(found: Diagnostic, span: Span) -> Mend | None:
    if not after(span, r"\s"):
        return None
    told = "arguments and elements are separated by spaces: remove the comma"
    return Mend(told, replaced(span, ""), safe=True)


def quoted_path(found: Diagnostic, span: Span) -> Mend | None:
    match = re.match(r"\(require\s+('?([\w./-]+)'?)", span.text)
    if match is None:
        return None
    ours = f'"{match[2].rstrip(chr(39))}"'
    place = (span.start + match.start(1), span.start + match.end(1))
    return Mend(
        f"a text stands in double quotes: write {ours}", (*place, ours), safe=True, place=place
    )
