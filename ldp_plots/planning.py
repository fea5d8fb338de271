"""Pictures for planning, before there are data: from closed forms, as `ldp_core.recommend` and its kin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from ldp_core import FrequencyOracle, Interval, Mechanism, Numeric, ParameterError, expected_error
from ldp_core.engine import (
    CATALOG,
    Chart,
    Theme,
    altair,
    check_epsilon,
    check_integer,
    check_open,
    mechanisms_of_size,
    themed,
    z_score,
)
from ldp_core.engine import CHART_WIDTH as WIDTH
from ldp_core.engine import chart_heading as heading

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
PEOPLE = (1_000, 10_000, 100_000, 1_000_000)
_POINTS = 41
_CELL = 60


def error(
    mechanism: str | type[Mechanism],
    *,
    domain: Any,
    epsilons: Sequence[float] = EPSILONS,
    people: Sequence[int] = PEOPLE,
    against: Literal["epsilon", "people"] = "epsilon",
    confidence: float = 0.95,
    group: float = 1.0,
    title: str = "",
    theme: Theme | None = "light",
) -> Chart:
    """Half of an interval against epsilon, a line for each number of people; or against people, a line an epsilon.

    Args:
        mechanism: a name that `ldp_core.recommend` gives, or a class.
        domain: the values, or how many; an interval (low, high), of a mean. See `ldp_core.recommend`.
        epsilons: of a report. Those along the axis are the ends, with more in between.
        people: numbers of people, likewise.
        against: ``"epsilon"`` or ``"people"``: what the horizontal axis is.
        confidence: of the intervals.
        group: the share of the people who are in the group that is asked about.
        title, theme: see `estimate`.

    Raises:
        ParameterError: an argument outside its interval, see `ldp_core.expected_error`.
        MissingExtraError: Altair is not installed.

    >>> chart = error("unary_encoding", domain=16, epsilons=[0.5, 4], people=[10_000])
    >>> rows = next(iter(chart.to_dict()["datasets"].values()))
    >>> (rows[0]["epsilon"], rows[0]["people"]) == (0.5, 10_000) and round(rows[0]["margin"], 4)
    0.0777
    """
    alt = altair()
    if against not in ("epsilon", "people"):
        raise ParameterError(f'against must be "epsilon" or "people", got {against!r}')
    if not epsilons or not people:
        raise ParameterError("error needs at least one epsilon and one number of people")
    spent = [check_epsilon("epsilons", epsilon) for epsilon in epsilons]
    counts = [check_integer("people", n, 1) for n in people]
    z = z_score(check_open("confidence", confidence))
    marks: set[float] = set(spent if against == "epsilon" else counts)
    if against == "epsilon":
        spent = _between(spent)
    else:
        counts = [round(n) for n in _between(counts)]
    is_pair = isinstance(domain, tuple) and len(domain) == 2 and all(isinstance(x, float | int) for x in domain)
    asked = Interval.of(domain) if is_pair else domain
    rows = [
        {"epsilon": e, "people": n, "margin": z * expected_error(mechanism, n, domain=asked, epsilon=e, group=group)}
        for e in spent
        for n in counts
    ]
    numeric = isinstance(asked, Interval)
    margins = [row["margin"] for row in rows]
    bottom, top = min(margins) / 1.2, max(margins) * 1.2
    if not numeric:
        top = max(min(top, 1.0), bottom * 2)  # an error of more than everybody says nothing
    line = "people" if against == "epsilon" else "epsilon"
    order = sorted({row[line] for row in rows})
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X(
            f"{against}:Q",
            title="epsilon of a report" if against == "epsilon" else "people",
            scale=alt.Scale(type="log", nice=False),
            axis=alt.Axis(values=sorted(marks), format="~g" if against == "epsilon" else "~s"),
        ),
        y=alt.Y(
            "margin:Q",
            title="margin of error of the mean" if numeric else "margin of error of a share",
            scale=alt.Scale(type="log", nice=False, domain=[bottom, top]),
            axis=alt.Axis(values=_round(bottom, top), format="~g" if numeric else "~%"),
        ),
        color=alt.Color(
            f"{line}:O", sort=order, title=line, legend=alt.Legend(format=",d" if line == "people" else "~g")
        ),
        tooltip=["epsilon:Q", "people:Q", "margin:Q"],
    )
    called = mechanism if isinstance(mechanism, str) else mechanism.name
    of = f"numbers from {asked.low:g} to {asked.high:g}" if isinstance(asked, Interval) else "a share near 1 / d"
    notes = [f"{100 * confidence:g} % intervals", of]
    chart = base.mark_line(clip=True).properties(width=WIDTH, height=260, title=heading(title or called, notes))
    return themed(chart, theme)


def _between(values: Sequence[float]) -> list[float]:
    """The values, and points between their ends, evenly on a logarithmic axis."""
    low, high = min(values), max(values)
    if low == high:
        return [low]
    step = math.log(high / low) / (_POINTS - 1)
    inner = [low * math.exp(k * step) for k in range(1, _POINTS - 1)]
    return sorted({*values, *inner})


def _round(bottom: float, top: float) -> list[float]:
    """Numbers for an axis: 1, 2 and 5 times powers of ten; only the powers where these are many."""
    tens = range(math.floor(math.log10(bottom)), math.ceil(math.log10(top)) + 1)
    found = [float(f"{k}e{ten}") for ten in tens for k in (1, 2, 5) if bottom <= float(f"{k}e{ten}") <= top]
    return found if len(found) <= _MANY else [x for x in found if f"{x:e}"[0] == "1"]


_MANY = 8


def mechanisms(
    d: int | tuple[float, float] | Interval,
    n: int,
    *,
    epsilons: Sequence[float] = EPSILONS,
    title: str = "",
    theme: Theme | None = "light",
) -> Chart:
    """Privacy against accuracy, of all mechanisms: the standard error of each, for each epsilon of a report.

    A cell is the error; its color is how many times that of the best one in its column. Mechanisms that differ by a
    few percent, as most do, would be one line in a picture of lines.

    Of values the error is that of a share of 1 / d. Sketches look for d candidates; those that people send again and
    again (L-GRR and the like) have this epsilon for the first report.

    Args:
        d: number of values; or an interval (low, high), of the mean of numbers.
        n: number of people.
        epsilons: of one report.
        title, theme: see `estimate`.

    Raises:
        ParameterError: an argument outside its interval.
        MissingExtraError: Altair is not installed.

    >>> chart = mechanisms(16, 100_000, epsilons=[1.0])
    >>> rows = next(iter(chart.to_dict()["datasets"].values()))
    >>> {row["mechanism"]: round(row["error"], 4) for row in rows}["OUE"]
    0.0061
    """
    alt = altair()
    asked = d if isinstance(d, int) else Interval.of(d)
    if isinstance(asked, int):
        check_integer("d", asked, 2, _MOST)
    people = check_integer("n", n, 1)
    rows: list[dict[str, Any]] = []
    for epsilon in (check_epsilon("epsilons", e) for e in epsilons):
        made = {name: expected_error(m, people) for name, m in _at(asked, epsilon).items()}
        best = min(made.values())
        rows += [
            {"mechanism": name, "epsilon": f"{epsilon:g}", "error": x, "times": x / best}
            | {"shown": f"{x:.2g}" if isinstance(asked, Interval) else f"{100 * x:.2g}%"}
            for name, x in made.items()
        ]
    if not rows:
        raise ParameterError("mechanisms needs at least one epsilon")
    total: dict[str, float] = {}
    for row in rows:
        total[row["mechanism"]] = total.get(row["mechanism"], 0.0) + math.log(row["times"])
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X(
            "epsilon:N",
            sort=[f"{e:g}" for e in epsilons],
            title="epsilon of a report",
            axis=alt.Axis(labelAngle=0, orient="top", domain=False, ticks=False),
        ),
        y=alt.Y("mechanism:N", sort=sorted(total, key=lambda name: total[name]), title=None),
        tooltip=["mechanism:N", "epsilon:N", "error:Q", "times:Q"],
    )
    cells = base.mark_rect().encode(
        color=alt.Color(
            "times:Q",
            title="times the best",
            scale=alt.Scale(type="log", domain=[1, 10], clamp=True),
            legend=alt.Legend(format="~g", values=[1, 2, 5, 10], gradientLength=140),
        )
    )
    # numbers that can be read on dark and on light cells; which of the two is dark is the theme's
    low = base.transform_filter(f"datum.times < {_HALF}").mark_text(style="on-faint").encode(text="shown:N")
    high = base.transform_filter(f"datum.times >= {_HALF}").mark_text(style="on-strong").encode(text="shown:N")
    what = (
        f"the mean of numbers in [{asked.low:g}, {asked.high:g}]"
        if isinstance(asked, Interval)
        else f"{asked:,} values"
    )
    notes = [f"{what}, {people:,} people"]
    chart = alt.layer(cells, low, high).properties(
        width=alt.Step(_CELL), height=alt.Step(22), title=heading(title or "standard error of all mechanisms", notes)
    )
    return themed(chart, theme)


_MOST = 1 << 16
_HALF = 3.5


def _at(asked: int | Interval, epsilon: float) -> dict[str, Mechanism]:
    """The mechanisms of the catalog that answer, by name."""
    if isinstance(asked, Interval):
        kinds = [entry.mechanism for entry in CATALOG if issubclass(entry.mechanism, Numeric)]
        return {kind.name.replace("_", " "): kind(asked, epsilon=epsilon) for kind in kinds}
    return {name: m for name, m in mechanisms_of_size(asked, epsilon).items() if isinstance(m, FrequencyOracle)}
