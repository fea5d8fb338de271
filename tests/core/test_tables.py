"""What is shown in notebooks."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np

from ldp_core import HeavyHitters, Hybrid, Prefixes, PrivacyPlan, RandomizedResponse, SquareWave, Tally, UnaryEncoding
from ldp_core.tables import Row, Table, aligned

from ..cases import each
from .examples import EVERY, people_of


class Balanced(HTMLParser):
    """Text of a page; every tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@each("name", EVERY)
def test_mechanisms_and_tallies_show_themselves(name):
    m = EVERY[name]
    text = Balanced(m._repr_html_()).text
    assert m.title in text
    assert m.fingerprint in text
    tally = m.simulate(people_of(m), seed=1)
    assert f"{tally.n:,}" in Balanced(tally._repr_html_()).text
    if name == "CMS over candidates":  # a mechanism in a mechanism is shown in words
        assert "count_mean_sketch, epsilon" in "".join(text)


def test_labels_are_escaped():
    m = RandomizedResponse(["<script>", "a&b"], epsilon=1.0)
    histogram = m.estimate(m.simulate({"<script>": 700, "a&b": 300}, seed=1))
    page = histogram._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert {"<script>", "a&b", "1,000"} & set(Balanced(page).text) >= {"<script>", "a&b"}
    plan = PrivacyPlan({"<b>": m}, keep=["day"], seed=1)
    assert "<b>" in Balanced(plan._repr_html_()).text
    assert "NOT private" in Balanced(plan._repr_html_()).text[-1]


def test_long_histograms_are_cut():
    m = UnaryEncoding(range(100), epsilon=1.0)
    page = m.estimate(m.simulate(range(100), seed=1))._repr_html_()
    assert page.count("<tr>") == 21
    assert "80 more values" in Balanced(page).text[-1]


def test_other_estimates():
    m = Hybrid((0, 1), epsilon=1.0)
    mean = m.mean(m.simulate({0.5: 100}, seed=1))
    wave = SquareWave((0, 1), epsilon=1.0, buckets=64)
    tally = wave.simulate({0.5: 100}, seed=1)
    for shown in (mean, wave.distribution(tally)):
        assert Balanced(shown._repr_html_()).text == [repr(shown)]
    few = wave.distribution(tally, buckets=4)
    page = few._repr_html_()
    assert page.count("<tr>") == 5
    for text in ("0.75", f"{100 * few.frequencies[3]:.2f} %", f"{100 * few.high[3]:.2f} %"):
        assert text in Balanced(page).text
        assert text in repr(few)


def test_what_was_found_is_a_table():
    m = HeavyHitters(Prefixes("elmors", 4), epsilon=5.0, levels=(2, 4), rows=8, width=128)
    found = m.find(m.simulate({"rome": 5000, "oslo": 3000}, seed=1), 20)
    assert "2 of" in found._repr_html_()
    assert found._repr_html_().count("<tr>") == 3
    assert f"{100 * found.frequency_low[0]:.2f} %" in repr(found)


def test_an_empty_table():
    assert repr(Table[Row]((), "nothing")).strip() == "nothing"
    assert aligned([("a",)]) == ["a"]
    assert Balanced(Tally(0, np.zeros(0, np.int64), "a" * 16)._repr_html_()).text
