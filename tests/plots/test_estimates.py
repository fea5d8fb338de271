"""A picture's numbers are the estimate's, whatever has made the estimate; and the picture is valid Vega-Lite."""

import datetime as dt
import json
import math
import re
import sys
from importlib.util import find_spec
from itertools import combinations, product

import altair as alt
import numpy as np
import polars as pl
import pytest
from apache_beam.utils.timestamp import Timestamp

import ldp_plots
import ldp_polars  # noqa: F401 (the namespace)
from ldp_beam import DistributionRow, HistogramRow, MeanRow
from ldp_core import (
    CdfEstimate,
    Dates,
    HeavyHitters,
    Hybrid,
    Mean,
    ParameterError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    RangeEstimate,
    SquareWave,
    StochasticRounding,
    UnaryEncoding,
)
from ldp_core.extras import MissingExtraError

from ..cases import case

M = UnaryEncoding(["ios", "android", "web"], epsilon=1.0)
TRUTH = {"ios": 600, "android": 300, "web": 100}
HISTOGRAM = M.estimate(M.simulate(TRUTH, seed=1))
ABOUT = {
    "window_start": Timestamp(0),
    "window_end": Timestamp(60),
    "pane_index": 0,
    "pane_timing": "ON_TIME",
    "pane_is_first": True,
    "pane_is_last": True,
    "key": {},
    "confidence": 0.95,
    "epsilon": 1.0,
    "column_name": "os",
    "fingerprint": "f" * 16,
}
"""Of a row of Beam: what is not the estimate."""


def data(chart) -> list[dict]:
    """The rows of the picture with the most of them. (`to_dict` raises where it is no valid Vega-Lite.)"""
    return max(chart.to_dict(validate=True)["datasets"].values(), key=len)


def column(rows, name) -> np.ndarray:
    return np.array([row[name] for row in rows])


def beam_row(kind, record, **more):
    fields = {**ABOUT, **record, **more}
    return kind(**{name: fields[name] for name in kind._fields})


def beam_rows(histogram, key=None, start=0) -> list:
    more = {"n": histogram.n, "key": key or {}}
    more |= {"window_start": Timestamp(start), "window_end": Timestamp(start + 60)}
    return [beam_row(HistogramRow, record, **more) for record in histogram.to_arrow().to_pylist()]


def every_form() -> dict:
    table = HISTOGRAM.to_arrow()
    structs = pl.DataFrame({"os": [table.to_pylist()]}, schema={"os": pl.List(pl.Struct(HISTOGRAM.to_polars().schema))})
    forms = {
        "core": HISTOGRAM,
        "arrow": table,
        "polars": HISTOGRAM.to_polars(),
        "nested": structs,
        "beam": beam_rows(HISTOGRAM),
        "mappings": table.to_pylist(),
    }
    return forms | ({"pandas": table.to_pandas()} if find_spec("pandas") else {})


def test_a_histogram_from_anywhere_is_the_same_picture():
    for form, estimate in every_form().items():
        drawn = data(ldp_plots.estimate(estimate))
        with case(form):
            assert [row["value"] for row in drawn] == list(HISTOGRAM.values)
            for name, numbers in (("count", HISTOGRAM.counts), ("low", HISTOGRAM.low), ("high", HISTOGRAM.high)):
                assert column(drawn, name).tolist() == numbers.tolist()
            assert form != "core" or drawn == data(HISTOGRAM.plot())


@pytest.mark.slow
def test_control_characters_are_drawn_as_json_writes_them(tmp_path):
    """What draws SVG ends the whole process at one."""
    m, shown = RandomizedResponse(["a\x1b", "b\uffff"], epsilon=1.0), ["a\\u001b", "b\\uffff"]
    table = m.estimate(m.simulate([70, 30], seed=1)).to_polars()
    grouped = pl.concat([table.with_columns(g=pl.lit(g), column_name=pl.lit("c\x00")) for g in ("\x07", "n")])
    windows = grouped.with_columns(window_start=dt.date(2026, 1, 1))
    charts = [
        ldp_plots.estimate(table, truth={"a\x1b": 70, "b\uffff": 30}, title="t\x0c"),
        ldp_plots.estimate(grouped, by="g", column="c\x00"),
        ldp_plots.windows(windows, by="g", values=["a\x1b"]),
    ]
    assert [row["value"] for row in data(charts[0])] == shown
    for chart in charts:
        assert not re.search(r"(?<!\\)\\u(00[01]|ffff)", json.dumps(chart.to_dict()))
        chart.save(tmp_path / "drawn.svg")


