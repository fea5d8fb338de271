"""Faults that break the promise, each planted in a black box, and each found by an audit.

Noise of mechanisms has fixed keys here, and that of numpy a seed: nothing fails by chance. Beside each fault is the
same box without it, which is not found guilty.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pytest

from ldp_core import (
    Domain,
    HadamardCountMeanSketch,
    Keyed,
    LongitudinalRandomizedResponse,
    LongitudinalUnaryEncoding,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
    UnaryEncoding,
    audit,
)

from ...cases import each

FEW = 15_000


def keyed(n, column="x"):
    return Keyed(Secret.generate(), np.arange(n), column=column)


@pytest.mark.parametrize("d", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_a_left_out_bit(d):
    m = UnaryEncoding(range(d), epsilon=1.0)

    def leave_out(values):
        bits = m.perturb(values.to_numpy())
        bits[:, 1] = values.to_numpy() == 1
        return bits

    assert audit(m, leave_out, trials=FEW).broken
    assert not audit(m, trials=FEW).broken


def test_a_value_in_a_text_beside_what_differs():
    """No two texts are equal: nothing was looked at."""
    rng = np.random.default_rng(1)
    makes = {
        "last": lambda part, x: f"{part.hex()} {x}",
        "first": lambda part, x: f"{x} {part.hex()}",
        "bytes": lambda part, x: part + x.encode(),
        "a bit": lambda part, x: part[:5] + bytes([part[5] & 254 | (x == "ios")]) + part[6:],
        "time": lambda part, x: dt.datetime.fromtimestamp(int.from_bytes(part[:4]) + (x == "ios") / 2, dt.UTC),
        "none": lambda part, _: part.hex(),
    }

    def box(make):
        def perturb(values):
            random = rng.integers(0, 256, (len(values), 20), np.uint8)
            return pa.array([make(part.tobytes(), x) for part, x in zip(random, values.to_pylist(), strict=True)])

        return perturb

    for name, make in makes.items():
        assert audit(1.0, box(make), inputs=["ios", "mac"], trials=FEW).broken is (name != "none"), name


def test_sorted_rows_of_any_two_values():
    """Two reports were of one kind in 7 % of cases, as of "a" and "b"."""
    for labels in (["a", "b"], ["a", "no"], ["a", "b", "c"], [0, 1000, 2000]):
        m = RandomizedResponse(labels, epsilon=1.0)
        assert audit(m, lambda values, m=m: m.perturb(values.sort()), trials=FEW).broken, labels


@pytest.mark.slow
def test_last_rows_of_blocks():
    """Of each 128 or 1024, while those of each 100 were found; and a null that passes alone was a ValueError."""
    m = RandomizedResponse(["no", "yes"], epsilon=1.0)
    for size in (128, 4096):

        def box(values, size=size):
            raw, out = (np.array(part.to_pylist(), "<U3") for part in (values, m.perturb(values)))
            last = np.arange(len(out)) % size == size - 1
            out[last] = raw[last]
            return out

        assert audit(m, box, trials=700_000).broken, size
    n = RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=1.0)

    def null(values):
        made = zip(values.to_pylist(), n.perturb(values).to_pylist(), strict=True)
        return pa.array([None if value is None else report for value, report in made])

    assert audit(n, null, inputs=["a", None], trials=4000).broken


def test_a_sketch_of_many_hash_functions():
    """It has 131,072 reports, and epsilon 6 passed for 1."""
    m = HadamardCountMeanSketch(epsilon=6.0)

    def perturb(values):
        return m.perturb(values, randomness=keyed(len(values)))

    assert audit(m, perturb, epsilon=1.0, inputs=["a", "b"], trials=FEW).broken
    found = audit(m, perturb, inputs=["a", "b"], trials=FEW)
    assert 3 < found.lower_bound < 6
    assert not found.broken


def test_a_permanent_round_that_is_drawn_anew():
    """Eight reports of one value are bounded by epsilon_infinity only because of what they have in common."""
    m = LongitudinalRandomizedResponse([False, True], epsilon_infinity=2.0, epsilon_1=1.0)

    def anew(*rounds):
        return tuple(m.perturb(values, randomness=keyed(len(values))) for values in rounds)

    found = audit(m, anew, rounds=8, trials=FEW)
    assert found.claimed == m.epsilon_of(8)
    assert found.lower_bound > 3
    assert not audit(m, rounds=8, trials=FEW).broken


@each(("truth", "yes"), [(0.5, 0.2), (0.6, 0.5), (0.5, 0.8)])
def test_a_constant_for_any_coins(truth, yes):
    """Warner's textbook claims ln 3 for two fair coins; a library must not for others."""
    m = RandomizedResponse.from_coins(truth=truth, yes=yes)
    assert audit(math.log(3), m.perturb, inputs=[False, True], trials=FEW).broken
    assert not audit(math.log(3), RandomizedResponse.from_coins().perturb, inputs=[False, True], trials=FEW).broken


