"""What the site adds to the pages: mkdocs calls it, see mkdocs.yml. The pages themselves are read on code hosts too.

* CHANGELOG.md, CONTRIBUTING.md and SECURITY.md, which are beside docs/, are pages as well.
* The page of examples has the files of examples/ below.
* A picture is light or dark as the reader has set the site, not only as the browser asks.
* docs/api.md lists every public name. Here each has its whole documentation, on a page for each package, and its name
  leads there.
* The planner is a page, to which docs/report.md leads.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

from ldp_report import planner_page

ROOT = Path(__file__).parents[1]
BESIDE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
_PICTURE = re.compile(r'<picture>\n<source [^\n]*>\n<img alt="([^"]*)" src="([^"]+)\.svg">\n</picture>')
_DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
_NAMES = re.compile(r"^`\w+`(?:, `\w+`)*\.", re.MULTILINE)  # of a group: a line
_NAME = re.compile(r"`(\w+)`")
# A class in several files.
_OPTIONS = dict.fromkeys(("Mechanism", "PrivacyPlan"), "    options: {inherited_members: true}\n")
_EXAMPLE = re.compile(r"\]\(\.\./examples/(\w+)\.py\)")


def _packages() -> dict[str, str]:
    """What docs/api.md lists of each package."""
    index = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", index, re.DOTALL | re.MULTILINE))


def on_config(config: Any) -> Any:
    """A place for the page of each package."""
    [section] = [entry for entry in config.nav if isinstance(entry, dict) and "API" in entry]
    section["API"] = ["api.md", *({package: f"api-{package}.md"} for package in _packages())]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    for name, page in BESIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    for package, groups in _packages().items():
        parts = [f"# {package}\n"]
        for title, lines in re.findall(r"^### (.*?)\n(.*?)(?=^### |\Z)", groups, re.DOTALL | re.MULTILINE):
            names = _NAME.findall("".join(_NAMES.findall(lines)))
            parts += [f"## {title}\n", *(f"::: {package}.{name}\n{_OPTIONS.get(name, '')}" for name in names)]
        files.append(File.generated(config, f"api-{package}.md", content="\n".join(parts)))
    files.append(File.generated(config, "planner.html", content=planner_page(docs="report.html#the-planner")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Pages that lie elsewhere, pictures, and the index of names."""
    for name, other in BESIDE.items():
        markdown = markdown.replace(f"](../{name}", f"]({other}").replace(f"]({name}", f"]({other}")
    if page.file.src_uri == "report.md":
        markdown = markdown.replace("The planner answers", "The [planner](planner.html) answers")
    if page.file.src_uri == "examples.md":
        for name in _EXAMPLE.findall(markdown):
            code = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
            markdown += f"\n## {name}.py {{#{name}}}\n\n```python\n{code}```\n"
        markdown = _EXAMPLE.sub(r"](#\1)", markdown)
    if page.file.src_uri == "api.md":
        parts = re.split(r"^## (\S+)$", markdown, flags=re.MULTILINE)
        for at in range(1, len(parts), 2):
            package = parts[at]
            parts[at] = f"## [{package}](api-{package}.md)"
            linked = rf"[`\1`][{package}.\1]"
            parts[at + 1] = _NAMES.sub(lambda names, linked=linked: _NAME.sub(linked, names[0]), parts[at + 1])
        markdown = "".join(parts)
    return _PICTURE.sub(r"![\1](\2.svg#only-light)\n![\1](\2-dark.svg#only-dark)", markdown)


class Examples(griffe.Extension):
    """The examples of docstrings are blocks of code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for everything that may have a docstring."""
        if obj.docstring:
            obj.docstring.value = _DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
