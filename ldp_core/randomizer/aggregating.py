"""Where only sums leave: how reports go through Prio, and how their sums become a tally.

Each client splits its report into two shares, one for each of two servers, with a proof that the report has the right
form. The servers check the proof together, and add up shares. Neither sees a report; only sums come out. What the proof
proves is the *type*, of draft-irtf-cfrg-vdaf: `Vdaf` describes it, and a program of others does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from ldp_core.arrays.types import I64
from ldp_core.errors import ParameterError, ReportError
from ldp_core.parameters import check_choice, check_open
from ldp_core.randomizer.declared import DeclaredMechanism
from ldp_core.reports import Bits, Value

Prio3 = Literal["Prio3MultihotCountVec", "Prio3SumVec", "Prio3Histogram"]


@dataclass(frozen=True)
class Vdaf:
    """What two servers, and the clients that send to them, must agree on: a type of Prio3 and its parameters.

    Attributes:
        name: of the type.
        length: how many numbers are sent, and how many sums come out.
        max_weight: the most ones that the proof permits in a report.
        bits: of each number of ``"Prio3SumVec"``, 1; else None.
        chunk_length: the one of the shortest proof.
        false_alarm: the probability, rounded up, that an honest report has more ones, whatever its value is. Its client
            sends nothing, and does not draw again: what it sends follows from one report, so that epsilon holds.

    >>> from ldp_core import UnaryEncoding
    >>> UnaryEncoding(range(16), epsilon=4.0).vdaf().to_dict()
    {'type': 'Prio3MultihotCountVec', 'length': 16, 'max_weight': 8, 'chunk_length': 3}
    """

    name: Prio3
    length: int
    max_weight: int
    bits: int | None
    chunk_length: int
    false_alarm: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form: the type and the parameters that it has in draft-irtf-cfrg-vdaf."""
        limit = {"max_weight": self.max_weight} if self.name == "Prio3MultihotCountVec" else {}
        bits = {} if self.bits is None else {"bits": self.bits}
        return {"type": self.name, "length": self.length, **limit, **bits, "chunk_length": self.chunk_length}


class Aggregating(DeclaredMechanism):
    """Reports that servers may add up without seeing them."""

    def vdaf(self, name: Prio3 | None = None, *, false_alarm: float = 1e-9) -> Vdaf:
        """The type of Prio3 whose sums are this mechanism's counters; `Tally.from_aggregate` reads them.

        Vectors of bits go as ``"Prio3MultihotCountVec"``, which bounds the number of ones, or as ``"Prio3SumVec"``,
        which does not, for servers that lack the first. Labels go as ``"Prio3Histogram"``, a single 1 at the label.

        Args:
            name: the type; default the one with the most that is proved.
            false_alarm: the most that the probability may be that an honest report is refused; in (0, 1).

        Raises:
            ParameterError: sums of the reports are not the counters; another type; false_alarm outside (0, 1).

        >>> from ldp_core import SubsetSelection, UnaryEncoding
        >>> limit = UnaryEncoding(range(1024), epsilon=4.0).vdaf()
        >>> limit.max_weight, limit.false_alarm < 1e-9
        (50, True)
        >>> SubsetSelection(range(16), epsilon=1.0).vdaf().max_weight  # the proof permits fewer ones, too
        4
        """
        check_open("false_alarm", false_alarm)
        length, ones = self._summed()
        names: tuple[Prio3, ...] = get_args(Prio3)
        names = names[:2] if isinstance(self.reports, Bits) else names[2:]
        kind = check_choice("name", name or names[0], among=names)
        if kind == "Prio3SumVec":
            return Vdaf(kind, length, length, 1, _chunk_length(length), 0.0)
        most, chance = (ones, 0.0) if ones is not None else self.most_ones(false_alarm)
        proved = length + (most.bit_length() if kind == "Prio3MultihotCountVec" else 0)
        return Vdaf(kind, length, most, None, _chunk_length(proved), chance)

    def _summed(self) -> tuple[int, int | None]:
        """How many numbers a report is, of which the first are the counters; how many of them are 1, if all have."""
        form = self.reports
        if isinstance(form, Bits):
            return form.d, form.ones
        if isinstance(form, Value):
            return form.domain.size, 1
        raise ParameterError(
            f"reports of {self.name} are neither vectors of bits nor labels, so that their sums are not its counters: "
            "take unary encoding, subset selection or randomized response"
        )

    def most_ones(self, false_alarm: float) -> tuple[int, float]:
        """The most ones that a report has, but for a probability of at most ``false_alarm``; and what that is."""
        raise ParameterError(f"the number of ones in a report of {self.name} has no known distribution")

    def counters_of_sums(self, n: int, sums: I64) -> I64:
        """The counters of n reports, of the sums that come out of `vdaf`.

        Raises:
            ParameterError: sums of the reports are not the counters.
            ReportError: there are more or fewer sums; reports have a fixed number of ones, and the sums another total.
        """
        length, ones = self._summed()
        if sums.shape != (length,):
            raise ReportError(f"an aggregate of {self.name} must be {length} sums, got {sums.size}")
        if ones is not None and sum(sums.tolist()) != ones * n:
            raise ReportError(
                f"the sums of {n} reports with {ones} ones each must add up to {ones * n}, and these do not: n is "
                "wrong, or a client sent fewer ones, which no proof refuses. Leave it out. Of unary encoding any "
                "number of ones counts: take that where clients may lie"
            )
        return sums[: self.counters]


def _chunk_length(proved: int) -> int:
    """Of the shortest proof of so many numbers: 2 chunks + 2 (2^k - 1) elements for 2^k - 1 gadget calls.

    (draft-irtf-cfrg-vdaf, section "Selection of ParallelSum Chunk Length".)
    """
    calls = [(1 << k) - 1 for k in range(1, (proved + 1).bit_length())]
    return -(-proved // min(calls, key=lambda call: (-(-proved // call) + call, -call)))
