"""Boolean matrices and the same as rows of bytes, by plain numpy."""

import numpy as np
from hypothesis import strategies as st

sizes = st.one_of(st.integers(1, 300), st.sampled_from([1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 256]))
seeds = st.integers(0, 2**32)


def random_rows(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A Boolean matrix and the same as rows of bytes."""
    rng = np.random.default_rng(seed)
    matrix = rng.random((n, d)) < rng.random()
    return matrix, np.packbits(matrix, axis=1, bitorder="little")


def unpacked(rows: np.ndarray, d: int) -> np.ndarray:
    return np.unpackbits(rows, axis=1, bitorder="little", count=d).astype(bool)
