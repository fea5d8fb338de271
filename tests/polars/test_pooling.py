"""Frames and files of several plans pooled: what `ldp_core.pool` says of their tallies, in all, by keys and windows."""

import datetime as dt
import shutil

import polars as pl
import pytest

import ldp_polars
from ldp_core import (
    Domain,
    HierarchicalHistogram,
    Hybrid,
    LdpWarning,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
    UnaryEncoding,
    pool,
)

from ..cases import case

OLD = PrivacyPlan(
    {
        "os": UnaryEncoding(["ios", "android", "web"], epsilon=1.0),
        "minutes": Hybrid((0, 60), epsilon=1.0),
        "gone": RandomizedResponse(epsilon=1.0),
    },
    keep=["country", "day"],
)
NEW = PrivacyPlan(
    {
        "minutes": Hybrid((0, 60), epsilon=4.0),
        "os": RandomizedResponse(Domain(["web", "ios"], unmatched="other"), epsilon=3.0),
    },
    keep=["country", "day"],
)


def reports(n, countries, plan):
    records = {
        "os": [("ios", "android", "web", "ios")[k % 4] for k in range(n)],
        "minutes": [float(k % 60) for k in range(n)],
        "gone": [True] * n,
        "country": [countries[k % len(countries)] for k in range(n)],
        "day": [dt.date(2024, 1, 1) + dt.timedelta(days=k % 14) for k in range(n)],
    }
    return pl.DataFrame(records).ldp.perturb(plan)


FIRST, SECOND = reports(600, ["de", "fr"], OLD), reports(400, ["fr", "it"], NEW)


def test_frames_of_one_seed_have_one_noise_and_say_how_many_they_are():
    """A report is the same function of its row in each: the variance of a sum of k frames is at most k-fold."""
    seeded, other = OLD.seeded(1), OLD.seeded(2)
    one, two, third = (reports(n, ["de"], plan) for n, plan in ((500, seeded), (400, seeded), (400, other)))
    with pytest.raises(ParameterError, match=r"one seed .* plan\.seeded\(k\), or say repeats="):
        ldp_polars.pool([(one, seeded), (two, seeded)])
    with pytest.raises(ParameterError, match=r"one seed .* say same_people="):
        one.ldp.compare(seeded, other=two)
    wide, narrow = (ldp_polars.pool([(one, seeded), (two, seeded)], repeats=k)["standard_error"] for k in (4, 1))
    assert (wide / narrow).to_list() == pytest.approx([2.0] * len(wide))
    gone, of = PrivacyPlan({"gone": OLD["gone"]}), pl.col("gone").ldp.perturb(OLD["gone"], seed=1)  # the dtype says it
    a, b = (pl.select(gone=pl.repeat(True, n)).with_columns(of) for n in (500, 400))
    with pytest.raises(ParameterError, match=r"seeded, and one seed .* say repeats="):
        ldp_polars.pool([(a, gone), (b, gone)])
    with pytest.raises(ParameterError, match=r"seeded, and one seed .* say same_people="):
        a.ldp.compare(gone, other=b)
    assert len(a.ldp.compare(gone, other=b, same_people=False)) == 2
    assert len(one.ldp.compare(seeded, other=two, same_people=True)) == 6
    mixed = PrivacyPlan({name: NEW[name] for name in NEW.columns}, seed=1)  # other mechanisms have noise of their own
    for apart in ((third, other), (reports(400, ["de"], mixed), mixed)):
        assert len(ldp_polars.pool([(one, seeded), apart], columns=["minutes"])) == 1


def expected(column, keep=None):
    """What the core says of the reports that are kept."""
    sides = [frame if keep is None else frame.filter(keep) for frame in (FIRST, SECOND)]
    made = [
        (plan[column], plan[column].tally(side[column].ext.storage().to_arrow()))
        for side, plan in zip(sides, (OLD, NEW), strict=True)
    ]
    return [tuple(row.values()) for row in pool(made).to_arrow().to_pylist()]


