"""Columns of CSV files as the text that they hold; and text as other types, of which some may not convert."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv


def text_columns(names: list[str] | None) -> pyarrow.csv.ConvertOptions:
    r"""How to read these columns (None: all, as Arrow guesses): as text; only the empty unquoted field is null.

    So NA, null and NaN are text, as the country code NA (Namibia) is; a quoted empty field is the empty text. Arrow
    takes 16 such words for null if it is not told otherwise, quoted ones too. What is no number, Boolean or time is
    found later, where the text is converted. Bytes are not checked here: a bad one is the fault of one record only.

    >>> import io
    >>> file = io.BytesIO(b'country,day\nNA,1\n"",2\n,3\n')
    >>> pyarrow.csv.read_csv(file, convert_options=text_columns(["country"]))["country"].to_pylist()
    [b'NA', b'', None]
    """
    return pyarrow.csv.ConvertOptions(
        include_columns=names,
        column_types=dict.fromkeys(names or [], pa.binary()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        check_utf8=False,
    )


def cast_or_null(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Text, or bytes that may be text, as another type; null where a value does not convert.

    Arrow converts all or nothing. So where it fails, what cannot be of the type by its looks becomes null before it
    tries again; what is left of the bad ones (as the 29th of February of a common year) is found by halving, some
    0.1 ms each.

    >>> cast_or_null(pa.array(["7", "", "NA", None]), pa.int64()).to_pylist()
    [7, None, None, None]
    """
    if pa.types.is_binary(text.type):
        text = _as_text(text)
    found = _cast(text, kind)
    if found is not None:
        return found
    looks = _looks_of(kind)
    if looks is not None:
        text = pc.if_else(pc.match_substring_regex(text, f"^(?:{looks})$"), text, pa.scalar(None, text.type))
    return _halved(text, kind)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        return array.cast(kind)
    except pa.ArrowException:  # it quotes the value
        return None


def _as_text(array: pa.Array) -> pa.Array:
    text = _cast(array, pa.string())
    return pa.array([_decoded(value) for value in array.to_pylist()], pa.string()) if text is None else text


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _halved(array: pa.Array, kind: pa.DataType) -> pa.Array:
    found = _cast(array, kind)
    if found is not None:
        return found
    if len(array) == 1:
        return pa.nulls(1, kind)
    middle = len(array) // 2
    return pa.concat_arrays([_halved(array[:middle], kind), _halved(array[middle:], kind)])


def _looks_of(kind: pa.DataType) -> str | None:
    """A regular expression of all text that Arrow converts, and of little more; None: not known."""
    if pa.types.is_boolean(kind):
        return "(?i)true|false|0|1"
    if pa.types.is_integer(kind):
        digits = len(str(1 << (kind.bit_width - pa.types.is_signed_integer(kind))))
        return f"-?0*[0-9]{{1,{digits}}}|0[xX][0-9a-fA-F]{{1,16}}"
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return r"(?i)[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan(?:\(.*\))?)"
    if pa.types.is_timestamp(kind):
        fraction = "" if kind.unit == "s" else rf"(?:\.[0-9]{{1,{_DIGITS[kind.unit]}}})?"
        time = rf"[T ](?:[01][0-9]|2[0-3])(?::[0-5][0-9](?::[0-5][0-9]{fraction})?)?"
        return f"{_DATE}(?:{time})?" if kind.tz is None else f"{_DATE}{time}(?:Z|[+-][0-9:]{{2,5}})"
    return None


_DIGITS = {"ms": 3, "us": 6, "ns": 9}
_DATE = (
    "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"
    "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|[12][0-9]))"
)
