"""Answers as aggregations of reports, and of tallies: one function does all of it, for every kind of question."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
import pyarrow as pa

import ldp_core as core
from ldp_core.engine import Ask, check_open, collecting, refuse_keys_in, warn_user
from ldp_polars._compat import at_plan_time
from ldp_polars.columns import (
    Report,
    answers_of,
    as_expr,
    check_mechanism,
    check_repeats_said,
    dtype_of,
    in_query,
    maker_of,
    to_arrow,
    unnamed,
    untyped,
    with_nulls,
)
from ldp_polars.noise import ids_to_arrow
from ldp_polars.tallying import counts, is_tally, tally_dtype, tally_for

if TYPE_CHECKING:
    from ldp_core.engine import Consistency, Population
    from ldp_core.engine import SquareWaveMethod as Method


def estimate(
    expr: pl.Expr | str,
    question: Ask | None = None,
    mechanism: core.Mechanism | None = None,
    *,
    confidence: float = 0.95,
    person: pl.Expr | str | None = None,
    assume_reports: bool = False,
) -> pl.Expr:
    """Aggregate reports to the answer to a question, in ``select``, ``group_by``, windows, ``rolling`` or ``over``.

    `histogram`, `mean` and the like are this function with a question of their own, and raise the same errors.

    Args:
        expr: a column of reports (or its name). Or of tallies, as `tally` and `merge` make them, which are answered
            each by itself; a null tally gives a null.
        question: a `ldp_core.Question`, as `ldp_core.MeanEstimate`, or what stands for one
            (`ldp_core.question_of`); default: what tells the most (`ldp_core.usual_question`).
        mechanism: that made the reports; not needed for typed reports, as `perturb` makes them.
        confidence: of the intervals, where ``question`` does not say it.
        person: a column (or its name) that says whose report it is, where several are of one person: integers, String
            or Binary. Errors and intervals of histograms and means are then those of independent people, whatever the
            noise; see `ldp_core.Question.of_persons`. All reports of a person must be in the same group. It is not for
            tallies, in which nobody is told apart: for these the question has ``repeats=``.
        assume_reports: take your word for it that a column of another dtype than `Report` holds reports of
            ``mechanism``; with a warning. Raw Booleans look like reports of randomized response.

    Returns:
        A Struct of the answer's columns a group, if there is always one row of them, as of a mean; else a List of such
        Structs: ``.explode(name).unnest(name)`` makes it a table.

    Raises:
        ParameterError: bad options, or a question that the mechanism cannot answer; when planned: keyed noise, and
            neither ``person`` nor the question's ``repeats``.
        DtypeError: when planned: neither typed reports nor tallies, and no ``assume_reports``; or no mechanism.
        ReportError: when run: nulls, or not this mechanism's reports.
        MechanismMismatchError: when run: reports or tallies of another mechanism.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import Hybrid, MeanEstimate
    >>> m = Hybrid((0, 100), epsilon=1.0)
    >>> ages = pl.DataFrame({"age": [20.0, 30.0]}).select(ldp_polars.perturb("age", m))
    >>> tallies = ages.select(ldp_polars.tally("age"))
    >>> tallies.select(ldp_polars.estimate("age", MeanEstimate(0.9), m)).unnest("age")["n"].to_list()
    [2]
    """
    check_open("confidence", confidence)
    if question is not None:  # now, and not when the query is planned
        question = core.question_of(question, confidence=confidence)
    if mechanism is not None:
        question = question or core.usual_question(check_mechanism(mechanism), confidence)
        question.check(check_mechanism(mechanism))
    options: dict[str, Any] = {"confidence": confidence, "person": person, "assume_reports": assume_reports}
    return at_plan_time(as_expr(expr), partial(_estimated, mechanism=mechanism, question=question, **options))


def histogram(
    expr: pl.Expr | str,
    mechanism: core.FrequencyOracle | None = None,
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
    consistency: Consistency | None = None,
    population: Population = None,
    repeats: int | None = None,
    person: pl.Expr | str | None = None,
    assume_reports: bool = False,
) -> pl.Expr:
    """Aggregate reports to a debiased histogram, in ``select``, ``group_by``, windows, ``rolling`` or ``over``.

    Of many groups ``frame.ldp.histograms(by=)`` takes a tenth of the time: here each is a call of Python.

    Args:
        expr, mechanism, confidence, person, assume_reports: see `estimate`.
        simultaneous: widen them so that all of a histogram's intervals hold together (Bonferroni).
        consistency: make the counts non-negative and add up to n, by a method of `consistent` such as
            ``"norm-sub"``: a smaller error, and a bias. ``standard_error``, ``low`` and ``high`` remain those of
            the unbiased estimate, which is the default.
        population: whom the intervals are about: None, the people who reported; ``"many"``, a large population of which
            they are a random sample; N, one of N people. See `ldp_core.HistogramEstimate`.
        repeats: the most reports of one person in a group, where ``person`` is not known. Keyed noise, and that of
            mechanisms with permanent answers, asks for one of both: 1 says that nobody is there twice.

    Returns:
        A ``List(Struct{value, count, standard_error, low, high, frequency, frequency_standard_error, frequency_low,
        frequency_high, n})`` a group, one entry per value of the domain: ``.explode(name).unnest(name)`` makes it a
        table. ``value`` is of the domain's own type. ``standard_error``, ``low`` and ``high`` are in records, as
        ``count`` is. ``frequency`` is the share of the group's ``n`` reports, ``count / n``, with an error bar of its
        own; nan without reports. n is known, and all reports are in it, whatever their value was.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(epsilon=1.0)
    >>> df = pl.DataFrame({"crashed": [True, False, True, True]}).select(ldp_polars.perturb("crashed", m))
    >>> df.select(ldp_polars.histogram("crashed")).explode("crashed").unnest("crashed").columns
    ['value', 'count', 'standard_error', 'low', 'high', 'frequency', 'frequency_standard_error', 'frequency_low', \
'frequency_high', 'n']
    """
    question = core.HistogramEstimate(confidence, simultaneous, consistency, population, repeats=repeats)
    return estimate(expr, question, mechanism, person=person, assume_reports=assume_reports)


def mean(
    expr: pl.Expr | str,
    mechanism: core.Numeric | None = None,
    *,
    confidence: float = 0.95,
    population: Population = None,
    repeats: int | None = None,
    person: pl.Expr | str | None = None,
    assume_reports: bool = False,
) -> pl.Expr:
    """Aggregate reports to the mean of the numbers, in ``select``, ``group_by``, windows, ``rolling`` or ``over``.

    Args:
        expr, mechanism, confidence, person, assume_reports: see `estimate`.
        population, repeats: see `histogram`, and `ldp_core.MeanEstimate`.

    Returns:
        A ``Struct{mean, standard_error, low, high, n}`` a group, in the numbers' own unit; ``unnest`` makes columns.
        The mean is unbiased; see `ldp_core.Mean`. nan without reports.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import Hybrid
    >>> m = Hybrid((0, 100), epsilon=1.0)
    >>> reports = pl.DataFrame({"age": [20.0, 30.0, 40.0] * 1000}).select(ldp_polars.perturb("age", m))
    >>> reports.select(ldp_polars.mean("age", m)).unnest("age").columns
    ['mean', 'standard_error', 'low', 'high', 'n']
    """
    question = core.MeanEstimate(confidence, population, repeats=repeats)
    return estimate(expr, question, mechanism, person=person, assume_reports=assume_reports)


def distribution(
    expr: pl.Expr | str,
    mechanism: core.Mechanism | None = None,
    *,
    confidence: float = 0.95,
    buckets: int | None = None,
    method: Method | None = None,
    assume: Literal["smooth"] | None = None,
    repeats: int | None = None,
    assume_reports: bool = False,
) -> pl.Expr:
    """Aggregate reports to the distribution of the numbers over buckets.

    Args:
        expr, mechanism, confidence, assume_reports: see `estimate`; of `SquareWave` or `StochasticRounding`.
        repeats: see `histogram`; more than 1 is refused.
        buckets: of the result; only of `SquareWave`. Default: as many as the mechanism has, at most 40.
        method: of `SquareWave.distribution`: ``"ems"`` or ``"em"``.
        assume: of `SquareWave.distribution`: None, or ``"smooth"`` for narrower intervals of smooth populations.

    Returns:
        A ``List(Struct{bucket_start, bucket_end, frequency, standard_error, low, high, n})`` a group, one entry a
        bucket: ``.explode(name).unnest(name)`` makes it a table. ``standard_error``, ``low`` and ``high`` are those of
        ``frequency``. Intervals of `SquareWave` hold for every population, unless ``assume=`` says which.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import SquareWave
    >>> m = SquareWave((0, 100), epsilon=1.0, buckets=200)
    >>> reports = pl.DataFrame({"age": [20.0, 30.0, 40.0] * 1000}).select(ldp_polars.perturb("age", m))
    >>> buckets = reports.select(ldp_polars.distribution("age", m, buckets=10)).explode("age").unnest("age")
    >>> buckets["bucket_end"].to_list()[:2]
    [10.0, 20.0]
    """
    question = core.DistributionEstimate(confidence, buckets, method, assume, repeats=repeats)
    return estimate(expr, question, mechanism, assume_reports=assume_reports)


def heavy_hitters(
    expr: pl.Expr | str,
    mechanism: core.HeavyHitters | None = None,
    k: int = 20,
    *,
    confidence: float = 0.95,
    threshold: float | None = None,
    repeats: int | None = None,
    assume_reports: bool = False,
) -> pl.Expr:
    """Aggregate reports to the most frequent values, in ``select``, ``group_by`` or windows.

    Args:
        expr, mechanism, assume_reports: see `estimate`.
        k: the most values to return.
        confidence, threshold: see `HeavyHitters.find`. The confidence is each search's: where there are g groups or
            windows, a value that nobody has is in one of the lists with a probability of up to ``1 - confidence**g``,
            which is 34 % for 8 groups at 0.95. ``confidence=0.95 ** (1 / g)`` keeps it to 5 % for all of them.
        repeats: see `histogram`; more than 1 is refused.

    Returns:
        A ``List`` of Structs with the fields that `histogram` has, the most frequent value first; empty where nothing
        is above the threshold. ``value`` is String, or Int64.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import HeavyHitters, Prefixes
    >>> m = HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 4), epsilon=5.0, levels=(2, 4), rows=8)
    >>> df = pl.DataFrame({"word": ["rome"] * 5000 + ["oslo"] * 3000}).select(ldp_polars.perturb("word", m))
    >>> df.select(ldp_polars.heavy_hitters("word", k=2)).explode("word").unnest("word")["value"].to_list()
    ['rome', 'oslo']
    """
    question = core.HeavyHittersEstimate(k, confidence, threshold, repeats=repeats)
    return estimate(expr, question, mechanism, assume_reports=assume_reports)


def range(  # noqa: A001 (as a method it is .ldp.range)
    expr: pl.Expr | str,
    low: Any = None,
    high: Any = None,
    mechanism: core.Mechanism | None = None,
    *,
    ranges: Sequence[tuple[Any, Any]] | None = None,
    edges: Sequence[Any] | None = None,
    values: Sequence[Any] | None = None,
    confidence: float = 0.95,
    population: Population = None,
    repeats: int | None = None,
    assume_reports: bool = False,
) -> pl.Expr:
    """Aggregate reports to how many records are in a range of ordered values, in several, in buckets, or in a set.

    Args:
        expr, mechanism, confidence, assume_reports: see `estimate`.
        low, high: of labels, as whole numbers, both belong to the range; of cells they are edges; None: no end.
        ranges: in their place several pairs (low, high).
        edges: or the values with which each bucket but the first begins: a histogram in buckets of your own choice.
        values: or a set of labels in any order, as ``["ios", "ipados"]``.
        population, repeats: see `histogram`.

    Returns:
        A Struct a group with the fields of `histogram`, of which ``value`` is the range in words; of ``ranges`` and
        ``edges`` a List of these.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import SubsetSelection
    >>> m = SubsetSelection([0, 1, 2, 3, 4], epsilon=1.0)
    >>> df = pl.DataFrame({"children": [0, 2, 1] * 1000}).select(ldp_polars.perturb("children", m))
    >>> df.select(ldp_polars.range("children", 1, 3)).unnest("children")["value"].item()
    '1 to 3'
    """
    question = core.RangeEstimate(low, high, ranges, edges, values, confidence, population, repeats=repeats)
    return estimate(expr, question, mechanism, assume_reports=assume_reports)


def quantiles(
    expr: pl.Expr | str,
    probabilities: Sequence[float] | float = (0.25, 0.5, 0.75),
    mechanism: core.Mechanism | None = None,
    *,
    confidence: float = 0.95,
    population: Population = None,
    repeats: int | None = None,
    assume_reports: bool = False,
) -> pl.Expr:
    """Aggregate reports to quantiles of ordered values; `weighted_quantiles` are those of a public column.

    Args:
        expr, mechanism, confidence, assume_reports: see `estimate`.
        probabilities: of the quantiles, each in (0, 1): one number or several.
        population, repeats: see `histogram`, and `ldp_core.QuantilesEstimate`.

    Returns:
        A ``List(Struct{probability, quantile, low, high, n})`` a group; numbers are Float64, labels String.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import SubsetSelection
    >>> m = SubsetSelection([0, 1, 2, 3], epsilon=50.0)  # hardly any noise
    >>> df = pl.DataFrame({"age": [1, 2, 3]}).select(ldp_polars.perturb("age", m))
    >>> df.select(ldp_polars.quantiles("age", [0.5])).item().struct.unnest().row(0)
    (0.5, 2.0, 2.0, 2.0, 3)
    """
    given: Any = probabilities  # (the question checks it)
    question = core.QuantilesEstimate(given, confidence, population, repeats=repeats)
    return estimate(expr, question, mechanism, assume_reports=assume_reports)


def median(
    expr: pl.Expr | str,
    mechanism: core.Mechanism | None = None,
    *,
    confidence: float = 0.95,
    population: Population = None,
    repeats: int | None = None,
    assume_reports: bool = False,
) -> pl.Expr:
    """Aggregate reports to the median of ordered values: a ``Struct{median, low, high, n}`` a group.

    Args:
        expr, mechanism, confidence, population, repeats, assume_reports: see `quantiles`.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import SubsetSelection
    >>> m = SubsetSelection([0, 1, 2, 3], epsilon=50.0)  # hardly any noise
    >>> df = pl.DataFrame({"age": [1, 2, 3]}).select(ldp_polars.perturb("age", m))
    >>> df.select(ldp_polars.median("age")).unnest("age").row(0)
    (2.0, 2.0, 2.0, 3)
    """
    question = core.MedianEstimate(confidence, population, repeats=repeats)
    return estimate(expr, question, mechanism, assume_reports=assume_reports)


def cdf(
    expr: pl.Expr | str,
    mechanism: core.Mechanism | None = None,
    *,
    confidence: float = 0.95,
    simultaneous: bool = True,
    population: Population = None,
    repeats: int | None = None,
    assume_reports: bool = False,
) -> pl.Expr:
    """Aggregate reports to the curve of cumulative shares of ordered values, with a band.

    Args:
        expr, mechanism, population, repeats, assume_reports: see `quantiles`.
        confidence: that the whole curve is in the band.
        simultaneous: False: of each interval by itself.

    Returns:
        A ``List(Struct{value, share, standard_error, low, high, n})`` a group.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import SubsetSelection
    >>> m = SubsetSelection([0, 1, 2, 3], epsilon=50.0)  # hardly any noise
    >>> df = pl.DataFrame({"age": [1, 2, 3, 3]}).select(ldp_polars.perturb("age", m))
    >>> df.select(ldp_polars.cdf("age")).explode("age").unnest("age")["share"].round(6).to_list()
    [0.0, 0.25, 0.5, 1.0]
    """
    question = core.CdfEstimate(confidence, simultaneous, population, repeats=repeats)
    return estimate(expr, question, mechanism, assume_reports=assume_reports)


def aggregate(
    expr: pl.Expr | str,
    mechanism: core.Mechanism,
    question: core.Question[Any],
    person: pl.Expr | str | None = None,
    *,
    grouped: bool = False,
) -> pl.Expr:
    """`estimate` of a column that is known to hold reports, and not tallies; ``grouped`` as of `tally_for`."""
    question.check(check_mechanism(mechanism))
    if person is not None:
        of_persons = in_query(_of_persons, mechanism=mechanism, question=question)
        dtype = _dtype(mechanism, question)
        return pl.map_batches([as_expr(expr), as_expr(person)], of_persons, return_dtype=dtype, returns_scalar=True)
    tally = tally_for(expr, mechanism, question.tallier(mechanism), question.repeats, grouped=grouped)
    return answers(tally, mechanism, question)


def _estimated(
    expr: pl.Expr,
    dtype: Any,
    *,
    mechanism: core.Mechanism | None,
    question: core.Question[Any] | None,
    confidence: float,
    person: pl.Expr | str | None,
    assume_reports: bool,
) -> pl.Expr:
    """What the dtype asks for: no reports are Structs with a fingerprint."""
    if mechanism is not None and question is not None and is_tally(dtype):
        if person is not None:
            raise core.ParameterError("tallies do not tell persons apart: give reports, or the question repeats=")
        return answers(expr, mechanism, question)
    made_by = maker_of(expr, dtype, mechanism, assume_reports=assume_reports)
    question = question or core.usual_question(made_by, confidence)
    if person is None:
        check_repeats_said(expr.meta.output_name(raise_if_undetermined=False) or "", dtype, made_by, question.repeats)
    return aggregate(expr, made_by, question, person)


def answers(expr: pl.Expr, mechanism: Any, question: core.Question[Any]) -> pl.Expr:
    """The answers to tallies, as `estimate` has them."""
    answered = in_query(_answered, mechanism=mechanism, question=question)
    return pl.map_batches([expr], answered, return_dtype=_dtype(mechanism, question), is_elementwise=True)


def _dtype(mechanism: Any, question: core.Question[Any]) -> pl.DataType:
    row: pl.DataType = dtype_of(pa.struct(list(question.schema(mechanism))))
    return row if question.single else pl.List(row)


def _of_persons(
    inputs: Sequence[pl.Series], return_dtype: Any = None, *, mechanism: core.Mechanism, question: core.Question[Any]
) -> pl.Series:
    """Polars calls it back: reports and whose they are -> one answer."""
    reports, persons = inputs
    refuse_keys_in([persons.name] if isinstance(persons.dtype, Report) else [], "their dtype")
    with collecting() as implausible:
        arrow = to_arrow(untyped(reports, mechanism))
        found = question.of_persons(mechanism, arrow, ids_to_arrow(persons), column=reports.name)
    _warn(reports.name, implausible)
    table = found.to_arrow()
    return answers_of(reports.name, table, None if question.single else [len(table)], return_dtype)


def _warn(name: str, implausible: Sequence[str]) -> None:
    if implausible:  # once a call
        warn_user(f"column {name!r}: {implausible[0]}")


def _answered(
    inputs: Sequence[pl.Series], return_dtype: Any = None, *, mechanism: core.Mechanism, question: core.Question[Any]
) -> pl.Series:
    """Polars calls it back: tallies -> answers, row by row but all at once; null -> null."""
    [tallies] = inputs
    if tallies.dtype == pl.Null:  # what `rolling` of Polars 2.1 makes of no rows
        tallies = tallies.cast(tally_dtype(question.tallier(mechanism)))
    there = unnamed(tallies).is_not_null()
    with collecting() as implausible:
        known = unnamed(tallies).drop_nulls().alias(tallies.name)
        table, lengths = question.rows(mechanism, *counts(known, question.tallier(mechanism)))
    _warn(tallies.name, implausible)
    found = answers_of(tallies.name, table, None if question.single else lengths, return_dtype)
    return with_nulls(found, there)