def test_shares_and_the_truth():
    chart = HISTOGRAM.plot(truth=TRUTH, shares=True)
    drawn = data(chart)
    assert column(drawn, "count").tolist() == pytest.approx(HISTOGRAM.frequencies)
    assert column(drawn, "truth").tolist() == pytest.approx([0.6, 0.3, 0.1])
    inside = (HISTOGRAM.low <= [600, 300, 100]) & (HISTOGRAM.high >= [600, 300, 100])
    assert column(drawn, "holds").tolist() == inside.tolist()
    assert f"{inside.sum()} of 3" in str(chart.to_dict()["title"])
    wrong = data(HISTOGRAM.plot(truth={"ios": HISTOGRAM.high[0] + 1}))
    with pytest.raises(ParameterError, match=r"truth= has \['iso'\], and there are ios, "):  # it drew no diamond
        HISTOGRAM.plot(truth={"iso": 1, "ios": 2})
    for shares in (False, True):  # in place of "0 of 2 intervals hold the truth"
        with pytest.raises(ParameterError, match="these are shares: multiply them by n"):
            HISTOGRAM.plot(truth={"ios": 0.7, "web": 0.0, "android": 0.3}, shares=shares)
        HISTOGRAM.plot(truth={"ios": 1, "web": 0.0}, shares=shares)
    assert [row["holds"] for row in wrong] == [False, None, None]


def test_many_values_are_the_largest_ones():
    m = UnaryEncoding(range(40), epsilon=2.0)
    h = m.estimate(m.simulate(np.arange(40) * 100, seed=1))
    drawn = data(h.plot(top=5))
    assert [int(row["value"]) for row in drawn] == np.argsort(-h.counts)[:5].tolist()
    assert "the 5 largest of 40 values, often too high" in str(h.plot(top=5).to_dict()["title"])
    for top in (0, True, 2.5):
        with pytest.raises(ParameterError, match="top must be an integer, at least 1"):
            h.plot(top=top)


def test_no_reports_are_drawn_as_nothing():
    empty = RandomizedResponse(epsilon=1.0).estimate(RandomizedResponse(epsilon=1.0).empty_tally())
    assert len(data(empty.plot())) == 2
    with pytest.raises(ParameterError, match="shares need the number of reports"):
        empty.plot(shares=True)


@pytest.mark.slow
def test_groups_and_columns_are_pictures_of_their_own():
    plan = PrivacyPlan(
        {"crashed": RandomizedResponse(epsilon=1.0), "won": RandomizedResponse(epsilon=1.0)}, keep=["os"]
    )
    raw = pl.DataFrame({"os": ["a", "a", "b"], "crashed": [True, False, True], "won": [True] * 3})
    frame = raw.ldp.perturb(plan).ldp.histograms(plan, by="os")
    spec = ldp_plots.estimate(frame, by="os").to_dict()
    named = ldp_plots.estimate(frame, column="won", by="os", title="Wins").to_dict()
    assert [part["title"]["text"] for part in named["concat"]] == ["Wins, os a", "Wins, os b"]
    assert [part["layer"][0]["encoding"]["y"]["title"] for part in named["concat"]] == ["won", "won"]
    for column, part in zip(("crashed", "won"), spec["vconcat"], strict=True):
        assert [one["title"]["text"] for one in part["concat"]] == [f"{column}, os a", f"{column}, os b"]
        assert part["columns"] == 2, "side by side"
        assert part["resolve"] == {"scale": {"x": "shared"}}, "bars of groups are compared by eye"
    null = ldp_plots.estimate(
        frame.with_columns(pl.col("os").replace({"a": None, "b": "null"})), column="won", by="os"
    ).to_dict()
    assert [part["title"]["text"] for part in null["concat"]] == ["won, os null", 'won, os "null"']
    one = ldp_plots.estimate(frame.filter(os="a"), column="won").to_dict()
    assert one["title"]["text"] == "won"
    with pytest.raises(ParameterError, match=r"several rows for one value.*by="):
        ldp_plots.estimate(frame, column="won")
    with pytest.raises(ParameterError, match=r"no column 'os'"):
        ldp_plots.estimate(frame, column="os")
    with pytest.raises(ParameterError, match=r"by names 'country'"):
        ldp_plots.estimate(frame, by="country")


