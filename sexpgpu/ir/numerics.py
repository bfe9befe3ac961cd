"""What `with-numerics` says of a node, as the text that a node carries. Knows no ops.

The text is `key=value` pairs in the order of their keys, joined by a space: "compute=f32",
"accumulate=f32 compute=bf16 matmul=tf32". So it compares, hashes, prints and reads as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

NUMERICS: dict[str, tuple[str, ...]] = {
    "accumulate": ("f32", "bf16", "f16", "f64"),
    "compute": ("f32", "bf16", "f16"),
    "matmul": ("highest", "tf32"),
}
"""Key -> its values. `compute` overrides the policy's dtype, `accumulate` and `matmul` set the
attributes `accumulate` and `mode` of products."""

ISLAND_F32 = "compute=f32"


def parse_numerics(text: str | None) -> dict[str, str]:
    """The pairs of a text. ValueError when it is not one that `format_numerics` gives."""
    if text is None:
        return {}
    found: dict[str, str] = {}
    for part in text.split(" "):
        key, _, value = part.partition("=")
        if value not in NUMERICS.get(key, ()):
            raise ValueError(f"numerics {text!r}: {part!r} is not known")
        found[key] = value
    if format_numerics(found) != text:
        raise ValueError(f"numerics {text!r} is not in the canonical order")
    return found


def format_numerics(pairs: Mapping[str, str]) -> str | None:
    """The text of the pairs, None when there are none."""
    return " ".join(f"{key}={pairs[key]}" for key in sorted(pairs)) or None


def merge_numerics(outer: str | None, inner: Mapping[str, str]) -> str | None:
    """What holds within `inner` inside of `outer`: the inner one wins key by key."""
    return format_numerics({**parse_numerics(outer), **inner})