@each(("bias", "broken"), [(1.01, True), (1.0, False)])
def test_a_coin_that_is_biased_by_one_percent(bias, broken):
    rng, p = np.random.default_rng(1), math.e / (1 + math.e)

    def biased(values):
        return values.to_numpy(zero_copy_only=False) ^ (rng.random(len(values)) >= bias * p)

    found = audit(RandomizedResponse(epsilon=1.0), biased, trials=1_000_000)
    assert found.broken == broken


def test_noise_that_two_columns_share():
    """Of a record that says the same twice, the reports are the same, too."""
    m = RandomizedResponse(epsilon=1.0)
    plan = PrivacyPlan({"crashed": m, "hung": m})

    def shared(crashed, hung):
        source = keyed(len(crashed))
        return m.perturb(crashed, randomness=source), m.perturb(hung, randomness=source)

    records = [(True, True), (True, False), (False, False), (False, True)]
    found = audit(plan, shared, inputs=records, trials=FEW)
    assert found.broken
    assert audit(plan, shared, trials=FEW).broken  # (once all inputs were alike in both columns)
    assert not audit(plan, inputs=records, trials=FEW).broken
    assert not audit(plan, inputs=records, trials=FEW, keyed=True).broken


def test_one_column_of_twelve_is_not_perturbed():
    """A bound of 7 is far below the 12 of the record: records that differ in one column may spend its 1 alone."""
    coin, bits = RandomizedResponse(epsilon=1.0), UnaryEncoding(["a", "b", "c"], epsilon=1.0)
    plan = PrivacyPlan({f"{k}": coin if k % 2 else bits for k in range(12)})

    def raw(*columns):
        reports = plan.perturb_columns(dict(zip(plan.inputs, columns, strict=True)), None, packed=False)
        return tuple({**reports, "7": columns[7]}.values())

    found = audit(plan, raw, trials=4000)
    assert found.broken
    assert (found.claimed, found.exact) == (1.0, None)
    assert not audit(plan, raw, trials=4000, epsilon=12.0).broken  # (all that is claimed)
    assert not audit(plan, trials=4000).broken


def test_a_null_that_passes_through():
    m = UnaryEncoding(Domain(["a", "b"], unmatched="none"), epsilon=1.0)

    def pass_nulls(values):
        reports = m.perturb(values)
        return pa.array(reports.to_pylist(), reports.type, mask=np.asarray(values.is_null()))

    found = audit(m, pass_nulls, trials=4000)
    assert found.pair is not None
    assert found.broken
    assert not audit(m, trials=FEW).broken


@pytest.mark.slow
def test_a_ledger_that_charges_too_little():
    """Two reports of one value, charged 2 epsilon_1 = 3; enumerated, they spend 3.319."""
    m = LongitudinalUnaryEncoding([0, 1], epsilon_infinity=8.0, epsilon_1=1.5, variant="OUE")
    found = audit(m, rounds=2, epsilon=2 * m.epsilon_1, trials=1_000_000)
    assert found.broken
    assert found.lower_bound < 3.3192
    assert not audit(m, rounds=2, trials=FEW).broken


