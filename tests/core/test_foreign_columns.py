"""Series and frames of pandas and Polars, and arrays of Arrow, wherever a column or a table is due."""

import subprocess
import sys
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    Dates,
    Domain,
    DtypeError,
    Hybrid,
    Keyed,
    LdpWarning,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    Secret,
    UnaryEncoding,
    required_n,
)

from ..cases import each

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

VALUES = {
    "flag": [True, False, True, None],
    "os": ["ios", "web", None, "ios"],
    "level": [1, 2, 10, None],
    "age": [0.5, 20.0, 30.25, 40.0],
}
PLAN = PrivacyPlan(
    {
        "flag": RandomizedResponse(Domain([False, True], unmatched="other"), epsilon=1.0),
        "os": UnaryEncoding(Domain(["ios", "web"], unmatched="other"), epsilon=1.0),
        "level": UnaryEncoding(Domain([1, 2, 10], unmatched="none"), epsilon=1.0),
        "age": Hybrid((0, 120), epsilon=1.0),
    },
    keep=["day"],
)
KINDS = {"flag": "boolean", "os": "str", "level": "Int64", "age": "Float64"}
IDS = ["u", "v", "w", "x"]
SECRET = Secret.from_seed(1)


def pandas_series(name):
    return pd.Series(VALUES[name], dtype=KINDS[name], index=[7, 5, 3, 1])


COLUMNS = {
    "pandas": pandas_series,
    "pandas object": lambda name: pd.Series(VALUES[name], dtype=object),
    "pandas category": lambda name: pandas_series(name).astype("category"),
    "pandas arrow": lambda name: pd.Series(VALUES[name], dtype=pd.ArrowDtype(pa.array(VALUES[name]).type)),
    "pandas array": lambda name: pandas_series(name).array,
    "pandas index": lambda name: pd.Index(pandas_series(name)),
    "polars": lambda name: pl.Series(name, VALUES[name]),
    "arrow": lambda name: pa.array(VALUES[name]),
    "arrow chunks": lambda name: pa.chunked_array([VALUES[name][:1], VALUES[name][1:]]),
}


@each("kind", COLUMNS)
@each("name", VALUES)
def test_a_column_of_any_library_gives_the_reports_of_its_values(name, kind):
    m = PLAN[name]
    column = COLUMNS[kind](name)
    reports = m.perturb(column, randomness=Keyed(SECRET, IDS, column=name))
    expected = m.perturb(VALUES[name], randomness=Keyed(SECRET, IDS, column=name))
    assert isinstance(reports, pa.Array if kind.startswith("arrow") else np.ndarray)
    assert reports.to_pylist() == expected.tolist() if isinstance(reports, pa.Array) else (reports == expected).all()
    assert m.tally(reports) == m.tally(expected)


@each("name", VALUES)
def test_reports_are_tallied_from_any_library(name):
    m = PLAN[name]
    reports = m.perturb(pa.array(VALUES[name]), randomness=Keyed(SECRET, IDS, column=name))
    expected = m.tally(reports)
    rows = m.reports.to_numpy(m.reports.from_arrow(reports))
    columns = [pd.Series(list(rows)), pl.Series(reports), pl.DataFrame({"x": reports})["x"]]
    with suppress(pa.ArrowTypeError):  # pyarrow 20 makes no column of pandas of unsigned indices
        columns.append(reports.to_pandas())
    for column in columns:
        if column.dtype != "int64":  # (numbers that pandas has made longer are other reports)
            assert m.tally(column) == expected


@each("rows", [[[], []], [[True], []], [None, [True]], ["x"], [[["x"]]]])
def test_what_is_no_report_is_refused(rows):
    for column in (pd.Series(rows), pl.Series(rows, strict=False), rows):
        with pytest.raises(ReportError):
            PLAN["os"].tally(column)


def test_a_column_is_read_at_once_and_not_value_by_value():
    class OneByOne(pd.Series):
        def __iter__(self):
            raise AssertionError("value by value")

    m = PLAN["level"]
    assert m.tally(m.perturb(OneByOne([1, 2] * 500))).n == 1000