def rows(found, column, **places):
    """Without the names of the column and of the groups."""
    kept = found.filter(pl.col("column_name") == column, *(pl.col(name) == at for name, at in places.items()))
    return [
        pytest.approx(row)
        for row in kept.select(
            pl.col("value", "estimate", "standard_error", "low", "high", "q"), pl.col("p_value", "n")
        ).rows()
    ]


def test_frames_and_files(tmp_path):
    found = ldp_polars.pool([(FIRST, OLD), (SECOND.lazy(), NEW)])
    assert list(dict.fromkeys(found["column_name"])) == ["os", "minutes"]
    for column in ("os", "minutes"):
        assert rows(found, column) == expected(column)
    assert found["value"].to_list() == ["ios", "web", None]
    files = [tmp_path / "old.parquet", tmp_path / "new.parquet"]
    for file, frame, plan in zip(files, (FIRST, SECOND), (OLD, NEW), strict=True):
        frame.ldp.sink_parquet(file, plan)
    assert ldp_polars.pool(files).equals(found)
    assert ldp_polars.pool(map(str, files), columns=["os"]).equals(found.filter(pl.col("column_name") == "os"))
    folder = tmp_path / "week=9" / "some"
    for day in ("day=1", "x.parquet"):  # (Spark calls folders so)
        (folder / day).mkdir(parents=True)
    FIRST.ldp.sink_parquet(folder / "day=1" / "old.parquet", OLD)
    (folder / "notes.txt").write_text("Polars had an InvalidOperationError")
    assert ldp_polars.pool([folder, files[1]]).equals(found)


def test_of_a_folder_the_files_are_pooled_that_are_estimated(tmp_path):
    """Halves and copies that ended jobs leave were counted; the name of a folder took the place of a kept column."""
    folder, other = tmp_path / "old", tmp_path / "new.parquet"
    for name in ("a.parquet", ".a.parquet", ".b.x/b.parquet", "beam-temp-5f0/x.parquet"):
        (folder / "day=2024-01-09" / name).parent.mkdir(parents=True, exist_ok=True)
        FIRST.ldp.sink_parquet(folder / "day=2024-01-09" / name, OLD)
    SECOND.ldp.sink_parquet(other, NEW)
    for by in ((), "day"):
        assert ldp_polars.pool([folder, other], by=by).equals(ldp_polars.pool([(FIRST, OLD), (SECOND, NEW)], by=by))


def test_columns_that_are_not_pooled_are_told_of():
    """As `compare` does: `ldp pool` printed tables of the others, in silence."""
    asked = {"os": RandomizedResponse(["a", "b"], epsilon=2.0), "age": HierarchicalHistogram(range(8), epsilon=1.0)}
    new = {**asked, "new": RandomizedResponse(epsilon=1.0)}
    plans = [PrivacyPlan(asked, keep=["day"]), PrivacyPlan(new, keep=["day"])]
    people = pl.DataFrame({"os": ["a", "b"] * 500, "age": [1, 2] * 500, "new": [True, False] * 500, "day": 1})
    made = [(people.ldp.perturb(plan), plan) for plan in plans]
    with pytest.warns(LdpWarning, match="^age, new: left out, as not all plans have shares or a mean of it"):
        assert ldp_polars.pool(made)["column_name"].unique().to_list() == ["os"]
    assert ldp_polars.pool(made, columns=["os"]).height == 2  # what is asked for needs no warning
    with pytest.raises(PlanError, match="of this column puts the reports together"):
        ldp_polars.pool(made, columns=["age"])
    together = pl.concat([frame.select("age") for frame, _ in made])  # which works
    assert together.select(pl.col("age").ldp.median()).unnest("age")["n"].item() == 2000