def pure_ldp_unary_encoding(d, epsilon, rng, *, mended=False):
    """Pure-ldp's UEClient, versions 1.1.0 to 1.1.2 (https://github.com/Samuel-Maddock/pure-LDP/issues/11).

    All bits are drawn with probability q, that of the value too. Then it is set with probability p, and not cleared
    else: it is 1 with probability p + (1 - p) q.
    """
    p, q = 0.5, 1 / (math.exp(epsilon) + 1)

    def perturb(values):
        index = values.to_numpy()
        bits = rng.random((len(index), d)) < q
        rows = np.arange(len(index))
        if mended:
            bits[rows, index] = False
        bits[rows, index] |= rng.random(len(index)) < p
        return bits

    return perturb


@each("epsilon", [0.5, 1.0, 2.0])
def test_pure_ldp_s_published_bug(epsilon):
    """Its epsilon is ln((p + (1 - p) q) / ((1 - p) q)) = ln(exp(epsilon) + 2)."""
    rng, inputs = np.random.default_rng(3), range(4)
    found = audit(epsilon, pure_ldp_unary_encoding(4, epsilon, rng), inputs=inputs, trials=40_000)
    assert found.broken
    assert found.lower_bound < math.log(math.exp(epsilon) + 2)
    mended = audit(epsilon, pure_ldp_unary_encoding(4, epsilon, rng, mended=True), inputs=inputs, trials=FEW)
    assert not mended.broken


# ---- faults beside the values, in the order, in few rows, in one value


def hides(values, reports):
    """The raw values under nulls, which half of the rows have."""
    mask = np.arange(len(values)) % 2 == 0
    data = np.where(mask, values.to_numpy(zero_copy_only=False), reports.to_numpy(zero_copy_only=False))
    buffer = pa.py_buffer(np.packbits(data, bitorder="little").tobytes())
    valid = pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.bool_(), len(values), [valid, buffer])


def behind(values, reports):
    return pa.concat_arrays([reports, values]).slice(0, len(values))


def before(values, reports):
    texts = pa.concat_arrays([values.cast(pa.string()), reports.cast(pa.string())])
    return texts.slice(len(values))


def before_views(values, reports):
    """As Polars gives texts to Arrow (which was a ValueError)."""
    return pa.concat_arrays([x.cast(pa.string()).cast(pa.string_view()) for x in (values, reports)]).slice(len(values))