def test_integers_with_holes_are_floats_in_pandas_and_the_error_says_what_to_do():
    """In a frame nothing said so, nor of the reports of a sampled plan, most of which are null."""
    m, sampled = PLAN["level"], PrivacyPlan.sampled({"level": [1, 2, 10], "flag": [False, True]}, epsilon=1.0)
    holes = pd.DataFrame({"level": [1, None]})
    for go in (lambda: m.perturb(holes["level"]), lambda: PrivacyPlan({"level": m}).perturb(holes)):
        with pytest.raises(DtypeError, match=r'type double: .*; pandas makes floats .*astype\("Int64"\)'):
            go()
    reports = sampled.perturb(pd.DataFrame({"level": [1, 2] * 50, "flag": [True, False] * 50}))
    floats = reports.to_pandas()["level"]
    with pytest.raises(ReportError, match=r'in pandas column\.astype\("Int64"\) where some are null'):
        sampled["level"].tally(floats)
    assert sampled["level"].tally(floats.astype("Int64")) == sampled["level"].tally(reports["level"])


def test_integers_of_128_bits_in_polars_are_no_reports():
    """Arrow has none, and the error was Polars'; of numbers of people it was numpy's."""
    m = RandomizedResponse([1, 2], epsilon=1.0)
    wide = pl.Series([1, 2], dtype=pl.Int128)
    assert m.tally(wide).n == len(m.perturb(wide)) == 2
    with pytest.raises(ReportError):
        m.tally(pl.Series([1, 3], dtype=pl.Int128))
    assert m.simulate(wide, seed=1).n == 3
    for counts in ([[1], [1, 2]], np.zeros(0, "V4"), np.zeros(0, "M8"), np.zeros(2, "V4")):
        with pytest.raises(ParameterError):
            m.simulate(counts)


def test_times_of_numpy_before_other_numbers_of_numpy():
    """Arrow reads them and ends the process; of times alone there are reports."""
    m = RandomizedResponse(Dates("2024-01-01", "2025-01-01", "1mo"), epsilon=1.0)
    mixed = [None, np.datetime64("2024-01-05"), np.uint64(1)]
    for values in (mixed, tuple(mixed), np.array(mixed, object)):
        with pytest.raises(ReportError):
            m.tally(values)
        with pytest.raises(DtypeError):
            Keyed(Secret.from_seed(1), values, column="x")
    assert m.tally(list(m.perturb(["2024-01-05"] * 9))).n == 9


def test_columns_of_other_kinds_are_refused_without_their_values():
    for column in (
        pd.Series(["secret"]),
        pl.Series(["secret"]),
        pd.DataFrame({"x": ["secret"]}),
        pl.Series([{"a": 1}]),
    ):
        with pytest.raises(DtypeError) as error:
            PLAN["level"].perturb(column)
        assert "secret" not in str(error.value)


def objects(labels):
    return np.array(labels, object)  # as ``unique`` of pandas makes them


@each("mechanism", [RandomizedResponse(range(100), epsilon=1.0), Hybrid((0, 120), epsilon=1.0)])
def test_periods_of_pandas_are_no_numbers(mechanism):
    """Arrow has the number of years, months or days since 1970, which came out as values."""
    born = pd.DataFrame({"born": pd.period_range("1990", periods=3, freq="Y")})
    for values in (born["born"], pa.array(born["born"], from_pandas=True), pl.from_pandas(born)["born"]):
        with pytest.raises(DtypeError, match=r"periods of pandas: make numbers or text.* column\.dt\.year"):
            mechanism.perturb(values)
    assert len(mechanism.perturb(born["born"].dt.year - 1970)) == 3


@each("make", [pa.array, lambda os: pa.chunked_array([os[:1], os[1:]]), pd.Categorical, pl.Series, pd.Series, objects])
def test_a_domain_of_a_column_warns(make):
    with pytest.warns(LdpWarning, match="a column of data"):
        assert Domain(make(["ios", "web"])) == Domain(["ios", "web"])


