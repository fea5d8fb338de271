"""The query of a plan, run by DuckDB, makes the histogram that Python makes; that for BigQuery is parsed, not run."""

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    Domain,
    HistogramEstimate,
    Joint,
    Keyed,
    LocalHashing,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
    SubsetSelection,
    TableEstimate,
    UnaryEncoding,
)
from ldp_core.plans import sql

from ...cases import case, each
from ..examples import ORACLES

COUNTED = ("binary RR", "k-ary RR", "k-ary RR, dates", "OUE", "SUE wide", "SS", "SS wide", "THE")
COUNTED += ("L-GRR", "L-OSUE", "L-SUE wide")
NUMBERS = ("count", "standard_error", "low", "high", "frequency", "n")
HARD = ["o'hara", 'a "b"', "back\\slash", "ö", "", "new\nline"]


def query(m, column="x", **options):
    return PrivacyPlan({column: m}).sql(column, "reports", **options)


def run(text, **tables):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(text).to_arrow_table().to_pydict()


def expected(m, reports, confidence=0.95, repeats=None):
    found = HistogramEstimate(confidence, repeats=repeats).result(m, m.tally(reports))
    numbers = (found.counts, found.standard_errors, found.low, found.high, found.frequencies, found.n)
    return dict(zip(NUMBERS, numbers, strict=True))


def differences(answer, numbers):
    """Of each column the greatest, in parts of the number."""
    return {name: np.abs(np.array(answer[name], float) / numbers[name] - 1).max() for name in NUMBERS}


def drawn_from(m, n=3000):
    labels = m.domain.arrow_values.slice(0, m.domain.listed)
    return labels.take(pa.array(np.arange(n) ** 2 % len(labels)))


@each("packed", [False, True])
@each("name", COUNTED)
@pytest.mark.slow
def test_duckdb_makes_our_histogram(name, packed):
    m = ORACLES[name]
    keyed = Keyed(Secret.from_seed(1), range(3000), column="x") if m.memoized else None
    made = m.perturb(drawn_from(m), packed=packed, randomness=keyed)
    stored = made.dictionary_decode() if pa.types.is_dictionary(made.type) else made
    for repeats in (None, 1, 7):
        if m.memoized and repeats is None:
            with pytest.raises(ParameterError, match=r"say repeats=1.* is given\)$"):
                query(m)
            continue
        answer = run(query(m, packed=packed, repeats=repeats), reports=pa.table({"x": stored}))
        assert answer["value"] == m.domain.arrow_values.to_pylist()
        assert max(differences(answer, expected(m, made, repeats=repeats)).values()) < 1e-9


def test_signed_words_groups_other_values_and_hard_labels():
    m = UnaryEncoding(Domain([*HARD, *(f"v{k}" for k in range(70))], unmatched="other"), epsilon=1.0)
    made = m.perturb(pa.array([HARD[k % 6] for k in range(4000)]), packed=True)
    words = made.flatten().view(pa.int64())  # as Beam's rows and BigQuery have them
    group = np.arange(4000) % 3
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(words, 2), 'a "group"': group})
    text = query(m, packed=True, by=['a "group"'], confidence=0.8)
    answer = run(text, reports=table)
    for k in range(3):
        mine = {name: np.array(column, object)[np.array(answer['a "group"']) == k] for name, column in answer.items()}
        numbers = expected(m, made.filter(pa.array(group == k)), 0.8)
        assert mine["value"].tolist() == list(m.domain.texts)
        assert max(differences(mine, numbers).values()) < 1e-9


