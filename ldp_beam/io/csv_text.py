"""Columns of CSV files as the text that they hold."""

from __future__ import annotations

import pyarrow as pa
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