def test_typed_reports_are_neither_perturbed_again_nor_tallied_by_another_mechanism():
    pytest.importorskip("ldp_polars")
    m, other = RandomizedResponse(epsilon=3.0), RandomizedResponse(epsilon=1.0)
    reports = pl.DataFrame({"x": [True, False]}).select(pl.col("x").ldp.perturb(m))["x"]
    assert m.tally(reports).n == 2
    with pytest.raises(MechanismMismatchError, match="hold reports already"):
        m.perturb(reports)
    with pytest.raises(MechanismMismatchError, match=r"\(epsilon 3, .*not by .*\(epsilon 1, "):
        other.tally(reports)
    with pytest.raises(MechanismMismatchError, match="hold reports already"):
        PrivacyPlan({"x": m}).perturb(pl.DataFrame(reports))


# ---- frames


ROWS = {**VALUES, "day": [1, 2, 3, 4]}
FRAMES = {
    "pandas": lambda: pd.DataFrame({name: pd.Series(v, dtype=KINDS.get(name, "int64")) for name, v in ROWS.items()}),
    "polars": lambda: pl.DataFrame(ROWS),
    "table": lambda: pa.table(ROWS),
    "batch": lambda: pa.record_batch(ROWS),
}


@each("kind", FRAMES)
def test_a_plan_perturbs_and_simulates_a_frame_of_any_library(kind):
    frame = FRAMES[kind]()
    reports = PLAN.perturb(frame, key=SECRET, id=IDS)
    assert isinstance(reports, pa.RecordBatch if kind == "batch" else pa.Table)
    expected = PLAN.perturb(pa.record_batch(ROWS), key=SECRET, id=IDS)
    assert reports.to_pydict() == expected.to_pydict()
    PLAN.seeded(1).check_reports(reports.schema)
    seen, same = PLAN.simulate(frame, n=1000, seed=1), PLAN.simulate(ROWS, n=1000, seed=1)
    assert {name: tally.n for name, tally in seen.tallies.items()} == dict.fromkeys(PLAN.columns, 1000)
    assert seen["os"] == same["os"]


@each("data", [[1, 2], "frame.parquet", pl.LazyFrame({"os": ["ios"]})])
def test_what_is_no_frame_is_refused(data):
    for call in (PLAN.perturb, PLAN.simulate):
        with pytest.raises(PlanError, match=f"got {type(data).__name__}"):
            call(data)


def test_a_frame_to_explain_is_not_quoted_and_the_error_says_what_to_do():
    for make in FRAMES.values():
        with pytest.raises(ParameterError, match=r"plan\.explain\(len\(frame\)\)") as error:
            PLAN.explain(make())
        assert "ios" not in str(error.value)


def test_counts_of_pandas_are_taken_by_value_and_not_by_place():
    m = RandomizedResponse(["android", "ios"], epsilon=50.0)
    counted = pd.Series(["ios"] * 900 + ["android"] * 100).value_counts()  # the largest first: ios
    assert m.simulate(counted, seed=1).counters.tolist() == [100, 900]
    for by_place in (pd.Index([100, 900]), pl.Series([100, 900]), pa.array([100, 900])):
        assert m.simulate(by_place, seed=1).counters.tolist() == [100, 900]


def test_a_frame_in_the_place_of_a_number_is_not_quoted():
    frame = pd.DataFrame({"os": ["secret"]})
    calls = (
        PLAN.explain,
        lambda data: UnaryEncoding([1, 2], epsilon=1.0, variant=data),
        lambda data: required_n(PLAN["os"], margin=data),
        lambda data: Domain([1, 2], unmatched=[data]),
    )
    for call in calls:
        for data in (frame, ["secret"], pl.DataFrame(frame)):
            with pytest.raises((ParameterError, ValueError)) as error:
                call(data)
            assert "secret" not in str(error.value)


def test_reports_in_dictionaries_are_read_where_there_is_no_pandas():
    """pyarrow's ``to_pandas_dtype`` imports it (seen in 25.0.1)."""
    code = """if True:
        import sys
        class NoPandas:
            def find_spec(self, name, *_):
                if name == "pandas":
                    raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, NoPandas())
        import pyarrow as pa
        from ldp_core import RandomizedResponse, SampledColumn
        m = RandomizedResponse(["a", "b"], epsilon=1.0)
        print(m.tally(pa.array(["a", "b"]).dictionary_encode()).n)
        answer = SampledColumn(RandomizedResponse(range(5), epsilon=1.0), columns=3)
        print(answer.tally(pa.array([1, None, 2])).n)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["2", "3"], done.stderr
