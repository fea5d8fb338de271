"""The audit: trials of a black box, events that tell its inputs apart, and the lower bound of epsilon they prove.

If Pr[report in S | x] >= p and Pr[report in S | y] <= q, then epsilon >= ln(p / q). For each ordered pair of inputs a
set S is chosen on one half of the trials, and p and q are Clopper-Pearson bounds on the other half; all of them hold
together but for the false alarm (Bonferroni's inequality). Z. Ding, Y. Wang, G. Wang, D. Zhang, D. Kifer, "Detecting
Violations of Differential Privacy", CCS 2018, choose events so; H. H. Arcolezi, S. Gambs, "Revealing the True Cost of
Locally Differentially Private Protocols: An Auditing Perspective", PoPETs 2024, audit local randomizers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ldp_core.auditing.binomial import epsilon_bound
from ldp_core.auditing.boxes import MOST_INPUTS, BlackBox, Box, box_of
from ldp_core.auditing.columns import Part, columns
from ldp_core.auditing.events import Event, choose
from ldp_core.auditing.result import Audit
from ldp_core.auditing.structure import find
from ldp_core.auditing.summaries import Rows
from ldp_core.errors import ParameterError, ReportError
from ldp_core.extras import import_extra
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.catalog import examples
from ldp_core.parameters import check_integer, check_open
from ldp_core.plans.drawn import DrawnColumn
from ldp_core.plans.plan import PrivacyPlan

_ROWS = 1 << 19  # records that the black box gets at a time,
_CELLS = 1 << 25  # and places of their reports
_KEPT = 1 << 28  # bytes of reports from which events are chosen
_PROBE = 64
_LEAST_TRIALS, _MOST_TRIALS = 1000, 10**10


def audit(
    claim: Mechanism | PrivacyPlan | float,
    perturb: BlackBox | None = None,
    *,
    inputs: Sequence[Any] | None = None,
    epsilon: float | None = None,
    rounds: int = 1,
    keyed: bool = False,
    trials: int = 1_000_000,
    false_alarm: float = 1e-6,
    name: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Audit:
    """A lower bound of epsilon from reports, with confidence, and whether it contradicts what is claimed.

    It proves faults: a bound above the claim is wrong with probability ``false_alarm`` at most. It does not prove that
    there are none, as it looks at few inputs and at events that so many trials can show. It needs the extra ``audit``.

    Args:
        claim: what is said of the reports: they are those of this mechanism, or of records under this plan; or this
            number is their epsilon.
        perturb: the black box that makes them, as ``perturb(values) -> reports``: values are an Arrow array, reports an
            Arrow or numpy array (or a list), one for each value, in their order. Where inputs are tuples, it gets an
            array for each position, and may return a tuple of reports: the columns of a record, or the rounds of a
            person. Each call is of new persons, and records must be perturbed independently of each other. Default:
            the mechanism or the plan itself.
        inputs: the values to tell apart, each from each; tuples of values for records and rounds. Default: a few of the
            mechanism's inputs, null and values outside of the domain among them where it takes them.
        epsilon: what is claimed instead of the mechanism's or the plan's own epsilon.
        rounds: of a mechanism: this many reports of one unchanged value, against `Mechanism.epsilon_of`. (Histories
            that change are ``inputs``: tuples, one value a round.)
        keyed: under keyed noise, each call with a new secret. (Mechanisms that remember always are.)
        trials: of each input, 1,000 to 10^10. Half of them choose events (fewer, if reports are so wide that they fill
            the memory), and the others are counted.
        false_alarm: the probability that the bound is above the true epsilon.
        name: what to call it.
        progress: called with a line for each batch.

    Raises:
        ParameterError: arguments that do not exist or go together.
        ReportError: the black box returns another number of reports, or reports that are no numbers or texts.

    >>> import math
    >>> from ldp_core import RandomizedResponse, audit
    >>> coins = RandomizedResponse.from_coins(truth=0.5, yes=0.2)  # claims ln 3, as two fair coins would have it
    >>> found = audit(math.log(3), coins.perturb, inputs=[False, True], trials=20_000, name="two coins")
    >>> found.verdict, found.lower_bound > 1.5
    ('broken', True)
    """
    import_extra("scipy.special", "audit")  # before anything is drawn
    trials = check_integer("trials", trials, low=_LEAST_TRIALS, high=_MOST_TRIALS)
    check_open("false_alarm", false_alarm)
    box = box_of(claim, perturb, inputs, epsilon, rounds, keyed, name)
    n_inputs = len(box.inputs)
    if not 2 <= n_inputs <= MOST_INPUTS:
        raise ParameterError(f"inputs must be 2 to {MOST_INPUTS}, got {n_inputs}")
    alpha = false_alarm / (2 * n_inputs * (n_inputs - 1))

    draw = _Drawing(box, progress, trials)
    structure = find(box, trials)
    quarter = min(trials // 4, draw.most)
    counted = trials - 2 * quarter
    first, second = draw.all(quarter), draw.all(quarter)
    events = choose(first, second, draw.names, trials=counted, alpha=alpha)
    del first, second

    hits = np.zeros((len(events), 2), np.int64)
    for rows in draw.batches(counted):
        for k, event in enumerate(events):
            hits[k] += [event.hits(rows[at]) for at in event.pair]
    bounds = [epsilon_bound(int(one), counted, int(other), counted, alpha) for one, other in hits]
    claims = [box.claim(event.pair) for event in events]
    nothing: tuple[float, float, Event | None] = (0.0, box.claimed, None)
    found = [nothing, *zip(bounds, claims, events, strict=True)]
    bound, claim, told = max(found, key=lambda one: (one[0] > one[1], one[0]))
    inputs = tuple(str(row[0]) if len(row) == 1 else str(row) for row in box.inputs)
    return Audit(
        name=box.name,
        claimed=claim if bound > claim else box.claimed,
        exact=box.exact if claim == box.claimed or bound <= claim else None,
        lower_bound=bound,
        false_alarm=false_alarm,
        trials=trials,
        inputs=inputs,
        pair=None if told is None else (inputs[told.pair[0]], inputs[told.pair[1]]),
        event="" if told is None else str(told),
        structure=structure,
    )


class _Drawing:
    """Batches of trials: of all inputs equally many, in an order that tells nothing."""

    def __init__(self, box: Box, progress: Callable[[str], None] | None, total: int) -> None:
        self._box, self._progress, self._total, self._done = box, progress, total, 0
        self._values = [pa.array([row[k] for row in box.inputs]) for k in range(len(box.inputs[0]))]
        self._order = np.random.default_rng(0)  # of the records; their noise is the black box's
        self.names: list[str] = []
        some = self._batch(_PROBE)
        self._step = max(min(_ROWS, _CELLS // len(self.names)) // len(some), 1)
        width = sum(column.dtype.itemsize for column in some[0].columns)
        self.most = max(_KEPT // (width * len(some) * 2), _LEAST_TRIALS // 4)
        """Of each input, the most trials of which all reports are kept, twice."""

    def batches(self, trials: int) -> Any:
        """As many trials of each input, as a list of `Rows` a batch: one of each input."""
        left = trials
        while left:
            n = min(self._step, left)
            yield self._batch(n)
            left -= n
            self._done += n
            if self._progress:
                self._progress(f"{self._box.name}: {self._done:,} of {self._total:,} trials of each input")

    def all(self, trials: int) -> list[Rows]:
        """As many trials of each input, together."""
        batches = list(self.batches(trials))
        if len(batches) == 1:
            return batches[0]
        together = []
        for of_input in zip(*batches, strict=True):
            parts = zip(*(rows.parts for rows in of_input), strict=True)
            together.append(Rows([[np.concatenate(c) for c in zip(*part, strict=True)] for part in parts]))
        return together

    def _batch(self, n: int) -> list[Rows]:
        n_inputs = len(self._box.inputs)
        which = self._order.permutation(np.repeat(np.arange(n_inputs, dtype=np.uint8), n))
        reports = self._box.perturb(*(values.take(pa.array(which)) for values in self._values))
        told = columns(reports)
        parts = [*told, *self._box.reading(reports)]
        if not parts or not all(parts) or any(len(c) != len(which) for part in parts for c in part):
            raise ReportError(f"{self._box.name}: {len(which)} values need as many reports, each of one column or more")
        names = [_name(k, j, part, len(told)) for k, part in enumerate(parts) for j in range(len(part))]
        if self.names and names != self.names:
            raise ReportError(
                f"{self._box.name}: reports of one call are of another type than those of another, as pandas' numbers "
                "with and without missing ones are: give all of them one type"
            )
        self.names = names
        order = np.argsort(which, kind="stable").reshape(n_inputs, n)
        return [Rows([[column[at] for column in part] for part in parts]) for at in order]


def _name(k: int, place: int, part: Part, n_reports: int) -> str:
    """What to call a place of the k-th part: of a report, or of what the mechanism reads in them."""
    if k >= n_reports:
        return f"support of input {place + 1}"
    of = f"report {k + 1}" if n_reports > 1 else "the report"
    return f"place {place + 1} of {of}" if len(part) > 1 else of


# ---- a plan, or an example of each mechanism


def run_audit(
    plan: PrivacyPlan | None = None,
    *,
    columns: Sequence[str] = (),
    trials: int = 1_000_000,
    false_alarm: float = 1e-6,
    keyed: bool = False,
    rounds: int = 4,
    progress: Callable[[str], None] | None = None,
) -> list[Audit]:
    """Audit each column of a plan and its whole record: the lines of the table that `ldp audit` prints.

    Without a plan an example of each mechanism is audited; with ``columns`` only these, and not the whole record.
    ``rounds`` are of memoized mechanisms: also this many reports of one unchanged value, unless it is 0 or 1. That any
    line is wrong has the probability ``false_alarm``; for the others see `audit`. Raise `LdpError` if there is no such
    column, or it cannot be audited.
    """
    check_integer("rounds", rounds, 0, 64)
    check_open("false_alarm", false_alarm)
    audits: list[Callable[..., Audit]] = []
    for name, m in _mechanisms(plan, columns):
        audits.append(partial(audit, m, name=name, keyed=keyed))
        if m.memoized and rounds > 1:
            audits.append(partial(audit, m, name=f"{name}, {rounds} reports", rounds=rounds))
    if plan and not columns and (len(plan.columns) > 1 or not audits):
        audits.append(partial(audit, plan, keyed=keyed))
    share = false_alarm / len(audits)
    return [run(trials=trials, false_alarm=share, progress=progress) for run in audits]


def _mechanisms(plan: PrivacyPlan | None, columns: Sequence[str]) -> Iterable[tuple[str, Mechanism]]:
    if plan is None:
        return examples().items()
    if columns:
        return ((name, plan[name]) for name in columns)
    return ((name, m) for name, m in plan.columns.items() if not isinstance(m, DrawnColumn))