def confidence_of(chart):
    return re.findall(r"(\d+) % intervals", json.dumps(chart.to_dict()["title"], ensure_ascii=False))


def test_the_confidence_is_said():
    """Frames of Polars do not have it; tables of the core and their files do."""
    h = M.estimate(M.simulate(TRUTH, seed=1), confidence=0.9)
    for form in (h, h.to_arrow(), [row._replace(confidence=0.9) for row in beam_rows(h)]):
        assert confidence_of(ldp_plots.estimate(form)) == ["90"]
    assert confidence_of(ldp_plots.estimate(h, confidence=0.5)) == ["90"], "what the data say is so"
    frame, week = h.to_polars(), {"window_start": pl.lit(dt.date(2024, 1, 1))}
    assert confidence_of(ldp_plots.estimate(frame)) == []
    assert confidence_of(ldp_plots.estimate(frame, confidence=0.9)) == ["90"]
    for draw, wrong in product((ldp_plots.estimate, ldp_plots.windows), (95, 0.0, "0.9")):
        with case(draw, wrong), pytest.raises(ParameterError, match=r"confidence must be .* got "):
            draw(frame.with_columns(**week), confidence=wrong)
    assert confidence_of(ldp_plots.windows(frame.with_columns(**week), confidence=0.9)) == ["90"]
    means = Mean(1.0, 0.1, 0.8, 1.2, 900, 0.95).to_polars()
    assert confidence_of(ldp_plots.estimate(means, confidence=0.95)) == ["95"]


def test_axes_have_the_name_of_the_column():
    wave = SquareWave((0, 60), epsilon=4.0)
    shares = wave.distribution(wave.simulate({20.0: 500}, seed=1))
    mean = Mean(1.0, 0.1, 0.8, 1.2, 900, 0.95)

    def titles(chart):
        """Of the axes of all layers."""
        layers = chart.to_dict()["layer"]
        found = [part.get("title") for one in layers for part in one["encoding"].values() if isinstance(part, dict)]
        return {title for title in found if title}

    for chart, expected in (
        (
            ldp_plots.estimate(shares.to_polars().with_columns(column_name=pl.lit("age"))),
            {"age", "share of the records"},
        ),
        (ldp_plots.estimate(mean.to_polars().with_columns(column_name=pl.lit("age"))), {"mean of age"}),
        (shares.plot(title="age"), {"age", "share of the records"}),
        (mean.plot(), {"mean"}),
    ):
        assert titles(chart) == expected


def test_what_cannot_be_drawn_is_refused():
    for wrong, says in (
        (pl.LazyFrame({"value": [1]}), "collect"),
        (7, "expected an estimate"),
        ("os", "expected an estimate"),
        ([7], "expected rows"),
        ([], "nothing to draw"),
        (pl.DataFrame({"value": ["a"], "count": [1.0]}), r"with low and high; these have \['count', 'value'\]"),
    ):
        with case(says), pytest.raises(ParameterError, match=says):
            ldp_plots.estimate(wrong)


