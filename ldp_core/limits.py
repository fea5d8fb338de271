"""Limits of what comes from outside, and the one way by which JSON and TOML come in.

Few bytes may declare much: 24 kB of zstd are 800 MB of zeros, 224 bytes a column of 2^31 nulls, 1 kB of brackets more
levels than Python can recurse. So what a message, a plan or a file declares is compared with a limit before memory is
taken for it.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from glob import escape, glob, has_magic
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ldp_core.errors import InputError, LdpError, LimitError, ParameterError, warn_user
from ldp_core.parameters import Declared, check_integer, parameter

VARIABLE = "LDP_LIMITS"
"""The environment variable with other defaults, read once, when `ldp_core` is imported."""


@dataclass(frozen=True, kw_only=True)
class Limits(Declared):
    """What may come in at most. Each is an integer, at least 1.

    Args:
        rows: records in one message: what one sender can add to an estimate at once. Our own batches have 2^16.
        columns: of one message, nested ones included, and of a plan.
        bytes: of one message, decompressed, where each value counts as one byte at least.
        row_group_bytes: of one row group of a Parquet file, decompressed: docs/input.md says what counts.
        line_bytes: of one line of a text file.
        plan_bytes: of a plan, or of a mechanism in the metadata of a column, as text.
        labels: entries of any list in such a text: the size of a domain.
        label_length: characters of any text in it: a label, a column's name.
        counters: of a tally of such a mechanism: a few bytes declare sketches of 2^26.

    How deep such a text, or a column of a message, nests is no choice: `DEPTH` levels.

    The defaults, `DEFAULT`, may be changed for a process, and for all that have no argument ``limits=``, by the
    environment variable ``LDP_LIMITS``, as ``LDP_LIMITS="rows=100 labels=2000000"``.

    Raises:
        ParameterError: one is not an integer, at least 1.

    >>> Limits(rows=1000).rows, Limits().labels
    (1000, 1048576)
    """

    rows: int = parameter(check_integer, default=1 << 20, low=1)
    columns: int = parameter(check_integer, default=1 << 12, low=1)
    bytes: int = parameter(check_integer, default=1 << 28, low=1)
    row_group_bytes: int = parameter(check_integer, default=1 << 31, low=1)
    line_bytes: int = parameter(check_integer, default=1 << 24, low=1)
    plan_bytes: int = parameter(check_integer, default=1 << 25, low=1)
    labels: int = parameter(check_integer, default=1 << 20, low=1)
    label_length: int = parameter(check_integer, default=1 << 12, low=1)
    counters: int = parameter(check_integer, default=1 << 23, low=1)

    def __post_init__(self) -> None:
        self._declare(**vars(self))

    @classmethod
    def parsed(cls, text: str) -> Limits:
        """Limits from words ``name=number``; what is not named is as ever; raise `ParameterError` for another word."""
        names = {f.name for f in fields(cls)}
        given = {}
        for word in text.split():
            name, _, number = word.partition("=")
            if name not in names or not (number.isascii() and number.isdigit() and len(number) < 20):
                raise ParameterError(f"{VARIABLE} has words name=number, with a name of {sorted(names)}; one is not")
            given[name] = int(number)
        return cls(**given)


DEFAULT = Limits.parsed(os.environ.get(VARIABLE, ""))
"""What holds where nothing else is said."""

DEPTH = 16
"""Levels of tables and lists in a plan, a mechanism or a column. Ours have 5 at most; what walks them recurses."""
_MOST_BITS = 256
"""Of an integer: a longer one is none of our parameters, and Python refuses to print it."""


def read_json(text: str | bytes, what: str, error: type[LdpError], limits: Limits = DEFAULT) -> Any:
    """What a JSON text from outside says; raise ``error``, about ``what``, if it is none or too large."""
    return _read(text, _json, what, "JSON", error, limits)


def _json(text: str | bytes) -> Any:
    return _DECODER.decode(text if isinstance(text, str) else text.decode(json.detect_encoding(text)))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of a name that comes twice, readers differ in which value they take."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _SaidError(": an object has a name twice")
    return made


class _SaidError(ValueError):
    pass


def _finite(text: str) -> float:
    """A number; 1e400 would be infinity, with which every sum is useless."""
    if math.isinf(number := float(text)):
        raise _SaidError(": a number is beyond those of 64 bits")
    return number


# (NaN is no JSON; json.loads is slower)
_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_float=_finite, parse_constant=int)


def read_toml(text: str, what: str, error: type[LdpError], limits: Limits = DEFAULT) -> Any:
    """What a TOML text says; see `read_json`."""
    return _read(text, _toml, what, "TOML", error, limits)


def _read(text: Any, parse: Callable[[Any], Any], what: str, form: str, error: type[LdpError], limits: Limits) -> Any:
    if len(text) > limits.plan_bytes:
        raise error(over(what, len(text), "characters", "plan_bytes", limits))
    reason, data = None, None
    try:
        data = parse(text)
    except _SaidError as fault:
        reason = str(fault)
    except tomllib.TOMLDecodeError as fault:
        reason = f": {str(fault)[:200]}"
    except (ValueError, RecursionError):  # no UTF-8, an integer of thousands of digits, too many levels
        reason = ""
    if reason is not None:
        raise error(f"{what} is not valid {form}{reason}")
    check_nesting(data, what, error, limits)
    return data


def _toml(text: str) -> dict[str, Any]:
    text = text.removeprefix("\ufeff")  # as Python's utf-8-sig
    if _LONG_KEY.search(_QUOTED.sub("", text)):  # the time for one is quadratic
        raise tomllib.TOMLDecodeError(f"a dotted key of more than {DEPTH} names")
    return tomllib.loads(text)


# (Also a text without its end, so that the time is linear.)
_QUOTED = re.compile(r""" "(?:[^"\\\n]|\\.)*+"? | '[^'\n]*+'? """, re.VERBOSE)
_LONG_KEY = re.compile(rf"(?:\.[\w \t-]*){{{DEPTH}}}")