@pytest.mark.slow
def test_duckdb_makes_our_table_of_two_columns():
    labels = ["o'hara", "{a}", "c"]
    kinds = {
        "RR": RandomizedResponse([1, 2], epsilon=1.0),
        "SUE": UnaryEncoding(["x", "y"], epsilon=1.5, variant="symmetric"),
        "OUE": UnaryEncoding(labels, epsilon=1.0),
        "SS": SubsetSelection(range(70), epsilon=2.0),
    }
    for first, second, packed, repeats in (
        ("RR", "SUE", False, None),
        ("OUE", "RR", True, 1),
        ("SUE", "SS", True, 1),
        ("OUE", "SS", False, 2),
    ):
        columns = {"a a": kinds[first], 'b"b': kinds[second]}
        pair, plan = Joint(columns), PrivacyPlan(columns)
        with case(first, second):
            reports = {c: m.perturb(drawn_from(m), packed=packed, randomness=keyed(c)) for c, m in columns.items()}
            stored = {c: r.dictionary_decode() if pa.types.is_dictionary(r.type) else r for c, r in reports.items()}
            text = plan.sql(("a a", 'b"b'), "reports", packed=packed, confidence=0.9, repeats=repeats)
            answer = run(text, reports=pa.table(stored))
            asked = TableEstimate(0.9, repeats=repeats)
            mine = asked.result(pair, pair.tally(reports)).to_arrow().to_pydict()
            assert list(answer) == [*columns, *NUMBERS]
            for column in (*columns, "n"):
                assert answer[column] == mine[column]
            for column in NUMBERS[:-1]:
                assert np.abs(np.array(answer[column]) / mine[column] - 1).max() < 1e-9, column
    sqlglot = pytest.importorskip("sqlglot")
    sqlglot.parse_one(plan.sql(("a a", 'b"b'), "t", dialect="bigquery"), dialect="bigquery")
    with pytest.raises(ParameterError, match="SQL has tables of two columns"):
        PrivacyPlan(kinds).sql(("RR", "SUE", "OUE"), "reports")
    with pytest.raises(ParameterError, match="tally it in Python"):
        PrivacyPlan({"a": kinds["RR"], "b": LocalHashing(labels, epsilon=1.0)}).sql(("a", "b"), "reports")


def keyed(column):
    return Keyed(Secret.from_seed(1), range(3000), column=column)


def test_text_is_compared_and_no_reports_are_no_rows():
    m = RandomizedResponse(HARD, epsilon=2.0)
    made = m.perturb(pa.array(HARD * 500)).dictionary_decode()
    answer = run(query(m), reports=pa.table({"x": made}))
    assert max(differences(answer, expected(m, made)).values()) < 1e-9
    assert run(query(m), reports=pa.table({"x": made[:0]}))["n"] == []


def test_columns_of_the_query_are_no_others_and_reports_of_nobody_do_not_count():
    """A group named n took the place of the number of reports: counts were by hundreds too large."""
    columns = {"os": RandomizedResponse(["a", "b", "c"], epsilon=1.0), "j": UnaryEncoding([1, 2, 3], epsilon=1.0)}
    plan = PrivacyPlan(columns)
    for column, by in (("os", "n"), ("os", "N"), ("os", "estimate"), ("j", "low"), (("os", "j"), "day")):
        with case(column, by), pytest.raises(ParameterError, match="of its own: rename those of the reports"):
            plan.sql(column, "reports", by=[by])
    duckdb = pytest.importorskip("duckdb")
    bits = pa.array([[True, False, True], None], pa.list_(pa.bool_(), 3))
    for column, reports in (("os", pa.array(["a", None])), ("os", pa.array(["a", "d"])), ("j", bits)):
        with case(column), pytest.raises(duckdb.Error, match="a report is null, or none of the plan"):
            run(plan.sql(column, "reports"), reports=pa.table({column: reports}))
    both = PrivacyPlan({"os": plan["os"], "k": plan["j"]})
    with pytest.raises(duckdb.Error, match="a report is null"):
        run(both.sql(("os", "k"), "reports"), reports=pa.table({"os": ["a", "b"], "k": bits}))


def test_names_that_only_case_tells_apart_are_refused():
    """DuckDB counted os for OS, and grouped by day for Day; a key OS of the reports os was taken."""
    os = RandomizedResponse(["a", "b"], epsilon=1.0)
    plan = PrivacyPlan({"os": os, "OS": os, "x": os, "y": os}, keep=["day", "Day"])
    for column, by in (("os", ()), ("OS", ()), (("x", "OS"), ()), ("x", "Day"), ("x", ["day", "DAY"])):
        with case(column, by), pytest.raises(ParameterError, match="names in SQL have no case"):
            plan.sql(column, "reports", by=by)
    for column, by in ((None, ()), (("x", 1), ()), ([["x"]], ()), ("x", [1]), ("x", None)):  # were TypeErrors
        with case(column, by), pytest.raises(ParameterError, match="names of columns, which are text"):
            plan.sql(column, "reports", by=by)
    with pytest.raises(MechanismMismatchError, match=r"\['x'\] hold reports"):
        plan.sql("y", "reports", by=["X"])
    assert plan.sql("x", "reports", by=["week"]) == plan.sql("x", "reports", by="week")