def test_means():
    m = Hybrid((0, 60), epsilon=2.0)
    found = pl.DataFrame({"m": [20.0] * 900}).select(pl.col("m").ldp.perturb(m, seed=1)).select(pl.col("m").ldp.mean(m))
    mean = found.unnest("m").to_dicts()[0]
    core = Mean(*(mean[name] for name in ("mean", "standard_error", "low", "high")), 900, 0.95)
    row = beam_row(MeanRow, mean, n=900)
    for form in (core, core.to_arrow(), found, [row]):
        [drawn] = data(ldp_plots.estimate(form, truth=20.0))
        assert [drawn[name] for name in ("mean", "low", "high", "n")] == [core.mean, core.low, core.high, 900]
        assert (drawn["truth"], drawn["holds"]) == (20.0, core.low <= 20.0 <= core.high)
    assert data(core.plot(truth=20.0)) == [drawn]
    groups = pl.DataFrame([{"os": "a", **mean}, {"os": "b", **mean}])
    assert [row["group"] for row in data(ldp_plots.estimate(groups, by="os"))] == ["a", "b"]
    numbered = pl.DataFrame([{"k": 1, **mean}, {"k": 2, **mean}])  # "truth= has [1, 2], and there are 1, 2"
    assert [row["truth"] for row in data(ldp_plots.estimate(numbered, by="k", truth={1: 20.0, 2: 30.0}))] == [20, 30]
    with pytest.raises(ParameterError, match="several rows for one group"):
        ldp_plots.estimate(groups)
    endless = groups.with_columns(low=-pl.lit(math.inf), high=pl.lit(math.inf))
    for made, note in ((groups, False), (endless, True)):
        told = ldp_plots.estimate(made, by="os").to_dict()["title"].get("subtitle", [])
        assert ("no line: the interval has no end" in told) == note


@pytest.mark.parametrize(
    "m", [SquareWave((0, 100), epsilon=2.0, buckets=50), StochasticRounding((0, 100), epsilon=2.0, buckets=5)]
)
def test_distributions(m):
    found = m.distribution(m.simulate({20.0: 5000, 60.0: 3000}, seed=1))
    drawn = data(found.plot())
    widths = np.diff(found.edges) if isinstance(m, StochasticRounding) else 1.0
    for name, numbers in (("share", found.frequencies), ("low", found.low), ("high", found.high)):
        assert column(drawn, name) * widths == pytest.approx(numbers)
    assert column(drawn, "right").tolist() == found.edges[1:].tolist()
    rows = [beam_row(DistributionRow, record, n=found.n) for record in found.to_arrow().to_pylist()]
    for form in (found.to_polars(), rows):
        assert data(ldp_plots.estimate(form)) == drawn
    with pytest.raises(ParameterError, match="several rows for one bucket_start and bucket_end"):
        ldp_plots.estimate([*rows, *rows])


def test_heavy_hitters():
    m = HeavyHitters(Prefixes("lmoers", 4), epsilon=5.0, levels=(2, 4), rows=8)
    found = m.find(m.simulate({"rome": 1000, "oslo": 1800}, seed=1), k=5)
    drawn = data(found.plot())
    assert [(row["value"], row["count"]) for row in drawn] == list(zip(found.values, found.counts, strict=True))
    assert data(ldp_plots.estimate(found.to_polars().reverse(), ranked=True)) == drawn
    assert [{"least": found.threshold}] in found.plot().to_dict()["datasets"].values()
    assert [{"least": found.threshold}] in ldp_plots.estimate(found).to_dict()["datasets"].values()


def windows_frame() -> pl.DataFrame:
    parts = []
    for k in range(3):
        h = M.estimate(M.simulate({"ios": 100 + 50 * k, "android": 300, "web": 50}, seed=k))
        more = {"window_start": dt.datetime(2024, 1, 1 + k), "country": "FR", "n": h.n}
        parts.append(h.to_polars().with_columns(**{name: pl.lit(value) for name, value in more.items()}))
    return pl.concat(parts)


def test_windows_of_a_curve():
    """The largest of its values were the last ones, with shares about 100 %."""
    plan = PrivacyPlan({"x": RandomizedResponse(range(20), epsilon=8.0)}, keep=["t"])
    frame = pl.DataFrame({"x": range(20), "t": [dt.date(2024, 1, 1 + k % 2) for k in range(20)]}).ldp.perturb(plan)
    asked = frame.ldp.estimates(plan, ask={"x": "cdf"}, window="1d", event_time="t")["x"]
    chart = ldp_plots.windows(asked, top=4)
    assert list(dict.fromkeys(row["series"] for row in data(chart))) == ["2", "7", "12", "17"]
    assert "shares up to 4 of 20 values" in str(chart.to_dict()["title"])


