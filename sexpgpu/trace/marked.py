"""The extent of the batch as an integer that remembers what it is. Knows nothing of graphs.

`(dim x 0)` of a tensor of examples gives a MarkedInt: it prints, compares and computes as an int.
Multiplication keeps the mark (a batch of B flattened with T positions has B*T rows); every other
operation gives a plain int, which is no longer known to count examples.
"""

from __future__ import annotations

from typing import Any


class MarkedInt(int):
    """An int that counts examples, or rows of examples."""

    __slots__ = ()

    def __mul__(self, other: Any) -> Any:
        product = int.__mul__(self, other) if isinstance(other, int) else NotImplemented
        return product if product is NotImplemented else MarkedInt(product)

    def __rmul__(self, other: Any) -> Any:
        return self.__mul__(other)
