"""Public names that are imported when they are first used, so that a program loads what it needs and no more.

This is SPEC 1 of Scientific Python (https://scientific-python.org/specs/spec-0001), by PEP 562: a module lists its
names in a stub beside it. Type checkers and editors read the stub too, so each name has a single line.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def attach(module: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a module, from the imports in the stub beside its file.

    ``__all__`` is that of the stub; or if it has none, all names that it imports.
    """
    loader: Any = getattr(sys.modules[module], "__loader__", None)  # (it reads from a zip archive, too)
    stub = ast.parse(loader.get_data(f"{os.path.splitext(file)[0]}.pyi"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    places = {name.asname or name.name: (node.module or "", name.name) for node in imports for name in node.names}
    lists = [ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign)]
    public = lists[0] if lists else list(places)

    def __getattr__(name: str) -> Any:  # noqa: N807 (Python's own name for it)
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        source, own_name = places[name]
        found = import_module(source)
        value = getattr(found, own_name) if hasattr(found, own_name) else import_module(f"{source}.{own_name}")
        setattr(sys.modules[module], name, value)  # Python looks here first, so this function is called once a name
        return value

    def __dir__() -> list[str]:  # noqa: N807
        return sorted({*vars(sys.modules[module]), *places})

    return __getattr__, __dir__, public