def test_windows():
    frame = windows_frame()
    chart = ldp_plots.windows(frame, top=2)
    drawn = data(chart)
    assert "the 2 largest of 3" in str(chart.to_dict())
    sums = frame.group_by("value").agg(pl.col("count").sum())
    least = sums.sort("count")["value"][0]
    kept = frame.filter(pl.col("value") != least)
    assert column(drawn, "y").tolist() == kept["count"].to_list()
    assert {row["window"] for row in drawn} == {f"2024-01-0{k}T00:00:00Z" for k in (1, 2, 3)}
    shares = data(ldp_plots.windows(frame, values=["web"], shares=True))
    web = frame.filter(pl.col("value") == "web")
    assert column(shares, "high") == pytest.approx((web["high"] / web["n"]).to_numpy())
    rows = [row for k in range(2) for row in beam_rows(HISTOGRAM, {"country": "FR"}, start=86_400 * k)]
    panels = ldp_plots.windows([*rows, *(row._replace(key={"country": "US"}) for row in rows)], by="country")
    assert {row["panel"] for row in data(panels)} == {"FR", "US"}
    stored = [{**row._asdict(), "key": list(row.key.items())} for row in rows]  # as Arrow gives a map
    older = [{**row, "key": [{"key": name, "value": value} for name, value in row["key"]]} for row in stored]
    assert data(ldp_plots.windows(stored, by="country")) == data(ldp_plots.windows(older, by="country"))
    assert {row["window"] for row in data(panels)} == {"1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z"}
    with pytest.raises(ParameterError, match="several rows for one window"):
        ldp_plots.windows([*rows, *rows])
    with pytest.raises(ParameterError, match="values names 1"):
        ldp_plots.windows(rows, values=["beos"])
    means = [{"window_start": dt.date(2024, 1, 1 + k), "mean": 3.0, "low": 2.0, "high": 4.0, "n": 10} for k in (0, 1)]
    assert data(ldp_plots.windows(means))
    with pytest.raises(ParameterError, match="for counts of records"):
        ldp_plots.windows(means, shares=True)
    for quantile in ("web", dt.date(1990, 1, 1)):  # (there was a TypeError)
        asked = {"probability": 0.5, "quantile": quantile, "low": quantile, "high": quantile, "n": 10}
        with pytest.raises(ParameterError, match="words or dates have no picture"):
            ldp_plots.windows([{"window_start": dt.date(2024, 1, 1), **asked}])


def pointed_at(chart):
    """How the times of a picture are written when one points at them."""
    found = [tip for layer in chart.to_dict()["layer"] for tip in layer["encoding"].get("tooltip", ())]
    return {(tip.get("timeUnit", "local")[:3], tip.get("format")) for tip in found if tip["type"] == "temporal"}


def test_times_that_are_pointed_at_are_those_of_the_axis():
    """West of Greenwich the window of January 1 was shown as December 31, and those of hours had no hours."""
    frame = windows_frame()
    assert pointed_at(ldp_plots.windows(frame)) == {("utc", "%Y-%m-%d")}
    hours = frame.with_columns(pl.col("window_start").dt.offset_by("3h"))
    assert pointed_at(ldp_plots.windows(hours)) == {("utc", "%Y-%m-%d %H:%M:%S")}
    days = RandomizedResponse(Dates("2024-01-01", "2024-01-04", every="1d"), epsilon=2.0)
    curve = CdfEstimate().result(days, days.simulate([5, 3, 2], seed=1))
    assert pointed_at(curve.plot()) == {("utc", "%Y-%m-%d")}


def test_windows_say_whom_their_intervals_are_about():
    frame = windows_frame().with_columns(population=pl.lit("many"), confidence=pl.lit(0.9))
    assert "90 % intervals, about a population" in str(ldp_plots.windows(frame).to_dict()["title"])


