"""How many of many people draw what, all at once: the counts that their reports would have, without the reports.

What is drawn here is *not private* and need not be: numpy's generator, and probabilities as floats, which are off by
one part in 10^15 (in `subset_sums` in 10^12). The counts are integers, and have the joint distribution that they would
have if each person drew alone. So n people cost no more than a hundred.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ldp_core.arrays.types import F64, I64, Codes
from ldp_core.parameters import check_integer

Generator: TypeAlias = np.random.Generator
"""numpy's, which is fast, and not cryptographic."""


def generator_of(seed: int | Generator | None) -> Generator:
    """A generator as it is, or one from a seed, or from the operating system's randomness."""
    if seed is None or isinstance(seed, Generator):
        return np.random.default_rng(seed)
    return np.random.default_rng(check_integer("seed", seed, low=0))


def by_code(codes: Codes, people: I64, size: int) -> I64:
    """int64[size]: how many people have each code, where codes may be named twice."""
    out = np.zeros(size, np.int64)
    np.add.at(out, codes.astype(np.int64), people)
    return out


def multinomials(people: I64, weights: int | F64, generator: Generator) -> I64:
    """int64[..., k]: people, int64[...], dealt out at random to k choices.

    ``weights`` are those of the choices, float64[k] or float64[..., k], not all 0; or k, of equally likely ones.
    """
    if isinstance(weights, int):
        return generator.multinomial(people, np.full(weights, 1 / weights))
    order = np.argsort(weights, axis=-1)  # numpy gives the last choice what rounding leaves: let it be the likeliest
    ascending = np.take_along_axis(weights, order, axis=-1)
    drawn = generator.multinomial(people, ascending / ascending.sum(axis=-1, keepdims=True))
    back = np.broadcast_to(np.argsort(order, axis=-1), drawn.shape)
    return np.take_along_axis(drawn, back, axis=-1)