def check_nesting(data: Any, what: str, error: type[LdpError], limits: Limits | None = None) -> None:
    """Raise ``error`` unless tables and lists nest no deeper than `DEPTH`, names are text, and integers can be printed.

    ``limits`` are of lists and texts in ``data``; None for what is a caller's own.
    """
    values = [data]
    for _ in range(DEPTH + 1):
        _check_level(values, what, error, limits)
        kinds = {kind for kind in set(map(type, values)) if issubclass(kind, (Mapping, list, tuple))}
        if not kinds:
            return
        inner = [value for value in values if type(value) in kinds]
        longest = max(map(len, inner))
        if limits is not None and longest > limits.labels:
            raise error(over(f"a list in {what}", longest, "entries", "labels", limits))
        tables = [value for value in inner if isinstance(value, Mapping)]
        if not all(isinstance(name, str) for table in tables for name in table):
            raise error(f"{what} has names that are not text")
        values = [*chain.from_iterable(inner), *chain.from_iterable(table.values() for table in tables)]
    raise error(f"{what} nests tables and lists deeper than {DEPTH} levels")


def _check_level(values: list[Any], what: str, error: type[LdpError], limits: Limits | None) -> None:
    """Raise unless integers among values can be printed, and texts are within the limits."""
    kinds = set(map(type, values))
    if any(issubclass(kind, int) for kind in kinds):
        longest = max(value.bit_length() for value in values if isinstance(value, int))
        if longest > _MOST_BITS:
            raise error(f"{what} has an integer of {longest} bits, above {_MOST_BITS}")
    if limits is not None and any(issubclass(kind, str) for kind in kinds):
        longest = max(len(value) for value in values if isinstance(value, str))
        if longest > limits.label_length:
            raise error(over(f"a text in {what}", longest, "characters", "label_length", limits))


def over(what: str, found: int, unit: str, name: str, limits: Limits) -> str:
    """The words of an error: what is over which limit, and how to change it."""
    return (
        f"{what} has {found} {unit}, more than the limit {name}={getattr(limits, name)}: "
        f"if it is meant to, give Limits({name}=...) or set {VARIABLE}"
    )


UNFINISHED = "/beam-temp-"
"""In the paths of files that a job of Beam has not given their names, or never will."""
PARQUET = (".parquet", ".pq")
"""How names of Parquet files end, in capitals, too."""
JOURNALS = "journal/*.journal"
"""In a folder of reports that `ldp serve` writes: those that are not in a Parquet file yet."""


def files_of(path: str | os.PathLike[str]) -> list[str]:
    """The files of a path, a folder of Parquet files or a pattern; an `InputError` if one of these has none.

    As of a pattern, those of hidden names are left out: a command that was ended leaves half a file there. A job of
    Beam that was ended leaves whole ones, too, whose records are written again when it runs again.
    """
    if os.path.isdir(path):
        top = os.path.join(path, "")
        below = _glob(os.path.join(escape(top), "**", "*"))
        whole = (Path(file) for file in below if _is_whole(file.removeprefix(top)) and not os.path.isdir(file))
        found = [str(file) for file in whole if file.suffix.lower() in PARQUET]
        with suppress(OSError):  # (of a journal that a server has taken away meanwhile)
            if any(journal.stat().st_size for journal in Path(path).glob(JOURNALS)):
                warn_user(
                    f"{str(path)!r}: reports in its journal are not counted; they are in a Parquet file when ldp serve "
                    "has ended, or has started again"
                )
        if not found:
            raise InputError(f"there is no Parquet file in {str(path)!r}")
    elif os.path.exists(path) or not has_magic(str(path)):
        return [str(path)]
    elif not (found := _matched(str(path))):
        raise InputError(f"there is no file {str(path)!r}")
    elif folder := next(filter(os.path.isdir, found), None):
        raise InputError(
            f"{str(path)!r} matches a folder, {folder!r}: a pattern is of files, as {folder + '/*.parquet'!r}"
        )
    return _different(found)


