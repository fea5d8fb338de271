"""All questions: the one place that says what is asked if nothing is said, and how a question is written as text."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

from ldp_core.errors import ParameterError, PlanError
from ldp_core.estimates.base import OFFERS, Question, refuse_mechanism
from ldp_core.estimates.distribution import DistributionEstimate
from ldp_core.estimates.heavy_hitters import HeavyHittersEstimate
from ldp_core.estimates.histogram import HistogramEstimate
from ldp_core.estimates.joint import TableEstimate
from ldp_core.estimates.mean import MeanEstimate
from ldp_core.estimates.quantiles import CdfEstimate, MedianEstimate, QuantilesEstimate
from ldp_core.estimates.ranges import RangeEstimate
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_open, shown
from ldp_core.tables import View

Ask: TypeAlias = Question[Any] | Mapping[str, Any] | str
"""A question, or what stands for one: see `question_of`."""

QUESTIONS: tuple[type[Question[Any]], ...] = (
    HeavyHittersEstimate,
    DistributionEstimate,
    MeanEstimate,
    HistogramEstimate,
    CdfEstimate,
    QuantilesEstimate,
    MedianEstimate,
    RangeEstimate,
    TableEstimate,
)
"""What tells the most comes first."""
_UNSAID = 0.95  # the confidence of all of them, if nothing is said


def usual_question(mechanism: Mechanism, confidence: float = _UNSAID) -> Question[Any]:
    """What is asked of a mechanism's reports if nothing is said: the first of `QUESTIONS` that it can answer.

    Raises:
        ParameterError: it can answer none, as a sketch without candidates.

    >>> from ldp_core import RandomizedResponse, SquareWave
    >>> usual_question(RandomizedResponse(epsilon=1.0)).name, usual_question(SquareWave((0, 9), epsilon=1.0)).name
    ('histogram', 'distribution')
    """
    found = _usual(mechanism, confidence)
    if found is None:
        raise refuse_mechanism("an estimate", "a mechanism that has one", mechanism)
    return found


def _usual(mechanism: Mechanism, confidence: float) -> Question[Any] | None:
    for kind in QUESTIONS:
        try:
            question = kind(confidence=confidence)  # type: ignore[call-arg]
            question.check(mechanism)
        except ParameterError:  # (or it has options that must be said)
            continue
        return question
    return None


def by_column(ask: Any) -> dict[str, Ask]:
    """What is asked, by column; a `ParameterError` for what names no columns."""
    if not (ask is None or isinstance(ask, Mapping)):
        raise ParameterError(f"ask= says what is asked of which column, as {{'age': 'mean'}}, got {type(ask).__name__}")
    return dict(ask or {})


def questions_of(
    columns: Mapping[str, Mechanism], ask: Mapping[str, Ask] | None = None, confidence: float = _UNSAID, **options: Any
) -> dict[str, Question[Any]]:
    """What is asked of each column: what ``ask`` says, else the usual; checked.

    Args:
        columns: the mechanisms.
        ask: by column, a question or what stands for one (`question_of`).
        confidence: of the intervals, where ``ask`` does not say it.
        options: others that a question has unless ``ask`` says them; those that its kind does not have are left out.

    Raises:
        PlanError: ``ask`` names a column that is not there, or a column can answer no question.
        ParameterError: a mechanism does not have what it is asked for, or ``ask`` is no mapping.
    """
    check_open("confidence", confidence)
    ask = by_column(ask)
    if unknown := sorted(ask.keys() - columns.keys(), key=str):
        raise PlanError(f"ask names columns {unknown}; there are {list(columns)}")
    found: dict[str, Question[Any]] = {}
    for name, mechanism in columns.items():
        if name in ask:
            asked = ask[name]
        else:
            usual = _usual(mechanism, confidence)
            if usual is None:
                raise PlanError(f"column {name!r} has no estimate: {OFFERS}; {_CANDIDATES}")
            asked = usual.name
        found[name] = question_of(asked, confidence=confidence, **options)
        found[name].check(mechanism)
    return found


_CANDIDATES = (
    'in the TOML of a plan a sketch with its candidates is mechanism = "candidates", of Rappor '
    'mechanism = "rappor_candidates", with sketch = {...} and domain = [...]'
)


def asked_of(pairs: Iterable[str]) -> dict[str, str]:
    """What to ask of which column, from what one writes on the command line: ``COLUMN=QUESTION``, see `question_of`.

    >>> asked_of(["age=mean", "word=heavy_hitters:k=5"])
    {'age': 'mean', 'word': 'heavy_hitters:k=5'}
    """
    asked: dict[str, str] = {}
    for pair in pairs:
        name, equals, question = pair.partition("=")
        if not (name and equals and question) or name in asked:
            raise ParameterError(f"--ask is NAME=QUESTION, as age=mean, once for a column, got {pair!r}")
        asked[name] = question
    return asked


def question_of(asked: Ask, **defaults: Any) -> Question[Any]:
    """A question from what stands for one in plans, YAML and on the command line.

    Args:
        asked: a question; or ``{"question": NAME, OPTION: VALUE, ...}``, as `Question.to_dict` has it; or text,
            ``"NAME"`` or ``"NAME:OPTION=VALUE,OPTION=VALUE"``.
        defaults: options that it has unless ``asked`` says others; those that its kind does not have are left out.

    Raises:
        ParameterError: there is no such question, or it has no such option.

    >>> question_of("heavy_hitters:k=5")
    HeavyHittersEstimate(repeats=None, k=5, confidence=0.95, threshold=None)
    >>> question_of({"question": "mean"}, confidence=0.9)
    MeanEstimate(repeats=None, confidence=0.9, population=None)
    """
    if isinstance(asked, Question):
        said = defaults.get("confidence", _UNSAID)
        if getattr(asked, "confidence", said) == _UNSAID != said:  # (nobody can tell whether the question said it)
            raise ParameterError(
                f"a built question has a confidence of its own, {_UNSAID} if nothing was said, got confidence={said} "
                f"beside it: say {type(asked).__name__}(confidence={said}), or name the question, {asked.name!r}; "
                f"its to_dict() keeps {_UNSAID}"
            )
        if not any(value is not None and getattr(asked, name, value) is None for name, value in defaults.items()):
            return asked
        asked = asked.to_dict()  # (what is None is not said)
    if isinstance(asked, str):
        name, _, options = asked.partition(":")
        pairs = [option.partition("=") for option in re.split(r",(?=[^,\]]*=)", options) if option]
        named = [key.strip() for key, _, _ in pairs]
        if len({"question", *named}) <= len(named) or not all(equals for _, equals, _ in pairs):
            raise ParameterError("options of a question are OPTION=VALUE, each of them once, as heavy_hitters:k=5")
        asked = {"question": name.strip(), **{key.strip(): _value(text.strip()) for key, _, text in pairs}}
    if isinstance(asked, Mechanism):
        raise ParameterError("expected a question, got a mechanism: name it, as estimate(mechanism=m)")
    if not isinstance(asked, Mapping):
        raise ParameterError(f"a question is its name, or a mapping with its options, got {type(asked).__name__}")
    given: dict[str, Any] = {str(key): value for key, value in asked.items()}
    name = given.pop("question", None)
    kind = Question._named.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ParameterError(f"question must be one of {question_names()}, got {shown(name)}")
    known = inspect.signature(kind).parameters
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise ParameterError(f"the question {name} has no option {unknown[0]!r}: it has {list(known)}")
    return kind(**{key: value for key, value in (defaults | given).items() if key in known})


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def question_names() -> list[str]:
    """The names of all questions that are known here: those of this package, and those that were imported."""
    return sorted(Question._named)


def view_of(columns: Collection[str], name: str = "") -> View | None:
    """How people look at rows with these columns, whoever has made them; None if no question gives such rows.

    Args:
        columns: of the rows, in order.
        name: what they are about: of a table of three columns and more, the names of these, with commas.

    >>> view_of(["mean", "standard_error", "low", "high", "n"]).estimate
    'mean'
    """
    kinds = dict.fromkeys([*reversed(QUESTIONS), *Question._named.values()])
    fitting = [view for kind in kinds if (view := kind.view_of(columns, name))]
    return max(fitting, key=lambda view: len(view.labels), default=None)  # (other columns may be of groups)
