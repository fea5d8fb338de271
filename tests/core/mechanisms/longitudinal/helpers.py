"""Examples of longitudinal mechanisms; every outcome of their rounds; reports of one person, many times."""

import math
import pickle

import numpy as np
import pyarrow as pa

from ldp_core import DBitFlip, Domain, Keyed, Loloha, LongitudinalRandomizedResponse, LongitudinalUnaryEncoding, Secret
from ldp_core.exact import bits

from ...checks import check_binomial
from ...enumeration import Branching, Table

VARIANTS = ("OSUE", "SUE", "OUE", "SOUE")


def grr(d, infinity=2.0, one=1.0, unmatched="error"):
    return LongitudinalRandomizedResponse(
        Domain(range(d), unmatched=unmatched), epsilon_infinity=infinity, epsilon_1=one
    )


def ue(d, variant="OSUE", infinity=2.0, one=1.0, unmatched="error"):
    domain = Domain(range(d), unmatched=unmatched)
    return LongitudinalUnaryEncoding(domain, epsilon_infinity=infinity, epsilon_1=one, variant=variant)


def loloha(d, g="optimal", infinity=2.0, one=1.0, unmatched="error"):
    return Loloha(Domain(range(d), unmatched=unmatched), epsilon_infinity=infinity, epsilon_1=one, g=g)


def flip(b, d, infinity=2.0, unmatched="error"):
    return DBitFlip(Domain(range(b), unmatched=unmatched), epsilon_infinity=infinity, bits=d)


def paper_p2(infinity, one, d):
    """The second round of L-GRR (Arcolezi et al. 2022) and of LOLOHA, as multi-freq-ldpy and LOLOHA compute it."""
    p1 = math.exp(infinity) / (math.exp(infinity) + d - 1)
    q1, e = (1 - p1) / (d - 1), math.exp(one)
    return (q1 - e * p1) / (-p1 * e + d * q1 * e - q1 * e - p1 * (d - 1) + q1)


def distribution(perturb_codes, code, seen=1) -> Table:
    """Probability of each report, as a tuple of numbers."""
    noise = Branching(seen)
    return noise.table(lambda: tuple(np.ravel(perturb_codes(np.array([code], np.uint8), noise)).tolist()))


def second_round(m, answer, noise):
    """The reports that follow from a permanent answer: a permanent round without noise is put before the other."""

    class First:
        def perturb_codes(self, codes, noise):
            return (
                np.array([answer], np.uint8) if isinstance(m, LongitudinalUnaryEncoding) else np.array(answer, np.uint8)
            )

    twin = pickle.loads(pickle.dumps(m))
    twin.__dict__["permanent"], twin.__dict__["instantaneous"] = First(), m.instantaneous
    return noise.table(lambda: tuple(np.ravel(twin.perturb_codes(np.array([0], np.uint8), noise)).tolist()))


# ---- one person, thousands of reports

TIMES = 5000
MANY = {
    "grr": grr(5),
    "grr d=2": grr(2),
    **{v: ue(12, v, 2.0, 0.5) for v in VARIANTS},
    "loloha": loloha(20, 3),
    "loloha g=4": loloha(20),
}


def collected(m, value, secret, person=17, times=TIMES, column="c"):
    """Reports of one person with one value."""
    noise = Keyed(secret, np.full(times, person), column=column)
    return m.reports.from_arrow(m.perturb(pa.array(np.full(times, value)), randomness=noise))


def permanent_answer(m, code, secret, person=17, column="c"):
    """The answer to one code; for LOLOHA the code is a bucket."""
    codes = np.array([code], np.uint8)
    rounds = m._rounds if isinstance(m, Loloha) else m
    return rounds.permanent.perturb_codes(codes, Keyed(secret, [person], column=column).bind(m.digest, codes))


def support_rates(m, reports, answer) -> tuple[np.ndarray, np.ndarray]:
    """How often each bit or bucket was reported, and how often it should be after this permanent answer."""
    if isinstance(m, LongitudinalUnaryEncoding):
        ones = bits.column_sums(reports, m.domain.size)
        given = np.unpackbits(answer[0], count=m.domain.size, bitorder="little")
        second = m.instantaneous
    else:
        rounds = m._rounds if isinstance(m, Loloha) else m
        second, size = rounds.instantaneous, rounds.domain.size
        shown = reports >> np.uint64(48) if isinstance(m, Loloha) else reports
        ones = np.bincount(shown.astype(np.int64), minlength=size)
        given = np.arange(size) == answer[0]
    return ones, np.where(given, second.p, second.q)


def check_permanent(m, value, secret) -> None:
    reports = collected(m, value, secret)
    code = value
    if isinstance(m, Loloha):
        [function] = np.unique(reports & np.uint64((1 << 48) - 1))
        [code] = m.family.hash(np.array([function]), np.array([value]))
    reported, rates = support_rates(m, reports, permanent_answer(m, code, secret))
    check_binomial(reported, TIMES, rates)


def check_permanents(m) -> None:
    for _ in range(6):
        check_permanent(m, 1, Secret.generate())


# ---- people whose values change

PERSONS, VALUES = 300, 40


def histories(m, secret):
    """Reports of each person for each value, [persons, values, ...]."""
    noise = Keyed(secret, np.repeat(np.arange(PERSONS), VALUES), column="c")
    values = np.tile(np.arange(VALUES), PERSONS)
    reports = m.reports.from_arrow(m.perturb(pa.array(values), randomness=noise))
    return reports.reshape(PERSONS, VALUES, -1)


def distinct(reports) -> np.ndarray:
    """How many different reports each person gives."""
    return np.array([len(np.unique(person, axis=0)) for person in reports])


# ---- samples

SAMPLED = {
    "grr": grr(6),
    "grr d=2": grr(2),
    "grr other": grr(5, unmatched="other"),
    "OSUE": ue(10),
    "OUE none": ue(9, "OUE", 2.0, 0.5, "none"),
    "SOUE d=70": ue(70, "SOUE", 3.0, 1.5),
    "SUE": ue(16, "SUE"),
    "loloha": loloha(12),
    "loloha g=2": loloha(12, 2, unmatched="none"),
    "flip": flip(10, 3),
    "flip none": flip(9, 9, unmatched="none"),
    "flip 1": flip(12, 1),
}
