"""``ldp estimate --by-private``: groups by the values of a private column, by the weights of its reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from ldp_cli import files, printing
from ldp_cli.values import named, shares_of
from ldp_core import Domain, DtypeError, Numeric, PlanError, PrivacyPlan
from ldp_core.engine import check_open, in_percent, off_of, reach_of_private

if TYPE_CHECKING:
    import polars as pl


_NUMBERS = ("standard_error", "low", "high", "n")
_OF_ANSWER = ("value", "answer", "estimate", *_NUMBERS)


@dataclass(frozen=True)
class ByPrivate:
    """What is asked, as the options of the command say it."""

    plan: PrivacyPlan
    column: str
    of: str | None
    quantiles: list[float]
    among: list[str]
    weights: str | None
    share: str | None
    confidence: float
    repeats: int | None

    def __post_init__(self) -> None:
        check_open("--confidence", self.confidence)
        asked = (self.of is not None) + self.stand_for_others
        if asked == 2 or (not asked and len({*self.among}) < 2):
            raise typer.BadParameter(
                "--by-private takes --of NUMBER, --weights COLUMN and --share, or --among of several values"
            )
        if self.among and self.stand_for_others:
            raise typer.BadParameter("--weights and --share say shares of all people: --among is without them")
        if self.quantiles and (self.of is None or self.of in self.plan.columns):
            raise typer.BadParameter("--quantile is of a public number: --of NUMBER, a kept column")

    @property
    def stand_for_others(self) -> bool:
        """Whether survey weights or known shares are given."""
        return self.weights is not None or self.share is not None

    def show(
        self,
        reports: pl.LazyFrame,
        by: Iterable[str],
        window: str | None,
        event_time: str | None,
        *,
        as_json: bool,
        assume_reports: bool,
    ) -> None:
        """Print the answers, in each group of public columns and each window."""
        printing.check_groups(by, {"column_name", *_OF_ANSWER, *([] if window is None else ["window_start"])})
        places = {name: files.in_periods(name) for name in by}
        if event_time is not None:
            places["window_start"] = files.in_periods(event_time, window)
        with printing.working("weighing the reports"), files.polars_work("estimate"):
            found = self._rows(reports, places, assume_reports=assume_reports)
        seeded = printing.seed_words(self.plan, reports)
        if as_json:
            printing.say_json(printing.told_apart(found, list(places)), seeded)
            return
        words = f"intervals: {in_percent(self.confidence)} %, of noise and sampling together; inf: too few have it"
        printing.show_by_column(found, list(places), self._cells, words, seeded)

    def _rows(
        self, reports: pl.LazyFrame, places: Mapping[str, pl.Expr], *, assume_reports: bool
    ) -> list[dict[str, Any]]:
        """A row for each place, value and answer. Its ends are infinite where too few people have the value."""
        asked = list(self._asked(reports.collect_schema(), assume_reports=assume_reports))
        exprs = [expr.alias(f"answer {k}") for k, (_, _, expr) in enumerate(asked)]
        keys = {name: f"key {k}" for k, name in enumerate(places)}
        whose = [expr.alias(keys[name]) for name, expr in places.items()]
        found = (
            reports.group_by(whose).agg(exprs).sort(*keys.values(), nulls_last=True) if keys else reports.select(exprs)
        )
        rows: list[dict[str, Any]] = []
        for made in found.collect().to_dicts():
            head = {"column_name": self.column, **{name: made[key] for name, key in keys.items()}}
            for k, (value, name, _) in enumerate(asked):
                answers = made[f"answer {k}"]
                if name == "jump":  # (of the total, the next one)
                    jump, people = answers
                    continue
                for one in answers if isinstance(answers, list) else [answers]:
                    answer = f"{100 * one['probability']:g} %" if "probability" in one else name
                    estimate = next(one[field] for field in ("ratio", "total", "mean", "quantile") if field in one)
                    numbers = [one.get(field) for field in _NUMBERS]
                    if name == "total" and self.of in self.plan.columns:
                        mean, error = rows[-1]["estimate"], numbers[0]
                        x = self.plan[str(self.of)]
                        below, above = reach_of_private(x, mean, error, jump, self.confidence, self.repeats or 1)
                        off = off_of(x) * abs(people)
                        numbers[1] = min(numbers[1], estimate - below) - off
                        numbers[2] = max(numbers[2], estimate + above) + off
                    rows.append(head | dict(zip(_OF_ANSWER, [value, answer, estimate, *numbers], strict=True)))
        return rows

    def _asked(self, there: pl.Schema, *, assume_reports: bool) -> Iterator[tuple[str, str, pl.Expr]]:
        """Values, what is asked of each, and its expression."""
        from polars import selectors  # noqa: PLC0415 (only here)

        ldp_polars, said = files.our_polars(), {"repeats": self.repeats, "assume_reports": assume_reports}
        how = {"confidence": self.confidence, "repeats": self.repeats or 1}
        asked = [name for name in (self.of, self.weights) if name is not None]
        given, shares = (None, "") if self.share is None else named(self.share, example="sex=f:0.5,m:0.5")
        numbers = {*selectors.expand_selector(there, selectors.numeric() | selectors.boolean()), *self.plan.columns}
        for name in asked:
            if name not in numbers:
                raise DtypeError(f"--of and --weights take a column of numbers, got {name!r} ({there[name]})")

        def weight(name: str, value: Any = None) -> pl.Expr:
            return ldp_polars.weight(selectors.by_name(name), value, self.plan[name], **said)

        each = {text: weight(self.column, value) for text, value in self._values().items()}
        for text, w in each.items():
            if self.stand_for_others:
                stands = None if self.weights is None else selectors.by_name(self.weights)
                strata: dict[str, Any] = {}
                if given is not None:
                    strata = {"groups": selectors.by_name(given), "shares": shares_of(shares, _kind(there[given]))}
                yield text, "share", ldp_polars.weighted_mean(w, weights=stands, **strata, **how)
            elif self.of is None:
                yield text, "share", ldp_polars.ratio(w, sum(each.values()), **how)
            else:
                x = self.plan.columns.get(self.of)
                y = selectors.by_name(self.of) if x is None else weight(self.of)
                yield text, "mean", ldp_polars.ratio(w * y, w, of=x, **how)
                if x is not None:
                    jump = abs((w**3).sum()) / (w**2).sum() / (w.max() > 0).cast(float)
                    yield text, "jump", jump.append(w.sum()).implode()
                yield text, "total", ldp_polars.total(w * y, w if x is None else w * y, **how)
                if self.quantiles:
                    yield text, "", ldp_polars.weighted_quantiles(y, self.quantiles, w, **how)

    def _values(self) -> dict[str, Any]:
        """Those of the groups, by how they are written."""
        domain = getattr(self.plan.columns.get(self.column), "domain", None)
        if not isinstance(domain, Domain):
            raise PlanError(f"no column {self.column!r} of the plan has a list of values to make groups of")
        if self.of is not None and self.of in self.plan.columns and not isinstance(self.plan[self.of], Numeric):
            raise PlanError(f"--of {self.of} is a private column without numbers: --table has the rates of its values")
        there = dict(zip(domain.texts, domain.values, strict=True))
        if unknown := sorted({*self.among} - there.keys()):
            raise typer.BadParameter(f"--among {unknown[0]}: the values are {', '.join(there)}")
        return {text: there[text] for text in self.among or there}

    def _cells(self, row: dict[str, Any], share: Callable[[Any], str]) -> dict[str, str]:
        """Of a row for people."""
        text = share if self.of is None else partial(printing.number, digits=printing.decimals(row, 1))
        return {"": row["answer"], "estimate": text(row["estimate"]), "from": text(row["low"]), "to": text(row["high"])}


def _kind(dtype: Any) -> str:
    """Of what kind the values of a column are, for `shares_of`."""
    text = dtype.base_type().__name__ in ("String", "Categorical", "Enum")
    return "str" if text else "float" if dtype.is_float() else ""
