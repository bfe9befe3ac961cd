"""Text that does not read, and names that no module has."""

from __future__ import annotations

import re

from sexpgpu.diagnostics.mistakes.mend import (
    NAME,
    Mend,
    after,
    before,
    replaced,
)
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.source import Span


def missing_alias(found: Diagnostic, span: Span) -> Mend | None:
    alias, colon, _ = span.text.partition(":")
    if not colon or "no module is called" not in found.headline:
        return None
    text = span.source.text
    if re.search(rf"\bas\s+[\"':]?{re.escape(alias)}\b", text):
        return Mend("mend the require that was to name it: at the top level, above this form")
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
    "crossentropyloss": "cross-entropy",
    "categorical-crossentropy": "cross-entropy",
    "sparse-categorical-crossentropy": "cross-entropy",
    "sparse-categorical-cross-entropy": "cross-entropy",
    "softmax-cross-entropy-with-integer-labels": "cross-entropy",
    "mseloss": "mse",
    "mean-squared-error": "mse",
    "l1loss": "mae",
    "nllloss": "nll",
    "huber-loss": "huber",
    "smooth-l1-loss": "smooth-l1",
    "kl-div": "kl-divergence",
    "bce": "binary-cross-entropy-with-logits",
    "bceloss": "binary-cross-entropy-with-logits",
    "bcewithlogitsloss": "binary-cross-entropy-with-logits",
    "bce-with-logits": "binary-cross-entropy-with-logits",
    "binary-cross-entropy": "binary-cross-entropy-with-logits",
    "dropout": "dropout-layer",
    "transformer-encoder-layer": "transformer-block",
    "transformer-layer": "transformer-block",
    "transformer": "transformer-block",
    "multiheadattention": "attention",
    "self-attention": "attention",
    "adaptive-avg-pool2d": "global-avg-pool",
    "global-average-pooling": "global-avg-pool",
    "maxpool": "max-pool2d",
    "avgpool2d": "avg-pool2d",
    "batchnorm2d": "batch-norm",
    "batchnorm1d": "batch-norm",
    "batch-norm2d": "batch-norm",
    "leakyrelu": "leaky-relu",
    "cosine-annealing-lr": "cosine",
    "cosineannealinglr": "cosine",
    "onecyclelr": "one-cycle",
    "steplr": "step-decay",
    "exponentiallr": "exponential-decay",
}
"""What other libraries call the definitions of sexpgpu/nn and sexpgpu/optim."""


def layer_name(found: Diagnostic, span: Span) -> Mend | None:
    alias, colon, name = span.text.lower().partition(":")
    name = name.replace("_", "-")
    if not colon or " has no " not in found.headline:
        return None
    if name in ("sequential", "modulelist", "module-list"):
        return Mend(
            "parts in a row are (stack a b …), a function among them #'relu; n alike are "
            "(repeat n form)"
        )
    if name in ("ones", "zeros"):
        return Mend(f"an initial value may be a number: :init {'1.0' if name == 'ones' else '0.0'}")
    ours = LAYERS.get(name)
    near = re.fullmatch(r"write (\S+)", found.fix or "")
    if ours is None and near is None:
        return None
    written = f"{alias}:{ours}" if ours else near[1] if near else ""
    return Mend(f"write {written}", replaced(span, written))


def trailing_colon(found: Diagnostic, span: Span) -> Mend | None:
    """`batch: 3`, `(lambda x: …)`."""
    match = re.fullmatch(r"\{?([A-Za-z][\w-]*):", span.text)
    if match is None:
        return None
    if before(span, r"\(\s*lambda\s+"):
        return Mend(
            f"parameters are a list: (lambda ({match[1]}) …)", replaced(span, f"({match[1]})")
        )
    ours = f":{match[1].replace('_', '-')}"
    return Mend(f"the colon comes first: {ours}", replaced(span, ours))


def commented_parenthesis(found: Diagnostic, span: Span) -> Mend | None:
    """A semicolon at the end of a form, as other languages have it, hides what closes it."""
    text = span.source.text
    end = text.find("\n(", span.start + 1)
    form = text[span.start : end if end > 0 else None]
    match = re.search(r"\)(;)[ \t]*\)+[ \t]*$", form, re.MULTILINE)
    if match is None:
        return None
    at = span.start + match.start(1)
    told = "a semicolon begins a comment, which hides the parentheses behind it: remove it"
    return Mend(told, (at, at + 1, ""), safe=True)


def require_options(found: Diagnostic, span: Span) -> Mend | None:
    """`(require "…" :as "nn")`, `(require "…" as nn)`, `(require :asdf)`."""
    match = re.match(rf'\(require\s+"[^"]*"\s+(:?as\s+"?({NAME}?)"?)\s*\)', span.text)
    if match is not None:
        place = (span.start + match.start(1), span.start + match.end(1))
        ours = f":as {match[2]}"
        return Mend(f"write {ours}", (*place, ours), safe=True, place=place)
    if re.match(r"\(require\s+:", span.text):
        return Mend(
            "libraries of Common Lisp cannot be loaded; a module is a file of this language"
        )
    return None


def module_path(found: Diagnostic, span: Span) -> Mend | None:
    """`(require "nn")`."""
    match = re.fullmatch(r'"(nn|optim)(?:\.sx)?"', span.text)
    if match is None:
        return None
    ours = f'"sexpgpu/{match[1]}"'
    return Mend(f"write {ours}", replaced(span, ours), safe=True)


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
    path = match[2].rstrip("'")
    ours = f'"{"sexpgpu/" if path in ("nn", "optim") else ""}{path}"'
    place = (span.start + match.start(1), span.start + match.end(1))
    return Mend(
        f"a text stands in double quotes: write {ours}", (*place, ours), safe=True, place=place
    )
