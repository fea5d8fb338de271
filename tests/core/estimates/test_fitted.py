"""Tables of many columns, fitted to tables of pairs."""

import math
import sys
from functools import cache
from itertools import combinations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_polars  # noqa: F401
from ldp_core import Joint, LdpError, ParameterError, PrivacyPlan, PrivSet, RandomizedResponse, fit_tables
from ldp_core.estimates import fitted

from ...cases import each

VALUES = {"os": ["ios", "web"], "level": [1, 2, 3], "paid": [False, True]}


def shares_of_a_chain() -> np.ndarray:
    """os - level - paid: os and paid are independent given level, so that the pairs say everything."""
    os_level = np.array([[0.2, 0.1, 0.1], [0.05, 0.25, 0.3]])
    paid = np.array([0.1, 0.4, 0.8])
    return os_level[:, :, None] * np.stack([1 - paid, paid], axis=-1)


@cache
def tables(n: int, epsilon: float, seed: int) -> list[pl.DataFrame]:
    """Of a multiple of 200 people, who have the shares of the chain exactly."""
    shares = shares_of_a_chain()
    places = np.unravel_index(np.repeat(np.arange(shares.size), (n * shares).round().astype(int).ravel()), shares.shape)
    people = pl.DataFrame({name: np.array(VALUES[name])[at] for name, at in zip(VALUES, places, strict=True)})
    plan = PrivacyPlan({name: RandomizedResponse(values, epsilon=epsilon) for name, values in VALUES.items()})
    with pytest.warns(match="seeded"):
        reports = people.ldp.perturb(plan.seeded(seed))
    return [reports.ldp.table(*names) for names in combinations(VALUES, 2)]


@cache
def fitted_chain():
    frames = tables(20_000, 20.0, 0)
    return fit_tables([frames[0], frames[2].to_arrow()])  # the third one says nothing more


@pytest.mark.slow
def test_a_chain_is_fitted_exactly_from_its_pairs():
    # Without noise the distribution of largest entropy that has the pairs of a chain is the chain itself (McKenna and
    # others, section 2): a closed form.
    shares = shares_of_a_chain()
    found = fitted_chain().table(*VALUES)
    assert found.column_names == [*VALUES, "frequency"]
    error = np.abs(found["frequency"].to_numpy().reshape(shares.shape) - shares).max()
    assert error < 1e-6, error
    assert found.select([*VALUES]).slice(0, 4).to_pydict() == {
        "os": ["ios"] * 4, "level": [1, 1, 2, 2], "paid": [False, True, False, True],
    }  # fmt: skip


@pytest.mark.slow
def test_tables_agree_and_are_nearer_than_the_pairs_themselves():
    # Shares below 0 go, and so does part of the noise. Of 20 seeds none was further away.
    shares = shares_of_a_chain()
    frames = tables(400, 1.0, seed=1)
    model = fit_tables(frames)
    apart = []
    for frame, names in zip(frames, combinations(VALUES, 2), strict=True):
        true = shares.sum(axis=tuple(k for k, name in enumerate(VALUES) if name not in names)).ravel()
        apart.append([np.abs(given["frequency"].to_numpy() - true).mean() for given in (frame, model.table(*names))])
    raw, fit = np.mean(apart, axis=0)
    assert fit < raw
    three = pl.DataFrame(model.table("paid", "os", "level"))
    assert three["frequency"].min() >= 0
    assert three["frequency"].sum() == pytest.approx(1, abs=1e-9)
    two = pl.DataFrame(model.table("os", "paid"))
    summed = three.group_by("os", "paid", maintain_order=True).agg(pl.sum("frequency"))
    joined = two.join(summed, on=["os", "paid"])
    assert joined["frequency"].to_numpy() == pytest.approx(joined["frequency_right"].to_numpy(), abs=1e-9)


@pytest.mark.slow
def test_what_cannot_be_fitted_is_refused():
    os_level, os_paid, _ = tables(20_000, 20.0, 0)
    other = os_level.with_columns(pl.col("os").replace("web", "android"))
    for given, why in (
        ([], "got none"),
        ([os_level.drop("os", "level")], "columns, then the count"),
        ([None], "columns, then the count"),
        ([os_level.clear()], "of reports"),
        ([pl.concat([os_level, os_level])], "each combination of .* once"),
        ([os_level.head(5)], "each combination of .* once"),
        ([os_paid, other], "'os' does not have the same values"),
        ([os_level, os_paid.with_columns(os=pl.lit(3))], "'os' does not have the same values"),
    ):
        with pytest.raises(ParameterError, match=why):
            fit_tables(given)
    for names in ((), ("os", "os"), ("os", "late"), (3,)):
        with pytest.raises(ParameterError, match="one or more of the columns"):
            fitted_chain().table(*names)
    assert isinstance(fitted_chain().table("level"), pa.Table)


