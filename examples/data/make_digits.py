"""Make digits-train.npz and digits-test.npz from the digits that scikit-learn carries.

    python make_digits.py [FOLDER]        # needs numpy and scikit-learn

1,797 grey images of 8x8 points, values 0 to 16, labels 0 to 9. One fifth of every class is the
test part, drawn by a fixed seed; both parts are shuffled. Arrays: image [n, 64] u8, label [n] i32.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

SEED = 2024
TEST_SHARE = 0.2


def main(folder: Path) -> None:
    digits = load_digits()
    images, labels = digits.data.astype(np.uint8), digits.target.astype(np.int32)
    random = np.random.default_rng(SEED)
    test: list[int] = []
    for digit in range(10):
        members = random.permutation(np.flatnonzero(labels == digit))
        test.extend(members[: round(TEST_SHARE * len(members))])
    is_test = np.zeros(len(labels), bool)
    is_test[test] = True
    for name, part in (("train", ~is_test), ("test", is_test)):
        order = random.permutation(np.flatnonzero(part))
        path = folder / f"digits-{name}.npz"
        np.savez(path, image=images[order], label=labels[order])
        counts = np.bincount(labels[order]).tolist()
        print(f"{path.name}: {len(order)} images, by class {counts}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
