"""Typed reports: the mechanism travels with the column, and another one's reports do not mix with it."""

import base64
import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldp_polars
from ldp_core import (
    Domain,
    HeavyHitters,
    Hybrid,
    LdpWarning,
    LongitudinalRandomizedResponse,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    RangeEstimate,
    Secret,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
)
from ldp_core.engine import describe

from ..cases import case
from .helpers import some

LABELS = ["ios", "android", "web"]
MECHANISMS = {
    "bits": UnaryEncoding(LABELS, epsilon=1.0),
    "wide bits": UnaryEncoding(Domain(range(70), unmatched="none"), epsilon=1.0, variant="symmetric"),
    "p and q": UnaryEncoding.from_probabilities(LABELS, p=0.7, q=0.2),
    "text": RandomizedResponse(Domain(LABELS, unmatched="other"), epsilon=1.0),
    "numbers": RandomizedResponse(range(5), epsilon=1.0),
    "coins": RandomizedResponse.from_coins(truth=0.4, yes=0.3),
}
N = 600


@pytest.fixture(params=some(MECHANISMS, "bits", "text", "coins"))
def mechanism(request):
    return MECHANISMS[request.param]


def frame(mechanism):
    labels = list(mechanism.domain.labels)
    return pl.DataFrame({"x": [labels[i % len(labels)] for i in range(N)], "g": [i % 3 for i in range(N)]})


def test_the_type_survives_files_and_other_readers(mechanism, tmp_path):
    reports = frame(mechanism).lazy().select("g", ldp_polars.perturb("x", mechanism))
    for kind in ("parquet", "ipc"):
        path = tmp_path / f"reports.{kind}"
        getattr(reports, f"sink_{kind}")(path)
        back = getattr(pl, f"read_{kind}")(path)
        with case(kind):
            assert back.schema["x"] == ldp_polars.Report(mechanism)
            assert back.select(pl.col("x").ldp.tally()).item()["n"] == N
            lazy = getattr(pl, f"scan_{kind}")(path).group_by("g").agg(pl.col("x").ldp.tally().struct.field("n"))
            assert lazy.collect()["n"].to_list() == [N // 3] * 3
        if kind == "parquet":
            plain = pq.read_table(path)["x"]
            assert mechanism.tally(plain) == mechanism.tally(back["x"].ext.storage().to_arrow())


class Registered(pa.ExtensionType):
    """The type as another library might make it known to pyarrow."""

    def __init__(self, storage, metadata):
        self.metadata = metadata
        super().__init__(storage, "ldp.report")

    def __arrow_ext_serialize__(self):
        return self.metadata

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, metadata):
        return cls(storage, metadata)


@pytest.fixture(params=["registered", "unknown"])
def known(request):
    """Whether pyarrow knows the type."""
    if request.param == "unknown":
        yield False
        return
    pa.register_extension_type(Registered(pa.bool_(), b""))
    try:
        yield True
    finally:
        pa.unregister_extension_type("ldp.report")


