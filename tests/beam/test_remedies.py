"""What a new user of Beam meets first: the error says what to do."""

from __future__ import annotations

import pytest

import ldp_beam
from ldp_core import Hybrid, LdpError, PrivacyPlan, RandomizedResponse, UnaryEncoding

from .helpers import run

GRR = RandomizedResponse(["rome", "oslo"], epsilon=3.0)
PLAN = PrivacyPlan({"word": GRR})


def test_what_is_called_wrongly_says_the_right_call():
    for wrong, remedy in (
        (lambda: ldp_beam.Perturb(GRR), r"PrivacyPlan\(\{name: mechanism\}\)"),
        (lambda: ldp_beam.RandomizedResponse("word", ["rome", "oslo"], epsilon=1.0), r"got list; .*domain=\[...\]"),
        (lambda: ldp_beam.RandomizedResponse(GRR, "word"), "got str; the column comes first"),
        (lambda: ldp_beam.RandomizedResponse("word"), r"pass epsilon=1\.0, or a mechanism"),
        (lambda: ldp_beam.UnaryEncode("word", epsilon=1.0), r"pass domain=\[...\], or a mechanism"),
        (lambda: ldp_beam.UnaryEncode("word"), r"pass domain=\[...\] and epsilon=1\.0, or"),
        (lambda: ldp_beam.Histogram("word", PLAN), r"got PrivacyPlan; the mechanism of one column is plan\[name\]"),
        (lambda: ldp_beam.PrivateHistogram("word", ["rome", "oslo"]), r"got list; .*RandomizedResponse\("),
        (lambda: ldp_beam.Histogram("word", RandomizedResponse), "the class RandomizedResponse; make one"),
        (lambda: ldp_beam.PrivateHistogram("word", Hybrid((0, 1), epsilon=1.0)), "mechanisms for numbers have a mean"),
        (lambda: ldp_beam.PrivateHistogram("word", GRR, window="1 hour", event_time="t"), 'like "2w"'),
    ):
        with pytest.raises(LdpError, match=remedy):
            wrong()


def test_values_that_were_never_perturbed_are_to_be_perturbed_first():
    oue = UnaryEncoding(["rome", "oslo"], epsilon=1.0)
    with pytest.raises(Exception, match="perturb them first"):
        run(ldp_beam.Histogram("word", oue), [{"word": "rome"}])
    with pytest.raises(Exception, match="needs bool values, got str"):
        run(ldp_beam.RandomizedResponse("word", epsilon=1.0), [{"word": "rome"}])
