"""Random keys: pairs of u32 derived from the seed by Threefry-2x32-20, on plain integers.

`fold(key, n) = threefry2x32(key, (0, n))` (Salmon et al., "Parallel random numbers: as easy as
1, 2, 3", 2011, section 4.2; the same chain as `jax.random.fold_in`). Knows no graphs: which key
feeds which graph is in `step.py`, `initial.py` and `evaluate.py`.
"""

from __future__ import annotations

from typing import TypeAlias

Key: TypeAlias = tuple[int, int]

_MASK = 0xFFFFFFFF
_PARITY = 0x1BD11BDA
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry2x32(key: Key, counter: tuple[int, int]) -> Key:
    """The 20-round block cipher: two u32 words from a key and a counter."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x0 = (counter[0] + schedule[0]) & _MASK
    x1 = (counter[1] + schedule[1]) & _MASK
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            x0 = (x0 + x1) & _MASK
            x1 = ((x1 << rotation | x1 >> (32 - rotation)) & _MASK) ^ x0
        x0 = (x0 + schedule[(block + 1) % 3]) & _MASK
        x1 = (x1 + schedule[(block + 2) % 3] + block + 1) & _MASK
    return x0, x1


def fold(key: Key, n: int) -> Key:
    """A new key from a key and a number in [0, 2^32)."""
    return threefry2x32(key, (0, n & _MASK))


def fnv(text: str) -> int:
    """FNV-1a, 32 bits, of the UTF-8 bytes."""
    state = 0x811C9DC5
    for byte in text.encode():
        state = ((state ^ byte) * 0x01000193) & _MASK
    return state


def word(four: str) -> int:
    """The four ASCII letters as a big-endian u32."""
    return int.from_bytes(four.encode("ascii"), "big")


def base(seed: int) -> Key:
    """The run's key: the high and low word of its 64-bit seed."""
    return (seed >> 32) & _MASK, seed & _MASK


def domain(seed: int, four: str, name: str | None = None) -> Key:
    """The key of a domain (`init trai eval pred opti data synt curr`), and of a name within it."""
    key = fold(base(seed), word(four))
    return key if name is None else fold(key, fnv(name))


def of_state(seed: int, path: str, state: str) -> Key:
    """The key of an optimizer state's initial value."""
    return domain(seed, "init", f"{path}#{state}")


def of_step(seed: int, step: int) -> Key:
    """The key of a training step (the first is 0)."""
    return fold(domain(seed, "trai"), step)