def test_windows_that_are_filled_in_part_have_open_points():
    rows = [row for k in range(3) for row in beam_rows(HISTOGRAM, {}, start=86_400 * k)]
    covered = (
        dt.datetime(1970, 1, 1, 12, tzinfo=dt.UTC),
        dt.datetime(1970, 1, 3, 23, 0),
    )  # half of a day, 23 of 24 hours
    chart = ldp_plots.windows(rows, covered=covered)
    assert {row["window"] for row in data(chart) if row.get("cut")} == {"1970-01-01T00:00:00Z"}
    assert "open points" in str(chart.to_dict()["title"])
    marks = [layer["mark"] for layer in chart.to_dict()["layer"]]
    assert [mark["filled"] for mark in marks if mark["type"] == "point"] == [True, False]
    whole = ldp_plots.windows(rows).to_dict()
    assert "open points" not in str(whole)
    assert [layer["mark"]["type"] for layer in whole["layer"]] == ["area", "line", "point"]
    shapes = whole["layer"][2]["encoding"]["shape"]["scale"]["range"]
    assert len(set(shapes)) == len(whole["config"]["range"]["category"]), "each line has a mark, too"
    days = [
        {**row._asdict(), "window_start": dt.date(1970, 1, 1), "window_end": dt.date(1970, 1, 8)} for row in rows[:3]
    ]
    for last, cut in ((dt.date(1970, 1, 6), True), (dt.date(1970, 1, 7), False)):  # which lasts until midnight
        drawn = data(ldp_plots.windows(days, covered=(dt.date(1970, 1, 1), last)))
        assert {row.get("cut", False) for row in drawn} == {cut}


def axes(chart):
    """Of a picture over time: the ticks, as dates; the title of the counts' axis, and whether it starts at 0."""
    [line] = [layer for layer in chart.to_dict()["layer"] if layer["mark"]["type"] == "line"]
    x, y = line["encoding"]["x"], line["encoding"]["y"]
    ticks = [dt.datetime.fromtimestamp(at / 1000, dt.UTC).date() for at in x["axis"]["values"]]
    return ticks, y["title"], y["scale"]["zero"]


def test_bands_can_be_seen_and_ticks_are_where_windows_start():
    """Of a share of 90 % an axis from 0 on hid the band, and the ticks of weeks from Thursdays on were Sundays."""
    weeks = [dt.date(2024, 1, 4) + dt.timedelta(weeks=k) for k in range(30)]
    rows = [{"window_start": week, "value": "ios", "count": 900.0, "low": 890.0, "high": 910.0} for week in weeks]
    assert axes(ldp_plots.windows(rows[:5])) == (weeks[:5], "records (axis not from 0)", False)
    ticks, _, _ = axes(ldp_plots.windows(rows))
    assert set(ticks) < set(weeks)
    assert 5 <= len(ticks) <= 10
    small = [{**row, "value": "web", "count": 9.0, "low": -1.0, "high": 19.0} for row in rows]
    assert axes(ldp_plots.windows([*rows, *small]))[1:] == ("records", True)


def test_a_simulation_is_beside_its_people():
    plan = PrivacyPlan({"os": M, "minutes": Hybrid((0, 60), epsilon=1.0)})
    seen = plan.simulate({"os": TRUTH, "minutes": [1, 5, 60]}, n=1000, seed=1)
    spec = seen.plot(title="all").to_dict()
    first = spec["datasets"][spec["vconcat"][0]["data"]["name"]]
    assert [row["truth"] for row in first] == [600, 300, 100]
    assert (len(spec["vconcat"]), spec["title"]) == (2, "all")
    few = PrivacyPlan({"os": M}).simulate({"os": {"ios": 1}}, n=100, seed=1)  # (no diamonds for the others, nor red)
    assert [row["truth"] for row in data(few.plot())] == [100, 0, 0]
    assert "of 3 intervals hold the truth" in str(few.plot().to_dict()["title"])
    ranges = PrivacyPlan({"x": RandomizedResponse(range(9), epsilon=2.0)})
    asked = ranges.simulate({"x": {1: 1}}, n=100, seed=1, ask={"x": RangeEstimate(1, 5)})
    assert [row["truth"] for row in data(asked.plot())] == [None]


