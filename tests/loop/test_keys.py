"""Keys against jax.random, whose fold_in is the same chain."""

import jax
import numpy as np
import pytest

from sexpgpu.loop import keys


def folded(data: tuple[int, int], *numbers: int) -> tuple[int, int]:
    key = jax.random.wrap_key_data(np.array(data, np.uint32), impl="threefry2x32")
    for n in numbers:
        key = jax.random.fold_in(key, np.uint32(n))
    return tuple(int(x) for x in jax.random.key_data(key))


@pytest.mark.parametrize("seed", [0, 1, 2**32 + 5, 2**63 + 12345])
def test_fold_is_jax_fold_in(seed: int) -> None:
    base = (seed >> 32, seed & 0xFFFFFFFF)
    assert keys.base(seed) == base
    assert keys.fold(base, 7) == folded(base, 7)
    assert keys.of_step(seed, 12) == folded(base, 0x74726169, 12)


def test_words_and_hashes() -> None:
    assert keys.word("trai") == 0x74726169
    # FNV-1a test vectors of the authors (http://www.isthe.com/chongo/tech/comp/fnv/)
    assert keys.fnv("") == 0x811C9DC5
    assert keys.fnv("a") == 0xE40C292C
    assert keys.fnv("foobar") == 0xBF9CF968


def test_states_differ_from_their_parameter() -> None:
    parameter = keys.domain(1, "init", "fit/w")
    assert keys.of_state(1, "fit/w", "m") != parameter
    assert keys.of_state(1, "fit/w", "m") == keys.domain(1, "init", "fit/w#m")