@pytest.mark.filterwarnings("ignore:the groups are not of one population:UserWarning")
def test_by_keys_and_windows():
    both = [(FIRST, OLD), (SECOND, NEW)]
    by = ldp_polars.pool(both, by="country", columns=["os"])
    assert rows(by, "os", country="fr") == expected("os", pl.col("country") == "fr")
    assert by["country"].unique(maintain_order=True).to_list() == ["de", "fr", "it"]
    alone = by.filter(pl.col("country") == "de")
    assert alone["value"].to_list() == ["ios", "web"]  # what all plans know, also where one alone has reports
    assert (alone["n"].to_list(), alone["q"].to_list()) == ([300] * 2, pytest.approx([0, 0]))
    of_plan = OLD["os"].estimate(OLD["os"].tally(FIRST.filter(country="de")["os"].ext.storage().to_arrow()))
    assert alone["estimate"].to_list() == pytest.approx([of_plan.frequencies[0], of_plan.frequencies[2]])
    weeks = ldp_polars.pool(both, window="1w", event_time="day", columns=["minutes"])
    for start in (dt.date(2024, 1, 1), dt.date(2024, 1, 8)):
        kept = pl.col("day").dt.truncate("1w") == start
        assert rows(weeks, "minutes", window_start=start) == expected("minutes", kept)


def test_keyed_noise_asks_how_often_people_report():
    plans = [PrivacyPlan({"v": RandomizedResponse(epsilon=e)}) for e in (1.0, 2.0)]
    people = pl.DataFrame({"id": range(400), "v": [True, False, False, False] * 100})
    noise = {"key": Secret(bytes(32)), "id": "id"}
    keyed, fresh = people.ldp.perturb(plans[0], **noise), people.ldp.perturb(plans[1])
    for both in ([(keyed, plans[0]), (fresh, plans[1])], [(fresh, plans[1]), (keyed.lazy(), plans[0])]):
        with pytest.raises(ParameterError, match="say repeats=1"):
            ldp_polars.pool(both)
        once, again = (ldp_polars.pool(both, repeats=k)["standard_error"] for k in (1, 4))
        assert again.to_list() == pytest.approx((2 * once).to_list())


def test_what_is_refused():
    numbers = PrivacyPlan({"os": Hybrid((0, 60), epsilon=4.0)})
    other = pl.DataFrame({"os": [1.0]}).ldp.perturb(numbers)
    gone = PrivacyPlan({"gone": OLD["gone"]})
    for given, how, error, words in (
        ([(FIRST, OLD)], {}, ParameterError, "two files"),
        (FIRST, {}, ParameterError, "two files"),
        ("old.parquet", {}, ParameterError, "two files"),
        ([(FIRST, OLD), (FIRST, OLD)], {}, ParameterError, "there twice"),
        ([(FIRST, OLD), (FIRST.clone(), OLD)], {}, ParameterError, "there twice"),
        ([(FIRST, OLD), FIRST], {}, ParameterError, "pairs of a frame and its plan"),
        ([(FIRST, OLD), (SECOND, OLD)], {}, PlanError, "gone"),
        ([(FIRST, OLD), (SECOND, NEW)], {"columns": ["gone"]}, PlanError, "gone"),
        ([(FIRST, OLD), (SECOND, NEW)], {"confidence": 1}, ParameterError, "confidence"),
        ([(FIRST, OLD), (other, numbers)], {}, MechanismMismatchError, "of the same kind"),
        ([(FIRST.select("gone"), gone), (SECOND, NEW)], {}, PlanError, "no column in common"),
        ([(FIRST.head(0), OLD), (SECOND.head(0), NEW)], {}, ParameterError, "no reports"),
        ([(FIRST.head(0), OLD), (SECOND.head(0), NEW)], {"by": "country"}, ParameterError, "no reports"),
    ):
        with pytest.raises(error, match=words):
            ldp_polars.pool(given, **how)


