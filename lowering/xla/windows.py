"""Windows sliding over the spatial axes of [B, ...spatial, C]: their extents, and the strided
slice of the input that one position of the window meets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import jax
from jax import lax

from sexpgpu.lowering.xla.dtypes import value_of

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


class Windows(NamedTuple):
    """Windows of `size` at `strides` over `spatial` extents with `pads` around them."""

    spatial: Ints
    size: Ints
    strides: Ints
    pads: Pairs
    dilation: Ints

    @property
    def out(self) -> Ints:
        """How many windows there are along each axis."""
        return tuple(
            max(0, (n + low + high - (k - 1) * d - 1) // s + 1)
            for n, k, s, (low, high), d in zip(
                self.spatial, self.size, self.strides, self.pads, self.dilation, strict=True
            )
        )

    @property
    def tiling(self) -> bool:
        """Whether the windows lie side by side from the first entry on, without borders."""
        return (
            self.size == self.strides
            and all(d == 1 or k == 1 for d, k in zip(self.dilation, self.size, strict=True))
            and not any(low or high for low, high in self.pads)
            and 0 not in self.out
        )

    def positions(self) -> Iterator[Ints]:
        return itertools.product(*map(range, self.size))

    def bordered(self, x: jax.Array, value: float) -> jax.Array:
        """x with its borders."""
        if not any(low or high for low, high in self.pads):
            return x
        pads = [(0, 0, 0), *((low, high, 0) for low, high in self.pads), (0, 0, 0)]
        return lax.pad(x, value_of(x, value), pads)

    def met(self, bordered: jax.Array, position: Ints) -> jax.Array:
        """[B, ...out, C]: what one position of every window meets."""
        starts = [k * d for k, d in zip(position, self.dilation, strict=True)]
        limits = [
            start + (n - 1) * s + 1 if n else start
            for start, n, s in zip(starts, self.out, self.strides, strict=True)
        ]
        return lax.slice(
            bordered,
            (0, *starts, 0),
            (bordered.shape[0], *limits, bordered.shape[-1]),
            (1, *self.strides, 1),
        )

    def put_back(self, part: jax.Array, position: Ints) -> jax.Array:
        """The transpose of `met` after `bordered`: [B, ...spatial, C] with `part` where one
        position of every window stood, and zeros."""
        pads = [(0, 0, 0)]
        for k, d, s, (low, _), n, extent in zip(
            position, self.dilation, self.strides, self.pads, self.out, self.spatial, strict=True
        ):
            before = k * d - low
            pads.append((before, extent - before - ((n - 1) * s + 1), s - 1))
        return lax.pad(part, value_of(part, 0), [*pads, (0, 0, 0)])