def scatter(people: I64, choices: int, cell: Callable[[I64, I64], Codes], out: I64, generator: Generator) -> None:
    """Let each person take one of some equally likely choices, and count in ``out`` where that leads.

    People are of r kinds, int64[r]; ``cell`` is from kinds and choices, int64[m] each, to places in ``out``.
    """
    every = np.arange(choices)
    many = np.flatnonzero(people >= _FEW * choices)
    step = max(_BLOCK // choices, 1)
    for start in range(0, len(many), step):
        kinds = many[start : start + step]
        times = multinomials(people[kinds], choices, generator)
        np.add.at(out, cell(np.repeat(kinds, choices), np.tile(every, len(kinds))), times.reshape(-1))
    few = np.flatnonzero((people > 0) & (people < _FEW * choices))  # one by one is cheaper
    step = max(_BLOCK // (_FEW * choices), 1)
    for start in range(0, len(few), step):
        kinds = np.repeat(few[start : start + step], people[few[start : start + step]])
        np.add.at(out, cell(kinds, generator.integers(choices, size=len(kinds))), 1)


_FEW = 4  # people for each choice, up to which they are drawn one by one
_BLOCK = 1 << 18  # numbers at a time


def inner_products(counts: I64, generator: Generator, *, zero: bool = False) -> I64:
    """Let each person, who has a vector v and a number s over a prime field, draw a vector y, and see s + <v, y>.

    A digit of y at a time, from the highest: who has v and s has the rest of v and s + (digit of v) (digit of y) then,
    and those who have the same go on together, as in a fast transform. About K F^2 log_F K binomial numbers, or as many
    as there are people.

    Args:
        counts: int64[..., K, F]: how many people have each v, a number of digits to the base F, and s.
        generator: numpy's.
        zero: whether y is uniform only among those with s + <v, y> = 0; s is 0 where v is.

    Returns:
        int64[..., K, F]: how many people have each y and s + <v, y>.
    """
    k, f = counts.shape[-2:]
    state = counts.reshape(-1, k, f)
    while k > 1:
        k //= f
        parts = state.reshape(-1, f, k, f)
        state = np.zeros_like(parts)
        at = np.nonzero(parts)
        settled = zero & (at[1] != 0) & (at[2] == 0)  # by the last digit of v that is not 0
        here, digit, rest, s = (i[settled] for i in at)
        inverse = np.array([pow(v, -1, f) if v else 0 for v in range(f)])
        np.add.at(state, (here, -s * inverse[digit] % f, rest, 0), parts[at][settled])
        here, digit, rest, s = (i[~settled] for i in at)
        flat = state.reshape(-1)

        def cell(kinds: I64, y: I64) -> I64:
            at: I64 = (here[kinds] * f + y) * k + rest[kinds]  # noqa: B023 (used at once)
            at *= f
            at += (s[kinds] + digit[kinds] * y) % f  # noqa: B023
            return at

        scatter(parts[here, digit, rest, s], f, cell, flat, generator)
        state = flat.reshape(-1, k, f)
    return state.reshape(counts.shape)


def subset_sums(size: int, people: I64, generator: Generator) -> I64:
    """int64[d]: how many sets hold each value, where each person draws a set of ``size`` values other than their own.

    All such sets are equally likely; ``people`` are int64[d], of each value. By halving the values: how many of j
    elements fall left is hypergeometric, and given that, the two parts are uniform sets again, of which nothing counts
    but how many people have how many elements there. Those whose own value is in the part have one element less to
    choose from: how many of them have how many elements is kept apart, and since that does not depend on which value is
    theirs, a random draw without replacement says who goes left.
    """
    lengths, starts = np.array([len(people)]), np.array([0])
    free = np.zeros((1, size + 1), np.int64)  # [part, j]: people who have j elements there and their value elsewhere
    own = np.zeros((1, size + 1), np.int64)  # ... and their value there
    own[0, size] = people.sum()
    before = np.concatenate(([0], np.cumsum(people)))
    while lengths.max() > 1:
        left = (lengths + 1) // 2
        right, middle = lengths - left, starts + left
        lefts = before[middle] - before[starts]
        own_left = np.array([_taken(of, int(n), generator) for of, n in zip(own, lefts, strict=True)])
        free_left, free_right = _split(free, left, right, generator)
        stay_left, to_right = _split(own_left, left - 1, right, generator)
        to_left, stay_right = _split(own - own_left, left, right - 1, generator)
        there = np.stack([left > 0, right > 0], axis=1).reshape(-1)

        def both(one: I64, other: I64, there: I64 = there) -> I64:
            joined: I64 = np.stack([one, other], axis=1)
            return joined.reshape(-1, *joined.shape[2:])[there]

        most = int(left.max()) + 1
        free = both(free_left + to_left, free_right + to_right)[:, :most]
        own = both(stay_left, stay_right)[:, :most]
        lengths, starts = both(left, right), both(starts, middle)
    return free[:, 1] if free.shape[1] > 1 else np.zeros(len(people), np.int64)


_MOST_DRAWN = 1 << 29  # numpy draws from fewer than 10^9
_LEAST = 2.0**-40


def _taken(people: I64, n: int, generator: Generator) -> I64:
    """How many of each kind are among n people who are drawn without replacement.

    Of more people than numpy draws from, each is taken with probability n over their number. Those who are taken are a
    uniform set of their size, which is off by about the root of n: so many are drawn, in the same way, from the others
    to be added, or from them to be left out again. A few rounds do.
    """
    total = int(people.sum())
    if not n:
        return np.zeros_like(people)
    if total <= _MOST_DRAWN:
        return generator.multivariate_hypergeometric(people, n, method="marginals")
    if n / total < _LEAST:  # numpy before 2.4 draws 0 of a binomial whose probability is below 2^-53
        taken: I64 = np.minimum(generator.multinomial(n, people / total), people)
    else:
        taken = generator.binomial(people, n / total)
    missing = n - int(taken.sum())
    if missing < 0:
        return taken - _taken(taken, -missing, generator)
    return taken + _taken(people - taken, missing, generator)


def _split(parts: I64, left: I64, right: I64, generator: Generator) -> tuple[I64, I64]:
    """int64[m, J] each: of people with j elements among left + right places, how many have how many left, and right.

    ``parts`` are int64[m, J], of each part and j; ``left`` and ``right`` int64[m], of few different pairs.
    """
    one, other = np.zeros_like(parts), np.zeros_like(parts)
    for a, b in {*zip(left.tolist(), right.tolist(), strict=True)}:
        at, j = np.nonzero(parts * ((left == a) & (right == b))[:, None])
        if not len(at):
            continue
        i = np.arange(min(a, int(j.max())) + 1)
        weights, step = _hypergeometric(a, b, int(j.max()))[:, : len(i)], max(_BLOCK // len(i), 1)
        for start in range(0, len(at), step):
            p, k = at[start : start + step], j[start : start + step]
            drawn = multinomials(parts[p, k], weights[k], generator)
            row, to = np.nonzero(drawn)
            np.add.at(one, (p[row], to), drawn[row, to])
            np.add.at(other, (p[row], k[row] - to), drawn[row, to])
    return one, other


def _hypergeometric(a: int, b: int, most: int) -> F64:
    """float64[most + 1, most + 1]: [j, i], how likely i of j elements are among a, the others among b; not scaled."""
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, max(a, b, most) + 1)))))
    j, i = np.arange(most + 1)[:, None], np.arange(most + 1)
    inside = (i <= np.minimum(j, a)) & (j - i <= b)
    x, y = np.where(inside, i, 0), np.where(inside, j - i, 0)
    x, y = np.minimum(x, a), np.minimum(y, b)
    values = -(logs[x] + logs[a - x] + logs[y] + logs[b - y])
    values[~inside] = -np.inf
    top = values.max(axis=1, keepdims=True)
    return np.exp(values - np.where(np.isfinite(top), top, 0))