@each("dialect", ["duckdb", "bigquery"])
@each("packed", [False, True])
def test_a_parser_of_the_dialect_reads_it(dialect, packed):
    sqlglot = pytest.importorskip("sqlglot")
    m = UnaryEncoding(HARD, epsilon=1.0)
    text = query(m, "o`s", dialect=dialect, packed=packed, by=["day"])
    [tree] = sqlglot.parse(text, dialect=dialect)
    literals = {literal.this for literal in tree.find_all(sqlglot.exp.Literal) if literal.is_string}
    assert literals == {*HARD, "a report is null, or none of the plan"}
    assert tree.named_selects == ["day", "value", *NUMBERS]
    assert {column.name for column in tree.find_all(sqlglot.exp.Column)} >= {"o`s", "day"}


@each("name", sorted(ORACLES.keys() - set(COUNTED)))
def test_what_sql_cannot_count_is_refused(name):
    with pytest.raises(ParameterError, match="in Python"):
        sql.histogram_sql(
            ORACLES[name], "x", "reports", dialect="duckdb", packed=False, by=(), confidence=0.95, repeats=1
        )


def test_other_arguments_are_refused():
    plan = PrivacyPlan({"x": RandomizedResponse.from_coins(truth=0.5, yes=0.2)})
    with pytest.raises(ParameterError, match="of its own for each value"):
        plan.sql("x", "reports")
    with pytest.raises(PlanError, match="does not perturb column 'y'"):
        plan.sql("y", "reports")
    plan = PrivacyPlan({"x": RandomizedResponse(epsilon=1.0)})
    with pytest.raises(ParameterError, match=r"dialect must be one of \['duckdb', 'bigquery'\], got 'oracle'"):
        plan.sql("x", "reports", dialect="oracle")
    with pytest.raises(ParameterError, match="confidence"):
        plan.sql("x", "reports", confidence=1.0)
    drawn = PrivacyPlan.sampled({"x": range(4), "y": range(3)}, epsilon=1.0)
    with pytest.raises(ParameterError, match="tally it in Python"):
        drawn.sql("x", "reports")
    pairs = PrivacyPlan.pairs({"x": range(4), "y": range(3)}, epsilon=1.0)
    for asked in ("x_y", ("x", "y")):
        with pytest.raises(ParameterError, match=r"one of the pairs \['x_y'\], and SQL does not .* frame.ldp.table"):
            pairs.sql(asked, "reports")


@pytest.mark.slow
def test_intervals_of_few_are_null_or_ours():
    of_three = UnaryEncoding(["a", "b", "c"], epsilon=4.0)
    for m in (RandomizedResponse(range(100), epsilon=1.0), RandomizedResponse(epsilon=6.0), of_three):
        told = []
        for n in (60, 150, 400, 3000, 30_000):
            with case(m, n):
                noise = Keyed(Secret.from_seed(1), range(n), column="x")
                made = m.perturb(
                    m.domain.arrow_values.take(pa.array(np.arange(n) ** 2 % m.domain.size)), randomness=noise
                )
                ours = expected(m, made)
                reports = {"x": made, "y": of_three.perturb(pa.array(["a"] * n), randomness=noise)}
                pair = Joint({"x": m, "y": of_three})
                table = pair.estimate(pair.tally(reports)).to_arrow().to_pydict()
                text = PrivacyPlan(dict(zip(pair.names, pair.mechanisms, strict=True))).sql(("x", "y"), "reports")
                answers = [run(text, reports=pa.table(reports)), run(query(m), reports=pa.table({"x": made}))]
                for answer, numbers in zip(answers, (table, ours), strict=True):
                    told.append(None not in answer["low"])
                    assert told[-1] or {*answer["low"], *answer["high"]} == {None}
                    for name in NUMBERS if told[-1] else ("count", "standard_error", "frequency", "n"):
                        np.testing.assert_allclose(answer[name], numbers[name], rtol=1e-9, atol=1e-9)
        assert not any(told[:2])
        assert told[-1]
