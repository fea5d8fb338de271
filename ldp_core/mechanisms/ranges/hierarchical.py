"""Hierarchical histograms: any range of ordered values, each with an honest error.

G. Cormode, T. Kulkarni, D. Srivastava, "Answering Range Queries Under Local Differential Privacy", PVLDB 12(10), 2019.
The values are the leaves of a binary tree. A person is at one level, drawn without a look at the value, and reports
there the node above the value, by the best oracle for so many nodes (`Level`). Theirs draws all levels equally often
and has optimized unary encoding at each; here the shares of the levels are those of least variance (`best_shares`).

**Privacy.** Pr[level l, report y | x] = s_l Pr[y | node of x]. Each level's oracle is epsilon-LDP, and so is the whole.
With keyed noise the level is the person's own, and so is a node's report: values in one node give the same report.

**Estimation.** With y_l the estimated shares at level l (2^l of them), n_l reports there, and v_l / n_l about the
variance of one, the best linear unbiased estimate is that of weighted least squares (M. Hay, V. Rastogi, G. Miklau, D.
Suciu, "Boosting the Accuracy of Differentially Private Histograms Through Consistency", PVLDB 3(1), 2010). As weights
depend on the level only, the normal equations are diagonal in the Haar basis: the difference of the two halves of a
node at depth j is estimated by each level below, and the best of all is

    diff_j = sum over l > j of W_l (sum of y_l in the left half - sum of y_l in the right half) / L_j
    W_l = (n_l / v_l) D / 2^l        L_j = sum over l > j of W_l

All sums are made in one pass up the tree. A pass down the tree divides the total, 1, by these differences.

**Variance.** The share of a range is a sum of such differences at the nodes that one of its ends cuts, two at most at
each depth. So the weights a_l of y_l are known in closed form. Given n_l the levels are independent samples of a
population, and the variance of level l is that of `Level.variances`, with estimated shares in the place of true ones.
About these people it is less by f (1 - f) / n, the variance of the range's true share in a random sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Bools, Codes
from ldp_core.errors import DomainError, ParameterError
from ldp_core.estimates.base import z_score
from ldp_core.estimates.consistency import Consistency, Rates
from ldp_core.estimates.histogram import Histogram, HistogramEstimate
from ldp_core.estimates.ordered import Reader
from ldp_core.estimates.tails import two_point_score
from ldp_core.exact.probability import check_resolved
from ldp_core.exact.transforms import count_numbers, groups_of_cells
from ldp_core.inputs.cells import MOST_CELLS, Cells
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanism import ExpectedError, Mechanism
from ldp_core.mechanisms.oracles.base import check_reported
from ldp_core.mechanisms.ranges._levels import PARTS, Level, best_level, best_shares
from ldp_core.noise.base import Noise
from ldp_core.parameters import check_choice, check_epsilon, check_integer, check_open, parameter
from ldp_core.poisoning import Influence, check_fake
from ldp_core.reports import Native, Word
from ldp_core.simulated_counts import Generator, by_code, multinomials
from ldp_core.tally import Tally

Workload: TypeAlias = Literal["ranges", "prefixes"]


def check_ordered(name: str, value: Any) -> Domain | Cells:
    """Cells, or a domain of which the labels are in order, of at most 65,536 values."""
    made = value if isinstance(value, Cells) else check_reported(name, value, "a hierarchical histogram")
    if made.size > MOST_CELLS:
        raise DomainError(
            f"a hierarchical histogram has at most {MOST_CELLS} values, got {made.size}: take coarser ones"
        )
    return made


def check_shares(name: str, value: Any, levels: int) -> tuple[int, ...]:
    """As many whole numbers as there are levels, 1024 in all, the last one not 0."""
    wanted = f"{name} must be {levels} whole numbers that add up to {PARTS}, one a level, the last above 0"
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ParameterError(f"{wanted}; got {type(value).__name__}")
    shares = tuple(check_integer(name, share, 0, PARTS) for share in value)
    if len(shares) != levels or sum(shares) != PARTS or not shares[-1]:
        raise ParameterError(f"{wanted}; got {len(shares)} that add up to {sum(shares)}")
    return shares


@dataclass(frozen=True, init=False)
class HierarchicalHistogram(Mechanism):
    """Report the value's node at one level of a binary tree; any range, quantile or curve is estimated from that.

    Args:
        domain: labels **in their order**, or `Cells`; 2 to 65,536. With ``unmatched="other"`` what is none of
            them is one more value, after the last one.
        workload: for what the shares of the levels are best: ``"ranges"``, all of them, or ``"prefixes"``, ranges
            from the first value, as quantiles and curves need.
        shares: of 1,024 reports, how many are of each level: of 2 nodes, 4, 8, ...; default the best ones for the
            workload.

    Reports are one ``uint64`` each. A tally has up to 4 times as many counters as there are values: of each node, how
    many reports support it.

    >>> m = HierarchicalHistogram(range(120), epsilon=1.0)
    >>> [level.nodes for level in m.levels], m.shares
    ([2, 4, 8, 16, 32, 64, 128], (5, 96, 118, 137, 144, 138, 386))
    """

    name: ClassVar[str] = "hierarchical_histogram"

    domain: Any = parameter(check_ordered)
    epsilon: float = parameter(check_epsilon)
    workload: Workload = parameter(check_choice, among=get_args(Workload))
    shares: tuple[int, ...] = parameter(
        check_shares,
        default=cached_property(lambda self: best_shares(self.levels, self.workload)),  # milliseconds: when asked for
        levels=lambda self: self._depth,
    )

    exhaustive: ClassVar[bool] = True
    parts: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    step: ClassVar[float] = 1.0

    def __init__(
        self,
        domain: Domain | Cells | Iterable[Label],
        *,
        epsilon: float,
        workload: Workload = "ranges",
        shares: Sequence[int] | None = None,
        unmatched: Unmatched = "error",
    ) -> None:
        if isinstance(domain, Cells) and unmatched != "error":
            raise ParameterError("pass Cells, which have their own unmatched, or unmatched=, not both")
        made = domain if isinstance(domain, Cells) else Domain.of(domain, unmatched)
        self._declare(domain=made, epsilon=epsilon, workload=workload, shares=shares)
        check_resolved(self.epsilon, lambda: self.levels[0].pair)  # where it is tiny, those of all levels are the same

    # ---- sizes

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The oracles of 2, 4, ... nodes."""
        return tuple(best_level(bits, self.epsilon) for bits in range(1, self._depth + 1))

    @property
    def _depth(self) -> int:
        return int(self.domain.size - 1).bit_length()

    @property
    def leaves(self) -> int:
        """Of the tree: a power of two."""
        return self.levels[-1].nodes

    @cached_property
    def _first(self) -> list[int]:
        """The first report of each level, and the number of all reports."""
        return [0, *np.cumsum([level.cells for level in self.levels]).tolist()]

    @cached_property
    def _drawn(self) -> Codes:
        """uint8[1024]: the level of each of 1024 equally likely numbers."""
        return np.repeat(np.arange(len(self.levels), dtype=np.uint8), self.shares)

    @property
    @override
    def counters(self) -> int:
        return 2 * self.leaves - 2

    def _by_level(self, counters: I64) -> list[I64]:
        return np.split(counters, [level.nodes - 2 for level in self.levels[1:]], axis=-1)

    # ---- reports

    @override
    def worst_ratio(self) -> Fraction:
        """Of the level where it is the largest: a report says which level it is of."""
        asked = zip(self.levels, self.shares, strict=True)
        return max(level.worst_ratio() for level, share in asked if share)

    @property
    @override
    def answers_apart(self) -> bool:
        """Only where leaves alone are asked: values in one node have one report."""
        return not any(self.shares[:-1])

    @property
    @override
    def reports(self) -> Word:
        return Word(self._first[-1])

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        level = self._drawn[noise.of_persons().uniform_below(PARTS, len(codes), 0)]
        out = np.empty(len(codes), np.int64)
        for number, oracle in enumerate(self.levels):
            at = np.flatnonzero(level == number)
            if len(at):
                # Keyed, node 0's coin is a word whose low half drew the level: given it, p moves by at most 2^-32.
                nodes = codes[at].astype(np.uint32) >> np.uint32(len(self.levels) - oracle.bits)
                reports = oracle.perturb(nodes, noise.at(at).with_codes(nodes))
                reports += self._first[number]
                out[at] = reports
        return out.view(np.uint64)

    @override
    def compiled(self) -> dict[str, Any]:
        return {"draw": "tree", "shares": list(self.shares), "levels": [level.compiled() for level in self.levels]}

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        out, cells = np.empty((n_groups, self.counters), np.int64), self._first[-1]
        for first, last, some, of in groups_of_cells(reports.view(np.int64), groups, n_groups, cells):
            many = 32 * len(some) > (last - first) * cells  # (else most cells have no report: measured)
            counts = count_numbers(some, of, last - first, cells) if many else None
            for level, mine, (begin, end) in zip(self.levels, self._by_level(out), pairwise(self._first), strict=True):
                if counts is not None:
                    mine[first:last] = level.supporters(counts[:, begin:end])
                else:
                    here = np.flatnonzero((begin <= some) & (some < end))
                    mine[first:last] = level.supporters_of(some[here] - begin, of[here], last - first)
        return out

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        have = np.zeros(self.leaves, np.int64)
        have[: self.domain.size] = by_code(codes, people, self.domain.size)
        at = multinomials(have, np.array(self.shares, float), generator)
        return np.concatenate(
            [
                level.simulate(at[:, i].reshape(level.nodes, -1).sum(axis=1), generator)
                for i, level in enumerate(self.levels)
            ]
        )

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        """Each report is of one level, and supports as many nodes as all of this level."""
        possible = super().is_possible(n, counters)  # (up to n, counters have no sum beyond 64 bits)
        left = np.asarray(n)
        for level, mine in zip(self.levels, self._by_level(counters), strict=True):
            reports, rest = np.divmod(mine.sum(axis=-1), level.support)
            possible = possible & (rest == 0) & (mine.max(axis=-1) <= reports)
            left = np.subtract(left, reports, dtype=np.int64)
        return possible & (left == 0)

    # ---- what crafted reports can do

    @cached_property
    def _most(self) -> float:
        """The most that a report moves an estimated count of a value, of as many reports at each level as on average.

        The last value has all leaves behind it, too. What is beyond one end x moves, at each depth, by c of the
        difference of the halves of the node that x cuts, c the less of the parts to either side of x. A report at a
        level supports k nodes: at most those of the greatest weights, or of the least. One report more makes what the
        others say of a difference, at most 1, so much less, too, and is one more of all.
        """
        last = self.domain.size - 1
        return max(self._moves(1, 1 / self.leaves), self._moves(last, 1 - last / self.leaves))

    def _moves(self, end: int, even: float) -> float:
        h, information = len(self.levels), np.cumsum((self._gains * self.shares)[::-1])[::-1] / PARTS
        cut, inside = np.divmod(end, 1 << (h - np.arange(h)))  # of each depth: the node, and how far into it
        sizes = 1 << (h - np.arange(h))
        part = np.minimum(inside, sizes - inside) / sizes
        most = 0.0
        for number, (level, gain) in enumerate(zip(self.levels, self._gains.tolist(), strict=True)):
            weights, ratios = np.zeros(level.nodes), np.zeros(h)
            ratios[: number + 1] = gain / information[: number + 1]
            for depth in range(number + 1):
                start, half = cut[depth] << (number + 1 - depth), 1 << (number - depth)
                weights[start : start + half] -= part[depth] * ratios[depth]
                weights[start + half : start + 2 * half] += part[depth] * ratios[depth]
            ordered, (p, q) = np.sort(weights), level.pair
            ends = ordered[-level.support :].sum(), -ordered[: level.support].sum()
            most = max(most, max(ends) / float(p - q) + float(part @ np.abs(1 - ratios)))
        return most + even

    @override
    def influence(self) -> Influence:
        """Of a value, an upper bound, where each level has as many reports as on average; of all, d times that."""
        return Influence(self._most, self.domain.size * self._most)

    @override
    def worst_gain(self, *, fake: int, targets: int = 1) -> float:
        """An upper bound: see `influence`."""
        return check_fake(fake) * check_integer("targets", targets, 1, self.domain.size) * self._most

    # ---- estimates

    @cached_property
    def _gains(self) -> F64:
        """float64[h]: ``W_l / n_l``."""
        return np.array([(self.leaves >> level.bits) / level.variances[2] for level in self.levels])

    def _tree(self, counters: I64) -> tuple[list[F64], F64]:
        """Estimated diff_j, float64[k, 2^j] for each depth j from 0 on; and n_l, float64[h, k]."""
        sums, reports = [], []
        for level, mine, gain in zip(self.levels, self._by_level(counters), self._gains, strict=True):
            p, q = level.pair
            of_level = mine.sum(axis=1) / level.support
            sums.append((mine - of_level[:, None] * float(q)) * (gain / float(p - q)))
            reports.append(of_level)
        information, below = np.zeros(len(counters)), np.zeros((len(counters), self.leaves))
        differences: list[F64] = []
        for level_sums, gain, of_level in reversed(list(zip(sums, self._gains, reports, strict=True))):
            below = below + level_sums
            information = information + gain * of_level
            left, right = below[:, ::2], below[:, 1::2]
            with np.errstate(invalid="ignore"):
                differences.append((left - right) / information[:, None])  # nan where no report tells
            below = left + right
        return differences[::-1], np.array(reports)

    @cached_property
    def _many(self) -> float:
        """From so many people on their number does not matter: by chance enough reports of leaves support each."""
        by_chance = float(self.levels[-1].pair[1]) * max(self.shares[-1], 1) / PARTS
        return max(_MANY, _ENOUGH / by_chance)

    def range_counts(self, n: I64, counters: I64, low: I64, high: I64) -> tuple[F64, F64]:
        """Estimated counts of the records with low <= code < high, and their variances about these people.

        Args:
            n, counters: of k tallies, int64[k] and int64[k, counters].
            low, high: of r ranges, int64[r], codes from 0 to d.

        Returns:
            float64[k, r] twice. Where all reports of a tally are of levels that are too coarse to tell, the
            variance is infinite.
        """
        differences, reports = self._tree(counters)
        low, high = self._ends(low), self._ends(high)
        shares, masses = np.ones((len(n), 1)), [np.ones((len(n), 1))]
        for difference in differences:
            known = np.nan_to_num(difference)
            shares = _halves(shares, known)
            masses.append(_halves(masses[-1], np.clip(known, -masses[-1], masses[-1])))
        before = _cumulated(shares)
        counts = n[:, None] * (before[:, high] - before[:, low])
        variances, _ = self._variances(reports, lambda level, nodes: masses[level][:, nodes], low, high)
        inside = _cumulated(masses[-1])
        share = np.clip(inside[:, high] - inside[:, low], 0, 1)
        people = n[:, None].astype(float)
        with np.errstate(invalid="ignore"):
            noise = people * people * variances - people * share * (1 - share)
        return counts, np.where(people > 0, np.maximum(noise, 0), 0.0)  # (of no records there are none anywhere)

    def range_terms(self, n: I64, counters: I64, low: I64, high: I64) -> tuple[Any, Any, Any]:
        """How the variance in `range_counts` depends on the share f, and what one report adds to the count.

        n times the variance of the share is a + B f + K f (1 - f), for people who are spread evenly over the values of
        the range, and over the others: B, K and the greatest part of a report, float64[k, r] each. Most reports may be
        in the middle of a level's, so half of that is a step, too. Of many people it does not matter, and they are 0.
        """
        few = n < self._many
        if not few.any():
            return 0.0, 0.0, [0.0]
        found = np.zeros((3, len(n), len(low)))
        low, high, d = self._ends(low), self._ends(high), self.domain.size
        first, beyond = np.minimum(low, d), np.minimum(high, d)
        size, (_, reports) = beyond - first, self._tree(counters[few])

        def variances(inside: float) -> tuple[F64, F64]:
            def mass(level: int, nodes: I64) -> F64:
                begin, end = (np.minimum((nodes + i) << len(self.levels) - level, d) for i in (0, 1))
                own = np.maximum(np.minimum(end, beyond) - np.maximum(begin, first), 0)
                spread = own / np.maximum(size, 1), (end - begin - own) / np.maximum(d - size, 1)
                return (inside * spread[0] + (1 - inside) * spread[1])[None]

            return self._variances(reports, mass, low, high)

        people = n[few, None].astype(float)
        (none, steps), (half, _), (whole, _) = (variances(inside) for inside in (0.0, 0.5, 1.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes, bends = people * (whole - none), people * (4 * half - 2 * (none + whole)) - 1
            # In proportion if it is less at the estimate, so that it is not below 0 elsewhere. If it is more, there are
            # many people nearby, whatever the share.
            counts, noise = self.range_counts(n[few], counters[few], low, high)
            share = np.clip(counts / people, 0, 1)
            part = np.minimum(noise / people / (people * none + (slopes + bends * (1 - share)) * share), 1)
            terms = part * slopes, part * bends, people * steps
        found[:, few] = np.nan_to_num(terms, posinf=0, neginf=0)
        return found[0], found[1], [found[2], found[2] / 2]

    def _variances(self, reports: F64, masses: Callable[[int, I64], F64], low: I64, high: I64) -> tuple[F64, F64]:
        """float64[k, r]: of the shares of ranges in a population with (non-negative) shares ``masses``, given n_l.

        Shares are those of nodes, int64[r], of a level, float64[k, r]. And by how much two reports of a level differ at
        most.

        Down the tree with the two nodes that the ends of a range cut; as long as it is one node, with one. The weight
        of a node of level l, in W_l, is the sum over the cut nodes above it of +-c / L_j, + in the left half, c being
        the range's coefficient there. It is the same in all of a subtree beside the paths: what that adds to the sums
        over f a and f a^2 is settled once, at its root.
        """
        h, people = len(self.levels), reports.shape[1]
        information = np.cumsum((self._gains[:, None] * reports)[::-1], axis=0)[::-1]
        shape = people, len(low)
        firsts, seconds, squares, total, most, top, bottom = (np.zeros(shape) for _ in range(7))
        paths = [(np.zeros(shape), low, -1.0), (np.zeros(shape), high, 1.0)]
        lost = np.zeros(shape, bool)
        for j, level in enumerate(self.levels):
            size, half = self.leaves >> j, h - j - 1
            cuts = [sign * np.minimum(end % size, -end % size) / size for _, end, sign in paths]
            nodes = [np.minimum(end, self.leaves - 1) >> half + 1 for _, end, _ in paths]
            below = [np.minimum(end, self.leaves - 1) >> half for _, end, _ in paths]
            one, still = nodes[0] == nodes[1], below[0] == below[1]
            cuts = [np.where(one, cuts[0] + cuts[1], cuts[0]), np.where(one, cuts[0] + cuts[1], cuts[1])]
            known = information[j] > 0
            lost |= ~known[:, None] & ((cuts[0] != 0) | (cuts[1] != 0))
            scale = np.divide(1.0, information[j], where=known, out=np.zeros(people))[:, None]
            gain, first, second = float(self._gains[j] / (level.pair[0] - level.pair[1])), 0.0, 0.0
            squares = 2 * squares
            for i, (before, end, sign) in enumerate(paths):
                step = scale * cuts[i]
                counted = 1.0 if i == 0 else np.where(one, 0.0, 1.0)
                squares += 2 * counted * step * step
                step = np.where(below[i] & 1, -step, step)
                aside, weight = before - step, before + step
                beside = counted * np.where(one & ~still, 0.0, masses(j + 1, below[i] ^ 1))
                firsts += beside * aside
                seconds += beside * aside * aside
                own = masses(j + 1, below[i]) * (1.0 if i == 0 else np.where(still, 0.0, 1.0))
                first, second = first + own * weight, second + own * weight * weight
                paths[i] = weight, end, sign
                np.maximum(top, aside, out=top)
                np.minimum(bottom, aside, out=bottom)
            ends = top, *(weight for weight, *_ in paths), bottom
            apart = np.maximum.reduce(ends[:3]) - np.minimum.reduce(ends[1:])
            np.maximum(most, gain * apart * (reports[j] > 0)[:, None], out=most)
            a, f, _ = level.variances
            total += (reports[j] * self._gains[j] ** 2)[:, None] * (
                a * squares + f * (seconds + second) - (firsts + first) ** 2
            )
        total[lost] = np.inf
        return total, most

    def range_variances(self, low: I64, high: I64) -> F64:
        """n times the variances of the estimated shares of ranges, if people are spread evenly over the leaves.

        float64[r], about these people, of as many reports at each level as there are on average.
        """
        low, high = self._ends(low), self._ends(high)
        reports = np.array(self.shares, float)[:, None] / PARTS
        share = (high - low) / self.leaves
        variances, _ = self._variances(reports, lambda level, _: np.array([[0.5**level]]), low, high)
        return variances[0] - share * (1 - share)

    def _ends(self, codes: I64) -> I64:
        """Codes as leaves: beyond the last value there is nobody, up to the last leaf."""
        return np.where(codes >= self.domain.size, self.leaves, codes)

    # ---- a histogram of the values

    @cached_property
    def rates(self) -> Rates:
        """Of the count of each value, by which consistent histograms tell noise."""
        d = self.domain.size
        return Rates(np.zeros(d), self.range_variances(np.arange(d), np.arange(1, d + 1)), np.zeros(d), 1.0)

    def error_score(self, errors: F64, n: F64, variance: F64) -> F64:
        """As `FrequencyOracle.error_score`."""
        return two_point_score(np.abs(errors), n, variance, np.asarray(self._most))

    def answers(self, n: I64, counters: I64) -> tuple[HierarchicalHistogram, I64, I64]:
        """All reports are answers."""
        return self, n, counters

    def debias(
        self, n: Any, counters: I64, *, confidence: float = 0.95, simultaneous: bool = False
    ) -> tuple[F64, F64, F64, F64]:
        """As `FrequencyOracle.debias`, of ranges of one value each."""
        check_open("confidence", confidence)
        d = self.domain.size
        rows = counters.reshape(-1, self.counters)
        of_each = np.broadcast_to(np.asarray(n, np.int64).reshape(-1), len(rows))
        z, codes = z_score(confidence, d if simultaneous else 1), np.arange(d)
        found = Reader(self, None).ranges(of_each, rows, np.stack([codes, codes + 1], axis=1), z)
        counts, errors, low, high = (array.reshape(*counters.shape[:-1], d) for array in found)
        return counts, errors, low, high

    def estimate(
        self,
        tally: Tally,
        *,
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: Consistency | None = None,
    ) -> Histogram:
        """The histogram of the values: see `FrequencyOracle.estimate`."""
        return HistogramEstimate(confidence, simultaneous, consistency).result(self, tally)

    @override
    def explain(self, n: int) -> ExpectedError:
        """The standard error of the share of the first half of the values, of people who are spread evenly."""
        middle = np.array([self.domain.size // 2])
        variance = float(self.range_variances(np.zeros(1, np.int64), middle)[0])
        share = float(np.sqrt(variance / n)) if n else np.inf
        return ExpectedError(share * n if n else np.inf, "records", share, _OF_HALF)


_OF_HALF = "the margin is of the first half of the values, if people are spread evenly; of frequent values it is larger"
_MANY, _ENOUGH = 10_000, 200  # people; reports of leaves


def _halves(masses: F64, differences: F64) -> F64:
    """float64[k, 2 m]: masses of m nodes divided among their halves, which differ by so much."""
    out = np.empty((len(masses), 2 * masses.shape[1]))
    out[:, ::2] = (masses + differences) / 2
    out[:, 1::2] = (masses - differences) / 2
    return out


def _cumulated(shares: F64) -> F64:
    """float64[k, d + 1]: sums of the first 0, 1, ... shares."""
    out = np.zeros((len(shares), shares.shape[1] + 1))
    np.cumsum(shares, axis=1, out=out[:, 1:])
    return out