def in_padding(place):
    """After the last row's bit or number, in Boolean values, whether they are null, or where texts begin."""

    def pads(values, reports):
        kind = pa.string() if place == "texts" else pa.bool_()
        reports, more = reports.cast(kind), b"\1\0\0\0" if values[0].as_py() else b"\2\0\0\0"
        buffers = [pa.py_buffer(np.packbits(np.ones(len(values), bool)).tobytes()), *reports.buffers()[1:]]
        at = 0 if place == "nulls" else 1
        used = 4 * (len(values) + 1) if place == "texts" else -(-len(values) // 8)
        buffers[at] = pa.py_buffer(buffers[at].to_pybytes()[:used] + more)
        return pa.Array.from_buffers(kind, len(values), buffers)

    return pads


def in_a_chunk(values, reports):
    at = len(values) // (2 if values[0].as_py() else 4)
    return pa.chunked_array([reports.slice(0, at), reports.slice(at)])


def where_it_begins(values, reports):
    k = 8 if values[0].as_py() else 16
    return pa.concat_arrays([pa.array([False] * k), reports]).slice(k)


def behind_a_dictionary(values, reports):
    entries = pa.array(["false", "true", str(values[0])]).slice(0, 2)
    return pa.DictionaryArray.from_arrays(reports.cast(pa.int32()), entries)


def in_the_type_of_numpy(values, reports):
    return reports.to_numpy(zero_copy_only=False).astype(np.int8 if values[0].as_py() else np.int16)


class Named:
    """As a series of Polars or pandas."""

    def __init__(self, values, reports):
        self.name, self.reports = str(values[0]), reports

    def __arrow_c_array__(self, schema=None):
        return self.reports.__arrow_c_array__(schema)


def in_structs(values, reports):
    return pa.StructArray.from_arrays([behind(values, reports)], ["a"])


def in_dictionary(values, reports):
    entries = pa.array(["false", "true", *(f"was {value}" for value in values.unique().to_pylist())])
    return pa.DictionaryArray.from_arrays(reports.cast(pa.int32()), entries)


def in_metadata(values, reports):
    return reports.cast(pa.int64()).cast(pa.timestamp("us", "UTC" if values[0].as_py() else "Europe/Paris"))


def in_metadata_of_a_table(values, reports):
    return pa.table({"x": reports}).replace_schema_metadata({"first": str(values[0])})


def in_metadata_of_a_field(values, reports):
    return pa.table([reports], pa.schema([pa.field("x", pa.bool_(), metadata={"first": str(values[0])})]))


def behind_chunks(values, reports):
    return pa.chunked_array([behind(values, reports)] * 2).slice(0, len(values))


def in_a_table(hide):
    return lambda values, reports: pa.table({"x": hide(values, reports)})


def beside_their_sum(values, reports):
    return pa.table({"x": reports, "all": pa.array([pa.compute.sum(values).as_py() == len(values)] * len(values))})


def sorted_by_value(values, reports):
    return reports.take(pa.compute.array_sort_indices(values.cast(pa.int8())))


def sorted_in_tens(values, reports):
    blocks = np.arange(len(values)) // 10
    return reports.take(pa.array(np.lexsort((values.to_numpy(zero_copy_only=False), blocks))))


def antithetic(values, _):
    """Of two rows at most one has a flip: who knows the one person may read the other."""
    coins = np.repeat(np.random.default_rng().random(len(values) // 2 + 1), 2)[: len(values)]
    coins[1::2] = 1 - coins[1::2]
    return pa.array(values.to_numpy(zero_copy_only=False) ^ (coins >= math.e / (1 + math.e)))


def raw_at(step):
    def some_raw(values, reports):
        return pa.compute.if_else(pa.array(np.arange(len(values)) % step == 0), values, reports)

    return some_raw


def drawn_again_after(period):
    """Noise of numpy, of which there is only so much in a call."""
    rng, p = np.random.default_rng(1), math.e / (1 + math.e)

    def repeating(values, _):
        flips = np.resize(rng.random(period) >= p, len(values))
        return pa.array(values.to_numpy(zero_copy_only=False) ^ flips)

    return repeating


def raw_in_small_batches(values, reports):
    return values if len(values) < 64 else reports


def raw_row(at):
    """An end of each batch, as where noise is drawn for eight rows at a time."""

    def one_raw(values, reports):
        return pa.compute.if_else(pa.array(np.arange(len(values)) == at % len(values)), values, reports)

    return one_raw


def where_true(plant):
    """The first of the inputs, False, is perturbed all the same; only this one was looked at."""

    def raw_true(values, reports):
        return pa.compute.or_(reports, pa.compute.and_(values, plant(values, reports)))

    return raw_true


def before_long_texts(values, reports):
    """As Polars has texts: those of more than 12 bytes are beside the rows."""
    texts = (pa.compute.if_else(x, "a long name of yes", "a long name of non") for x in (values, reports))
    return pa.concat_arrays([text.cast(pa.string_view()) for text in texts]).slice(len(values))


def in_equal_entries(values, reports):
    numbers = pa.compute.add(reports.cast(pa.int8()), pa.compute.multiply(values.cast(pa.int8()), 2))
    return pa.DictionaryArray.from_arrays(numbers.cast(pa.int8()), ["no", "yes", "no", "yes"])


def nulls_around(nulls):
    def raw(values, _):
        """A null and what is full of nulls were the same."""
        return nulls(len(values), values.to_numpy(zero_copy_only=False))

    return raw


NULLS = [
    lambda n, raw: pa.array(np.where(raw, 0.0, np.nan), mask=raw, from_pandas=False),
    lambda n, raw: pa.StructArray.from_arrays([pa.nulls(n, pa.int64())], ["a"], mask=pa.array(raw)),
    lambda n, raw: pa.FixedSizeListArray.from_arrays(pa.nulls(2 * n, pa.int64()), 2, mask=pa.array(raw)),
]


def the_same_in_each_call(values, _):
    flips = np.random.default_rng(5).random(len(values)) >= math.e / (1 + math.e)
    return pa.array(values.to_numpy(zero_copy_only=False) ^ flips)


def one_coin_for_each_category(values, _):
    coded = values.dictionary_encode()
    return RandomizedResponse(epsilon=1.0).perturb(coded.dictionary).take(coded.indices)


def mirrored(values, reports):
    half = len(values) // 2
    return pa.concat_arrays([reports[: len(values) - half], reports[:half].take(pa.array(np.arange(half)[::-1]))])


PLANTED = [
    (hides, "memory"),
    (behind, "memory"),
    (before, "memory"),
    (behind_chunks, "memory"),
    (before_views, "memory"),
    (before_long_texts, "memory"),
    (in_structs, "memory"),
    *((in_padding(place), "memory") for place in ("values", "nulls", "texts")),
    (behind_a_dictionary, "memory"),
    *((cut, "is cut") for cut in (in_a_chunk, where_it_begins)),
    *((kind, "the name, the type") for kind in (in_the_type_of_numpy, Named)),
    (in_dictionary, "dictionary"),
    *((kind, "metadata") for kind in (in_metadata, in_metadata_of_a_table, in_metadata_of_a_field)),
    (beside_their_sum, "batches of one value"),
    *((kind, "order") for kind in (sorted_by_value, sorted_in_tens)),
    *((kind, "repeat after") for kind in (mirrored, antithetic)),
    *((drawn_again_after(period), "repeat after") for period in (16, 256, 1001, 50_021, 65_536)),
    (the_same_in_each_call, "another run"),
    (one_coin_for_each_category, "in common"),
    *((raw_at(step), "some places") for step in (100, 1000, 10_000)),
    *((few, "small batches") for few in (raw_in_small_batches, raw_row(0), raw_row(-1))),
    *((where_true(few), "small batches") for few in (raw_in_small_batches, raw_row(0))),
    (where_true(raw_at(100)), "some places"),
    *((raw, "batches of one value") for raw in (in_equal_entries, *map(nulls_around, NULLS))),
    *((in_a_table(hide), said) for hide, said in ((behind, "memory"), (in_dictionary, "dictionary"))),
    (lambda _, reports: pa.concat_arrays([reports] * 2).slice(len(reports)), None),  # only reports are hidden
    (lambda _, reports: reports.cast(pa.string()).dictionary_encode(), None),
    (lambda _, reports: reports.cast(pa.string()).cast(pa.string_view()), None),
    (lambda _, reports: before_long_texts(reports, reports), None),
    (lambda _, reports: reports, None),
    (lambda _, reports: pa.table({"x": reports}).replace_schema_metadata({"k": "v"}), None),
]


@pytest.mark.slow
def test_faults_beside_the_values():
    m = RandomizedResponse(epsilon=1.0)
    for plant, said in PLANTED:
        trials = 700_000 if said == "some places" else FEW
        found = audit(m, lambda values, plant=plant: plant(values, m.perturb(values)), trials=trials)
        assert found.broken == (said is not None), (plant, found)
        assert said is None or any(said in what for what in found.structure), (plant, found)


def test_noise_of_one_draw_for_a_whole_batch():
    """As where numpy is not told how many: rows of a run were all alike, and so was what chance was taken from."""

    def forgot_the_size(values):
        return values.to_numpy().astype(float) + np.random.default_rng().laplace(0, 40)

    for found in (audit(1.0, forgot_the_size, inputs=[0, 40], trials=1000) for _ in range(5)):
        assert "reports of one batch have noise in common" in found.structure


@pytest.mark.slow
def test_what_is_beside_reports_by_chance_accuses_nobody():
    """One report more, of a value that is always the same, is there in memory: it was said to tell the input."""
    m, more = RandomizedResponse(epsilon=1.0), pa.array([True])

    def one_more(values, randomness):
        n = np.arange(len(values))
        both = [m.perturb(values, randomness=Keyed(randomness, n, column="x"))]
        both.append(m.perturb(more, randomness=Keyed(randomness, n[:1], column="more")))
        return pa.concat_arrays(both).slice(0, len(values))

    for seed in range(20):
        secrets = (Secret.from_seed(1000 * seed + call) for call in itertools.count())
        found = audit(m, lambda values, secrets=secrets: one_more(values, next(secrets)), trials=1000)
        assert not found.broken, (seed, found)


def test_what_most_runs_have_beside_their_values_is_found():
    """Of 18 runs of an input one without it was enough not to be broken."""
    m, calls = RandomizedResponse(epsilon=1.0), itertools.count()

    def nine_of_ten(values):
        reports = m.perturb(values)
        return pa.concat_arrays([reports, values.slice(0, 1) if next(calls) % 10 else reports[:0]])[: len(values)]

    assert any("memory" in what for what in audit(m, nine_of_ten, trials=1000).structure)


@pytest.mark.slow
def test_what_rare_reports_do_to_a_run_accuses_nobody():
    """Of 13,600 values one is written as null: whether a run of one input has a null tells nothing of one report.

    It was broken in 6 to 31 % of audits. Each check now has 1e-9.
    """
    m = RandomizedResponse(range(13_600), epsilon=3.0)
    for write in (
        lambda x: pa.array(x, mask=x == 13_599),
        lambda x: pa.compute.if_else(pa.array(x == 13_599), pa.scalar(None, pa.int64()), pa.array(x.astype(np.int64))),
        lambda x: pa.array(x, pa.uint8() if x.max() < 256 else pa.uint16()),
    ):
        for _ in range(10):
            found = audit(m, lambda x, write=write: write(m.perturb(x.to_numpy())), inputs=[0, 13_599], trials=10_000)
            assert not found.broken, found


def test_a_name_is_found_where_hardly_two_runs_are_alike():
    """Of 32 bits that are rarely set each run had others; which ones a run has was what its name was compared by."""
    m = UnaryEncoding([f"v{k}" for k in range(32)], epsilon=8.0)

    def named(values):
        return pl.Series(str(values[0].as_py()), m.perturb(values))

    assert any("the name" in what for what in audit(m, named, trials=4000).structure)


def test_a_value_in_the_length_of_texts_that_all_differ():
    m = RandomizedResponse(epsilon=1.0)

    def lines(values):
        rng = np.random.default_rng()
        told = zip(
            values.to_pylist(), m.perturb(values).to_pylist(), rng.integers(0, 2**62, (len(values), 2)), strict=True
        )
        return [f"{a:040x} crashed={value} {b:040x} {report}" for value, report, (a, b) in told]

    assert audit(m, lines, trials=2000).broken


@each(("value", "broken"), [(17, True), (-1, False)])
def test_one_value_of_many_that_passes_raw(value, broken):
    """It is none of those that are compared by default: the first, the second, one in the middle and the last."""
    for m in (RandomizedResponse(range(40), epsilon=1.0), UnaryEncoding(range(40), epsilon=1.0)):

        def pass_one(values, m=m):
            numbers, reports = values.to_numpy(), np.array(m.perturb(values.to_numpy()))
            reports[numbers == value] = (np.arange(40) == value) if reports.ndim == 2 else value
            return reports

        assert audit(m, pass_one, trials=FEW).broken == broken


def test_raw_rows_at_random_places():
    """Of bit vectors, of which hardly two are the same; of binary reports nobody can tell."""
    m, rng = UnaryEncoding(range(40), epsilon=1.0), np.random.default_rng(2)

    def some_raw(values):
        reports, few = m.perturb(values.to_numpy()), rng.random(len(values)) < 3e-3
        reports[few] = values.to_numpy()[few, None] == np.arange(40)
        return reports

    assert audit(m, some_raw, inputs=[0, 1], trials=200_000).broken


@each("plant", ["lowest bit", "sign of 0"])
def test_floats_that_tell_in_bits(plant):
    rng = np.random.default_rng(3)

    def tell(values, *, honest=False):
        sign = (values.to_numpy() > 0) & (not honest)
        noise = rng.normal(size=len(values))
        if plant == "lowest bit":
            return ((noise.view(np.int64) & -2) | sign).view(np.float64)
        return np.where(noise > 1, np.where(sign, -0.0, 0.0), noise.round() + 0.0)

    assert audit(1.0, tell, inputs=[-1.0, 1.0], trials=FEW).broken
    assert not audit(1.0, lambda values: tell(values, honest=True), inputs=[-1.0, 1.0], trials=FEW).broken