def matching_files(pattern: str) -> list[str]:
    """The files that a pattern names, perhaps none, each once: as in a shell, so also in linked folders."""
    return _different(filter(os.path.isfile, [pattern] if os.path.exists(pattern) else _matched(pattern)))


def _matched(pattern: str) -> list[str]:
    return sorted(filter(_is_whole, _glob(pattern)))


def _is_whole(file: str) -> bool:
    return UNFINISHED not in f"/{file}"


def _glob(pattern: str) -> Iterable[str]:
    first, *rest = re.split(r"(?:^|(?<=/))\*\*(?:/+|$)", pattern, maxsplit=1)
    if not rest:
        return glob(pattern)
    below = (folder for top in glob(first or ".") for folder in _folders(top))
    found = chain.from_iterable(_glob(os.path.join(escape(folder), rest[0] or "*")) for folder in below)
    return found if first else (file.removeprefix("./") for file in found)


def _folders(top: str) -> Iterator[str]:
    """``top`` and the folders below, as a shell finds them, linked ones too; each once, as links may go in circles."""
    seen = set()
    for folder, below, _ in os.walk(top, followlinks=True):
        real = os.path.realpath(folder)
        below[:] = [] if real in seen else [name for name in below if name[0] != "."]
        if real not in seen:
            seen.add(real)
            yield folder


def _different(files: Iterable[str]) -> list[str]:
    """A link to one of them, as latest.parquet, is that file."""
    return sorted({os.path.realpath(file): file for file in sorted(files, reverse=True)}.values())


def _in_folders(files: Iterable[str]) -> dict[str, set[str]]:
    """The columns and values that the names of folders have, as day=2026-01-01."""
    found: dict[str, set[str]] = {}
    for name, mark, value in (part.partition("=") for file in files for part in Path(file).parts[:-1]):
        if mark:
            found.setdefault(unquote(name), set()).add(value)
    return found


def refuse_private_folders(files: Iterable[str], private: Container[str]) -> None:
    """Raise `InputError` if files are in folders of the values of a private column: so reports would be, in order."""
    if named := sorted(name for name, values in _in_folders(files).items() if len(values) > 1 and name in private):
        raise InputError(
            f"files are in folders that are named after values of {named}, and reports in the order of these folders "
            "would show the values: write one file with its rows shuffled, as "
            "pl.read_parquet(folder).sample(fraction=1, shuffle=True).write_parquet(file)"
        )


def of_folders(files: Iterable[str], missing: Iterable[str]) -> str:
    """What an error adds about columns that files do not have, but the names of their folders do."""
    named = _in_folders(files)
    there = [name for name in missing if name in named]
    if not there:
        return ""
    return (
        f". {there} are in the names of folders, of which Polars makes columns: write one file with them, as "
        "pl.scan_parquet(folder).sink_parquet(file), with its rows shuffled if they are private; of reports "
        ".ldp.sink_parquet(file, ldp_polars.read_plan(folder))"
    )


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Where to write what takes the target's place once it is complete: the target is whole, or as it was."""
    from tempfile import TemporaryDirectory  # noqa: PLC0415 (as in `open_parquet`)

    target = target.resolve()
    if any("\udc80" <= letter <= "\udcff" for letter in str(target)):  # (bytes, which Polars does not write)
        raise InputError(f"cannot write {str(target)!r}: its name is not text in UTF-8")
    if target.exists() and not target.is_file():  # a pipe, a terminal
        yield target
        return
    try:  # A folder of its own: a thread of Polars may make the file again after a failure, and in no folder it cannot.
        with TemporaryDirectory("", f".{target.name[:40]}.", target.parent, ignore_cleanup_errors=True) as folder:
            yield (beside := Path(folder) / target.name)
            if target.exists():
                beside.chmod(target.stat().st_mode)
            beside.replace(target)
    except OSError as error:
        raise InputError(f"cannot write {str(target)!r}: {error.strerror or type(error).__name__}") from None


def open_parquet(source: Any) -> Any:
    """A ``pyarrow.parquet.ParquetFile`` of at most 4,096 row groups, and 4,096 entries in its schema; checksums count.

    Arrow and Polars walk a schema by recursion: one of 20,000 levels, in 200 kB, ends the process.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 (most processes that import the core read no such files)

    return pq.ParquetFile(source, thrift_container_size_limit=4096, page_checksum_verification=True)


def check_row_groups(file: Any, limits: Limits) -> None:
    """Raise `LimitError` if a row group of a ``pyarrow.parquet.ParquetFile`` declares more than the limits permit."""
    metadata = file.metadata
    largest = max((metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)), default=0)
    if largest > limits.row_group_bytes:
        raise LimitError(over("a row group", largest, "bytes when decompressed", "row_group_bytes", limits))