def test_people_count_once(tmp_path):
    """Only the same path and eager copies were refused."""
    folder, other = tmp_path / "d", tmp_path / "other.parquet"
    folder.mkdir()
    FIRST.ldp.sink_parquet(folder / "r1.parquet", OLD)
    shutil.copy(folder / "r1.parquet", other)
    lazy, same = pl.scan_parquet(folder / "r1.parquet"), FIRST.lazy()
    for twice in (
        [folder, folder / "r1.parquet"],
        [str(folder / "r*.parquet"), folder / "r1.parquet"],
        [folder, other],
        [(same, OLD), (same, OLD)],
        [(FIRST, OLD), (lazy, OLD)],
        [(SECOND, NEW), (FIRST.lazy(), OLD), (FIRST.clone().lazy(), OLD)],
        [(FIRST, OLD), (pl.concat([FIRST.tail(1), FIRST.head(-1)]).lazy(), OLD)],
    ):
        with pytest.raises(ParameterError, match="there twice"):
            ldp_polars.pool(twice)
    empty = FIRST.clear()
    assert ldp_polars.pool([(empty, OLD), (empty, OLD), (FIRST, OLD)])["n"][0] == FIRST.height
    shuffled = FIRST.sample(fraction=1, shuffle=True, seed=1)
    assert ldp_polars.pool([(FIRST, OLD), (shuffled.lazy(), OLD)], columns=["os"])["n"][0] == 1200


KEYS = {
    "nanoseconds": pl.Series([1, 1, 2, 2] * 50).cast(pl.Datetime("ns")),
    "nan": pl.Series([float("nan"), 1.0] * 100),
    "null": pl.Series([None, "a"] * 100),
    "list": pl.Series([[1], [2]] * 100),
    "struct": pl.Series([{"a": 1}, {"a": None}] * 100),
    "Enum": pl.Series(["b", "a"] * 100, dtype=pl.Enum(["b", "a"])),
}


def test_groups_of_any_dtype_are_pooled():
    """They went through Python, in whose dicts nanoseconds are cut off, nan is not itself, and lists are no keys."""
    plan = PrivacyPlan({"x": RandomizedResponse(["a", "b"], epsilon=9.0)}, keep=["g"])
    for name, g in KEYS.items():
        both = [(pl.DataFrame({"g": g, "x": ["a", "b"] * 100}).ldp.perturb(plan), plan) for _ in range(2)]
        with case(name):
            found = ldp_polars.pool(both, by="g")
            groups = g.unique().sort().rename("g")
            assert found["n"].to_list() == [200] * 4
            assert found.filter(value="a")["g"].equals(groups)


def test_groups_are_of_one_dtype_in_all_frames():
    """Groups "1" and 1 were two rows of the same name, and those of another time zone were labeled hours off."""
    plan = PrivacyPlan({"x": RandomizedResponse(["a", "b"], epsilon=9.0)}, keep=["g"])
    time = pl.Series([dt.datetime(2024, 1, 1, 1)] * 200)
    window = {"window": "1d", "event_time": "g"}
    for one, two, how in (
        (pl.Series(["0", "1"] * 100), pl.Series([0, 1] * 100), {"by": "g"}),
        (time, time.dt.replace_time_zone("Asia/Tokyo"), window),
        (time, time.dt.date(), window),
    ):
        frames = [pl.DataFrame({"g": g, "x": ["a", "b"] * 100}).ldp.perturb(plan) for g in (one, two)]
        with pytest.raises(PlanError, match="of one dtype in all frames"):
            ldp_polars.pool([(frame, plan) for frame in frames], **how)
        with pytest.raises(PlanError, match="of one dtype in all frames"):
            frames[0].ldp.compare(plan, other=frames[1], **how)


def test_a_lazy_frame_that_perturbs_answers_for_all_columns_of_one_draw():
    people = pl.int_range(100, eager=True)
    sources = []
    for k, epsilon in enumerate((59.0, 60.0)):
        plan = PrivacyPlan.sampled({"x": range(2), "y": range(3)}, epsilon=epsilon, keep=["person"])
        df = pl.DataFrame({"x": people % 2, "y": people % 3, "person": people + 100 * k})
        sources.append((df.lazy().ldp.perturb(plan), plan))
    # there is no noise, and what a person did not answer is nan
    answered = ldp_polars.pool(sources, by="person").filter(pl.col("estimate").is_between(0.9, 1.1))
    assert answered["person"].sort().to_list() == list(range(200))