def test_groups_and_sets_are_not_fitted_as_one_table():
    # The shares of each of two groups add up to 1, those of sets to the numbers of items that people have.
    os_level, os_paid, _ = tables(20_000, 20.0, 0)
    groups = pl.concat(os_level.select(pl.lit(day).alias("day"), pl.all()) for day in (1, 2))
    sets = PrivacyPlan(
        {"apps": PrivSet(["mail", "maps"], epsilon=20.0, most=2), "os": RandomizedResponse(["a", "b"], epsilon=20.0)}
    )
    held = Joint(sets.columns, ["apps", "os"])
    two = held.estimate(
        held.tally(sets.perturb(pl.DataFrame({"apps": [["mail", "maps"]] * 200, "os": ["a", "b"] * 100})))
    )
    with pytest.raises(ParameterError, match="leave sets out"):
        fit_tables([two])
    for given in ([groups], [groups, os_paid], [two.to_arrow()]):
        with pytest.raises(ParameterError, match="add up to 2: take one group"):
            fit_tables(given)
    uneven = groups.with_columns(n=pl.col("day"), frequency_standard_error=pl.lit(1.0))
    with pytest.raises(ParameterError, match="one group"):
        fit_tables([uneven])


def test_groups_and_sets_are_not_fitted_where_there_is_much_noise():
    """The errors of all cells together were allowed: far more than that of their sum."""
    rng = np.random.default_rng(1)
    two = {"v": RandomizedResponse(["a", "b", "c"], epsilon=0.5), "crash": RandomizedResponse(epsilon=0.5)}
    people = {"v": rng.choice(["a", "b", "c"], 2000), "crash": rng.random(2000) < 0.3, "in": ["de", "fr"] * 1000}
    reports = pl.DataFrame(people).ldp.perturb(PrivacyPlan(two, keep=["in"]))
    with pytest.raises(ParameterError, match="add up to 2: take one group"):
        fit_tables([reports.ldp.table("v", "crash", by="in")])
    apps = PrivSet(["mail", "maps", "news", "chat", "games", "health"], epsilon=2.0, most=3)
    plan = PrivacyPlan({"apps": apps, "crash": RandomizedResponse(epsilon=2.0)})
    held = pl.DataFrame({"apps": [["mail", "maps"]] * 4000, "crash": [True, False] * 2000})
    with pytest.raises(ParameterError, match="columns of which a person has one value"):
        fit_tables([held.ldp.perturb(plan).ldp.table("apps", "crash")])


@each("kind", [pl.Categorical, pl.Enum(["web", "ios"])])
def test_text_of_polars_may_be_of_any_kind(kind):
    """Arrow does not decode dictionaries of views, as Polars has them: its own error was raised."""
    os_level, os_paid, _ = tables(20_000, 20.0, 0)
    found = fit_tables([os_level, os_paid.with_columns(pl.col("os").cast(kind))]).table("os", "paid")
    assert found["os"].to_pylist() == ["ios", "ios", "web", "web"]
    assert found["frequency"].to_numpy() == pytest.approx(os_paid["frequency"].to_numpy(), abs=0.01)


def test_what_would_be_fitted_as_equal_shares_is_refused():
    """No iteration, and a share that is no number, made all cells equal."""
    table = tables(20_000, 20.0, 0)[0]
    for iterations in (0, -5, 1.5, "a"):
        with pytest.raises(ParameterError, match="iterations must be an integer, at least 1"):
            fit_tables([table], iterations=iterations)
    with pytest.raises(ParameterError, match="add up to nan"):
        fit_tables([table.with_columns(frequency=pl.lit(math.nan))])


def test_large_tables_are_refused_before_they_are_made(monkeypatch):
    pairs = tables(20_000, 20.0, 0)
    monkeypatch.setattr(fitted, "LARGEST", 11)
    with pytest.raises(ParameterError, match="12 cells; at most 11"):  # all three hang together
        fit_tables(pairs)
    chain = fit_tables([pairs[0], pairs[2]])
    with pytest.raises(ParameterError, match="12 cells; at most 11"):
        chain.table(*VALUES)
    assert len(chain.table("os", "level")) == 6


def test_without_its_package_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(LdpError, match=r"ldp-telemetry\[mbi\]"):
        fit_tables([])