def test_without_altair_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    for draw in (HISTOGRAM.plot, lambda: ldp_plots.estimate(HISTOGRAM)):
        with pytest.raises(MissingExtraError, match=r"altair is not installed: pip install 'ldp-telemetry\[plot\]'"):
            draw()


# ---- light and dark


def luminance(color: str) -> float:
    """WCAG 2.1, relative luminance."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


# What people without one kind of cone see: G. Machado, M. Oliveira, L. Fernandes, "A Physiologically-based Model for
# Simulation of Color Vision Deficiency", IEEE TVCG 2009, at severity 1, of linear RGB; and all kinds of cones.
SEEN = [
    np.eye(3),
    np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
]
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(color: str, seen: np.ndarray) -> np.ndarray:
    """CIE 1976 L*a*b*, of D65."""
    parts = np.array([int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(XYZ @ np.clip(seen @ linear, 0, 1) / [0.95047, 1, 1.08883])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def mixed(ramp: list[str], t: float) -> str:
    k = min(int(t * (len(ramp) - 1)), len(ramp) - 2)
    part = t * (len(ramp) - 1) - k
    ends = [[int(color[j : j + 2], 16) for j in (1, 3, 5)] for color in ramp[k : k + 2]]
    return "#" + "".join(f"{round(a + part * (b - a)):02x}" for a, b in zip(*ends, strict=True))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_drawn_can_be_seen(theme):
    """Text 4.5, lines 3 (WCAG 2.1, success criteria 1.4.3 and 1.4.11)."""
    config = HISTOGRAM.plot(theme=theme).to_dict()["config"]
    back, style = config["background"], config["style"]
    for color in (config["axis"]["labelColor"], config["title"]["color"], config["title"]["subtitleColor"]):
        assert contrast(color, back) >= 4.5
    for color in (*config["range"]["category"], style["interval"]["color"], style["miss"]["color"]):
        assert contrast(color, back) >= 3
    for (one, other), seen in product(combinations(config["range"]["category"], 2), SEEN):
        assert np.linalg.norm(lab(one, seen) - lab(other, seen)) > 20, "a color-blind person tells lines apart"
    assert style["miss"]["strokeWidth"] == 2 * style["interval"]["strokeWidth"]
    for name in ("interval", "miss"):
        assert contrast(style[name]["color"], config["bar"]["color"]) >= 2.5
    ramp, half = config["range"]["ramp"], np.log10(3.5)
    for t in np.linspace(0, 1, 101):
        text = style["on-faint" if t < half else "on-strong"]["color"]
        assert contrast(text, mixed(ramp, t)) >= 3.5


def test_themes():
    chart = HISTOGRAM.plot(theme=None)
    assert "background" not in chart.to_dict().get("config", {})
    assert alt.hconcat(chart, chart).to_dict()
    light, dark = (ldp_plots.themed(chart, theme).to_dict() for theme in ("light", "dark"))
    assert light.pop("config") != dark.pop("config")
    assert light == dark
    with pytest.raises(ParameterError, match="theme must be one of"):
        ldp_plots.themed(chart, "grey")


@pytest.mark.slow
def test_a_map_of_rates_for_each_value_of_a_column(tmp_path):
    """Maps on shared axes could not be drawn: "Duplicate signal name". And `by` took the first column alone."""
    values = {"version": ["17", "18", "19"], "os": ["ios", "web"], "crashed": [False, True]}
    plan = PrivacyPlan({name: RandomizedResponse(labels, epsilon=3.0) for name, labels in values.items()}, seed=1)
    cells = product(*values.values())
    table = pl.DataFrame(list(cells) * 9, schema=list(values), orient="row").ldp.perturb(plan).ldp.table(*values)
    for by, rest in (("os", ("version", "crashed")), ("version", ("os", "crashed"))):
        chart = ldp_plots.estimate(table, by=by)
        with case(by):
            assert len(chart.to_dict()["concat"]) == len(values[by])
            chart.save(tmp_path / "maps.svg")
            drawn = (tmp_path / "maps.svg").read_text()
            assert all(f">{text}<" in drawn for text in (*rest, *map(str, values[rest[0]])))
