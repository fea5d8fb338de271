"""Values that must be nowhere, and where to look for them."""

import traceback

SECRET = "xyzzy-7041776"
NUMBER = 704177604177
TRACES = (SECRET, str(NUMBER), f"{NUMBER:,}", "7041776")


def everything_about(error):
    """Messages, reprs and arguments of an exception, its causes and contexts, and the local variables' names only."""
    seen = []
    while error is not None:
        seen += [str(error), repr(error), repr(error.args), *traceback.format_exception(error)]
        seen += getattr(error, "__notes__", [])
        error = error.__cause__ or error.__context__
    return "\n".join(seen)


def assert_clean(text):
    assert not any(trace in text for trace in TRACES)