def test_the_type_survives_pyarrow(mechanism, known, tmp_path):
    """Whether or not pyarrow knows the type: there and back, and tallied by the core; from a file, and from memory."""
    reports = frame(mechanism).select("g", ldp_polars.perturb("x", mechanism, typed=True))
    reports.write_parquet(tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet")
    assert isinstance(table.schema.field("x").type, Registered) is known
    expected = reports.select(pl.col("x").ldp.tally()).item()
    for data in (table, reports.to_arrow(), pa.table(reports)):
        back = pl.from_arrow(data)
        assert back.schema == reports.schema
        assert back.equals(reports)
        tally = mechanism.tally(data["x"])
        assert (tally.n, tally.counters.tolist()) == (N, expected["counters"])
        assert back.select(pl.col("x").ldp.tally()).item() == expected


def test_seeded_reports_say_so(mechanism, tmp_path):
    df = frame(mechanism)
    plan = PrivacyPlan({"x": mechanism})
    with pytest.warns(LdpWarning, match="seeded with 7.*NOT private"):  # at once
        df.lazy().ldp.perturb(plan.seeded(7))
    seeded = df.ldp.perturb(plan.seeded(7), typed=True)
    assert seeded.schema["x"].seeded
    assert seeded.equals(df.ldp.perturb(plan, typed=True, seed=7))
    assert not df.ldp.perturb(plan, typed=True).schema["x"].seeded
    assert seeded["x"].ext.storage().equals(df.ldp.perturb(plan.seeded(7), typed=True)["x"].ext.storage())
    with pytest.raises(pl.exceptions.SchemaError):
        pl.concat([seeded, df.ldp.perturb(plan, typed=True)])
    assert seeded.ldp.histograms(plan).height == mechanism.domain.size
    with pytest.raises(PlanError, match="not private"):
        seeded.ldp.sink_parquet(tmp_path / "reports.parquet", plan)
    seeded.ldp.sink_parquet(tmp_path / "reports.parquet", plan.seeded(7))


def test_reports_of_two_mechanisms_do_not_mix(mechanism):
    df, kind = frame(mechanism), UnaryEncoding if isinstance(mechanism, UnaryEncoding) else RandomizedResponse
    order = Domain(mechanism.domain.labels[::-1], unmatched=mechanism.domain.unmatched)
    for name, other in (("epsilon", kind(mechanism.domain, epsilon=1.5)), ("order", kind(order, epsilon=1.0))):
        mine, theirs = (df.select(ldp_polars.perturb("x", m)) for m in (mechanism, other))
        with case(name):
            with pytest.raises(pl.exceptions.SchemaError):
                pl.concat([mine, theirs])
            for ask in (ldp_polars.histogram, ldp_polars.tally):
                with pytest.raises(MechanismMismatchError, match="column 'x'"):
                    theirs.select(ask("x", mechanism))
            with pytest.raises(MechanismMismatchError, match="column 'x'"):
                theirs.ldp.histograms(PrivacyPlan({"x": mechanism}))


def test_what_puts_raw_values_among_reports():
    """Most operations refuse them. The others leave the dtype as it is, which no dtype can refuse: docs name them."""
    raw = pl.DataFrame({"x": [True] * 9})
    reports = raw.ldp.perturb(PrivacyPlan({"x": RandomizedResponse(epsilon=1.0)}))
    x, dtype, column = reports["x"], reports.schema["x"], pl.col("x")

    def item(value):
        changed = x.clone()
        changed[[0, 1]] = value
        return changed

    def cell(value):
        changed = reports.clone()
        changed[0, "x"] = value
        return changed["x"]

    for refused in (
        lambda: x.clone().append(raw["x"]),
        lambda: x.clone().extend(raw["x"]),
        lambda: reports.vstack(raw),
        lambda: reports.update(raw),
        lambda: pl.concat([reports, raw]),
        lambda: pl.concat([reports, raw], how="vertical_relaxed"),
        lambda: reports.select(pl.coalesce("x", raw["x"])),
        lambda: reports.select(pl.when(column.is_null()).then(raw["x"]).otherwise("x")),
        lambda: reports.select(column.fill_null(True)),
        lambda: reports.select(column.shift(1, fill_value=True)),
        lambda: reports.select(pl.when(column.is_null()).then(column).otherwise(True)),
        lambda: x.zip_with(raw["x"], raw["x"]),
        lambda: reports.select(column.map_batches(lambda _: raw["x"], return_dtype=dtype)),
    ):
        with pytest.raises(pl.exceptions.PolarsError):
            refused()
    page = (Path(__file__).parents[2] / "docs" / "polars.md").read_text(encoding="utf-8")
    for name, passes in {
        "Series.scatter": lambda: x.clone().scatter([0, 1], True),
        "series[rows] = value": lambda: item(True),
        "frame[row, column] = value": lambda: cell(True),
        "Series.set": lambda: x.set(raw["x"], True),
        "extend_constant": lambda: x.extend_constant(True, 2),
        "replace": lambda: x.replace(False, True),
        "fill_null(strategy=)": lambda: pl.concat([x, x.clear(1)]).fill_null(strategy="zero"),
        "pl.fold": lambda: reports.select(pl.fold(column, lambda _, __: raw["x"], ["x"]))["x"],
        "pl.reduce": lambda: reports.select(pl.reduce(lambda _, __: raw["x"], ["x", column]))["x"],
        "map_elements": lambda: x.map_elements(lambda _: True, return_dtype=dtype),
        "cast": lambda: raw["x"].cast(dtype),
    }.items():
        assert passes().dtype == dtype, "Polars refuses it now: take it out of docs/polars.md"
        assert name in page


def test_reports_in_chunks_are_rechunked_before_a_left_join():
    """Polars 2.1 panics where the right frame of a left join has an extension type in several chunks."""
    reports = pl.DataFrame({"x": [True] * 9, "user": range(9)}).ldp.perturb(
        PrivacyPlan({"x": RandomizedResponse(epsilon=1.0)}, keep=["user"])
    )
    chunked, users = pl.concat([reports[:5], reports[5:]]), pl.DataFrame({"user": [3, 9, 1]})
    with pytest.raises(pl.exceptions.PanicException):  # if it does not: take the words out of docs/polars.md
        users.join(chunked, on="user", how="left")
    assert users.join(chunked.rechunk(), on="user", how="left")["x"].null_count() == 1


@pytest.mark.parametrize(
    "read",
    [pl.read_parquet, lambda path: pl.scan_parquet(path).collect(), lambda path: pl.DataFrame(pq.read_table(path))],
)
def test_reports_of_another_release_concatenate(read, tmp_path):
    """It wrote many labels plain; others have another zstd."""
    m = RandomizedResponse([f"label {k}" for k in range(9_000)], epsilon=1.0)
    plain = json.dumps(m.to_dict())
    packed = pa.Codec("zstd", 19).compress(plain.encode(), asbytes=True)
    frames = []
    for text in (plain, json.dumps({"zstd": base64.b64encode(packed).decode()}), describe(m, seeded=False)):
        about = {"ARROW:extension:name": "ldp.report", "ARROW:extension:metadata": text}
        schema = pa.schema([pa.field("page", pa.string(), metadata=about)])
        pq.write_table(pa.table([["label 7", "label 8"]], schema=schema), tmp_path / "x.parquet")
        frames.append(read(tmp_path / "x.parquet"))
    together = pl.concat(frames)
    assert together.height == 6
    assert together.schema["page"].mechanism == m


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
def test_typed_plans_and_keyed_noise():
    df = frame(MECHANISMS["bits"])
    plan = PrivacyPlan({"x": MECHANISMS["bits"]}, keep=["g"])
    df = df.with_row_index("user")
    noise = {"key": Secret(bytes(32)), "id": "user"}
    typed, plain = df.ldp.perturb(plan, **noise), df.ldp.perturb(plan, typed=False, **noise)
    assert typed["x"].ext.storage().equals(plain["x"])
    once = typed.ldp.histograms(plan, by="g", repeats=1)
    assert once.equals(plain.ldp.histograms(plan, by="g", assume_reports=True))  # (nothing says that it is keyed)
    one, other = (typed.select(pl.col("x").ldp.histogram(m, repeats=1)) for m in (None, plan["x"]))
    assert one.equals(other)


X = pl.col("x")


def test_keyed_noise_asks_how_often_a_person_reports(tmp_path):
    """By the dtype, also of a file that is read; of a mechanism with permanent answers whatever the dtype says."""
    flag, slow = (
        RandomizedResponse(epsilon=1.0),
        LongitudinalRandomizedResponse([0, 1], epsilon_infinity=2.0, epsilon_1=1.0),
    )
    plan, noise = PrivacyPlan({"x": flag, "y": slow}, keep=["user"]), {"key": Secret(bytes(32)), "id": "user"}
    df = pl.DataFrame({"user": [*range(30)] * 3, "x": [True] * 90, "y": [1] * 90})
    keyed = df.ldp.perturb(plan, **noise)
    keyed.ldp.sink_parquet(tmp_path / "x.parquet", plan)
    for made in (keyed, pl.scan_parquet(tmp_path / "x.parquet"), df.lazy().with_columns(X.ldp.perturb(flag, **noise))):
        assert made.collect_schema()["x"].keyed
        for ask in ({}, {"mechanism": flag}):
            with pytest.raises(ParameterError, match=r"column 'x': the noise of these reports is keyed.*repeats=1"):
                made.lazy().select(X.ldp.histogram(**ask)).collect()
        once, thrice, by_person = (
            made.lazy().select(X.ldp.histogram(**how)).collect()["x"].explode().struct.field("standard_error")[0]
            for how in ({"repeats": 1}, {"repeats": 3}, {"person": "user"})
        )
        assert thrice == pytest.approx(3**0.5 * once)
        assert by_person > once
    for asked in ("histograms", "estimates"):
        with pytest.raises(ParameterError, match="noise of these reports is keyed"):
            getattr(keyed.ldp, asked)(plan)
        assert len(getattr(keyed.ldp, asked)(plan, person="user")) == len(getattr(keyed.ldp, asked)(plan, repeats=1))
    plain = df.select(pl.col("y").ldp.perturb(slow, typed=False, **noise))
    with pytest.raises(ParameterError, match="noise of these reports is keyed"), pytest.warns(LdpWarning):
        plain.select(pl.col("y").ldp.histogram(slow, assume_reports=True))
    fresh = df.select(X.ldp.perturb(flag))
    assert not fresh.schema["x"].keyed
    assert fresh.select(X.ldp.histogram()).height == 1
    assert not df.select(X.ldp.perturb(flag, seed=1)).schema["x"].keyed


def test_all_questions_and_weights_of_keyed_noise_ask_how_often_a_person_reports():
    """Of each question: refused, as if fresh with 1, wider with 3; and refused again where the answer is no sum."""
    ages, words = (
        SubsetSelection(range(9), epsilon=1.0),
        HeavyHitters(Prefixes("ab", 2), epsilon=9.0, levels=(2,), rows=8),
    )
    mechanisms = {
        "x": RandomizedResponse(epsilon=1.0),
        "age": ages,
        "number": Hybrid((0, 9), epsilon=1.0),
        "wave": SquareWave((0, 9), epsilon=1.0, buckets=16),
        "word": words,
    }
    numbers = [k % 9 for k in range(300)]
    df = pl.DataFrame({"user": range(300), "x": [k % 2 == 0 for k in range(300)], "age": numbers, "word": ["ab"] * 300})
    df = df.with_columns(number=pl.col("age").cast(pl.Float64), wave=pl.col("age").cast(pl.Float64))
    perturbed = [pl.col(name).ldp.perturb(m, key=Secret(bytes(32)), id="user") for name, m in mechanisms.items()]
    keyed, fresh = df.select(perturbed), df.select(pl.col(name).ldp.perturb(m) for name, m in mechanisms.items())
    age, wave, word = (pl.col(name).ldp for name in ("age", "wave", "word"))
    questions = {
        "quantiles": lambda **how: age.quantiles([0.5], **how),
        "median": age.median,
        "cdf": lambda **how: age.cdf(simultaneous=False, **how),
        "range": lambda **how: age.range(2, 5, **how),
        "estimate": lambda repeats=None: age.estimate(RangeEstimate(2, 5, repeats=repeats)),
    }
    for name, ask in questions.items():
        with case(name):
            with pytest.raises(ParameterError, match=r"column 'age': the noise of these reports is keyed.*repeats=1"):
                keyed.select(ask())
            once, thrice = (keyed.select(ask(repeats=k)).to_series() for k in (1, 3))
            rows = [s.explode() if s.dtype == pl.List else s for s in (once, thrice)]
            widths = [(s.struct.field("high") - s.struct.field("low")).sum() for s in rows]
            assert widths[1] > 1.3 * widths[0]
            assert fresh.select(ask()).height == 1
    for name, ask in {
        "distribution": wave.distribution,
        "heavy hitters": word.heavy_hitters,
        "median": wave.median,
    }.items():
        with case(name):
            with pytest.raises(ParameterError, match="noise of these reports is keyed"):
                keyed.select(ask())
            assert keyed.select(ask(repeats=1)).height == fresh.select(ask()).height == 1
            with pytest.raises(ParameterError, match="is no sum over reports"):
                keyed.select(ask(repeats=2))
    with pytest.raises(ParameterError, match="column 'x': the noise of these reports is keyed"):
        keyed.ldp.table("x", "age")
    once, thrice = (keyed.ldp.table("x", "age", repeats=k)["standard_error"] for k in (1, 3))
    assert thrice.to_list() == pytest.approx((3**0.5 * once).to_list())
    assert fresh.ldp.table("x", "age").height == 18
    with pytest.raises(ParameterError, match="noise of these reports is keyed"):
        keyed.select(pl.col("x").ldp.weight(True))
    w = pl.col("x").ldp.weight(True, repeats=3)
    assert keyed.select(w).equals(keyed.select(pl.col("x").ldp.weight(True, repeats=1)))
    public = keyed.select(w.alias("w")).with_columns(minutes=pl.int_range(pl.len()))
    for ask in (
        lambda **how: (pl.col("w") * pl.col("minutes")).ldp.ratio("w", **how),
        pl.col("w").ldp.total,
        pl.col("w").ldp.weighted_mean,
    ):
        once, thrice = (public.select(ask(**how)).item()["standard_error"] for how in ({}, {"repeats": 3}))
        assert thrice == pytest.approx(3**0.5 * once)
    once, thrice = (
        public.select(pl.col("minutes").ldp.weighted_quantiles([0.5], "w", **how)).item()[0]
        for how in ({}, {"repeats": 3})
    )
    assert thrice["high"] - thrice["low"] > once["high"] - once["low"]
    line = pl.col("number").ldp.linear_fit
    with pytest.raises(ParameterError, match="noise of these reports is keyed"):
        keyed.with_columns(y=pl.lit(1.0)).select(line("y"))
    errors = [keyed.with_columns(y=pl.int_range(pl.len())).select(line("y", repeats=k)).item()[0] for k in (1, 3)]
    assert errors[1]["standard_error"] == pytest.approx(3**0.5 * errors[0]["standard_error"])
    for wrong in (
        lambda: pl.col("x").ldp.weight(True, repeats=0),
        lambda: pl.col("w").ldp.total(repeats=0),
        lambda: line("y", repeats=0),
    ):
        with pytest.raises(ParameterError, match="repeats must be an integer"):
            wrong()


WORDS = ["rome", "oslo"]


def test_typed_reports_are_not_perturbed_again():
    people = pl.DataFrame({"os": ["ios", "web"] * 50, "word": WORDS * 50})
    one = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)})
    for plan in (one, PrivacyPlan.sampled({"os": ["ios", "web"], "word": WORDS}, epsilon=1.0)):
        reports = people.ldp.perturb(plan)
        for frame in (reports, reports.lazy()):
            with case(plan), pytest.raises(MechanismMismatchError, match="hold reports already"):
                frame.ldp.perturb(plan)  # at once
        with case(plan), pytest.raises(MechanismMismatchError, match=r"\['os'\] hold reports already"):
            reports.select(pl.col("os").ldp.perturb(one["os"]))


def test_a_name_that_arrow_cannot_have():
    """Polars panics where it hands on a Series whose name has a NUL, as C's texts end there."""
    mechanism = RandomizedResponse(["ios", "web"], epsilon=50.0)  # hardly any noise
    reports = pl.DataFrame({"a\0b": ["ios", "ios", "web"]}).select(pl.col("a\0b").ldp.perturb(mechanism))
    found = reports.select(pl.col("a\0b").ldp.histogram()).item()
    assert found.struct.field("count").round(6).to_list() == [2, 1]
