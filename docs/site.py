"""Makes the site of the pages of docs/, with Zensical: `python docs/site.py`, or `--serve` to look at it.

The pages themselves are read on code hosts too. The site adds:

* CHANGELOG.md, CONTRIBUTING.md and SECURITY.md, which are beside docs/, are pages as well.
* The page of examples has the files of examples/ below. The notebooks are pages.
* A picture is light or dark as the reader has set the site, not only as the browser asks.
* docs/api.md lists every public name. Here each has its whole documentation, on a page for each package, and its name
  leads there.
* The planner is a page, to which docs/report.md leads.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import griffe

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
_NOTEBOOK = re.compile(r"\]\(\.\./examples/notebooks/(\w+)\.ipynb\)")
_STYLED = re.compile(r"<style.*?</style>|<small>.*?</small>| border=\"1\" class=\"dataframe\"", re.DOTALL)  # of Polars


def _packages() -> dict[str, str]:
    index = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", index, re.DOTALL | re.MULTILINE))


def write_sources(to: Path) -> Path:
    """Write all that the site is made from into a folder: the path of its configuration."""
    docs = to / "docs"
    shutil.rmtree(docs, ignore_errors=True)
    shutil.copytree(ROOT / "docs", docs, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name, page in BESIDE.items():
        (docs / page).write_text((ROOT / name).read_text(encoding="utf-8").replace("](docs/", "]("), encoding="utf-8")
    for package, groups in _packages().items():
        parts = [f"# {package}\n"]
        for title, lines in re.findall(r"^### (.*?)\n(.*?)(?=^### |\Z)", groups, re.DOTALL | re.MULTILINE):
            names = _NAME.findall("".join(_NAMES.findall(lines)))
            parts += [f"## {title}\n", *(f"::: {package}.{name}\n{_OPTIONS.get(name, '')}" for name in names)]
        (docs / f"api-{package}.md").write_text("\n".join(parts), encoding="utf-8")
    for notebook in (ROOT / "examples" / "notebooks").glob("*.ipynb"):
        _write_notebook(notebook, docs)
    for page in docs.glob("*.md"):
        page.write_text(_on_the_site(page.name, page.read_text(encoding="utf-8")), encoding="utf-8")
    (docs / "planner.html").write_text(planner_page(docs="report.html#the-planner"), encoding="utf-8")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    each = "".join(f"      - {package}: api-{package}.md\n" for package in _packages())
    for own, there in (("      - api.md\n", f"      - api.md\n{each}"), ("paths: [.]", f"paths: ['{ROOT}']")):
        config = config.replace(own, there)
    config = config.replace("docs/site.py:Examples", f"{ROOT / 'docs' / 'site.py'}:Examples")
    placed = re.findall(r"\S+\.md$", config, re.MULTILINE)
    if homeless := sorted({page.name for page in docs.glob("*.md")} - {*placed}):
        sys.exit(f"pages without a place in mkdocs.yml: {homeless}")
    (to / "mkdocs.yml").write_text(config, encoding="utf-8")
    return to / "mkdocs.yml"


def _write_notebook(notebook: Path, docs: Path) -> None:
    """Write a notebook as a page, and its pictures beside those of the pages."""
    parts = []
    for k, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        parts.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source.replace("../../docs/", ""))
        for output in cell.get("outputs", ()):
            forms = {kind: "".join(lines) for kind, lines in output.get("data", {}).items()}
            if svg := forms.get("image/svg+xml"):
                picture = f"pictures/notebook-{notebook.stem}-{k}.svg"
                (docs / picture).write_text(svg, encoding="utf-8")
                parts.append(f"![what the code above draws]({picture})")
            elif html := forms.get("text/html"):
                parts.append(_STYLED.sub("", html))
            else:
                parts.append(f"```text\n{''.join(output['text'])}```")
    (docs / f"notebook-{notebook.stem}.md").write_text("\n\n".join([*parts, ""]), encoding="utf-8")


def _on_the_site(name: str, markdown: str) -> str:
    """Pages that lie elsewhere, pictures, and the index of names."""
    for beside, other in BESIDE.items():
        markdown = markdown.replace(f"](../{beside}", f"]({other}").replace(f"]({beside}", f"]({other}")
    if name == "report.md":
        markdown = markdown.replace("The planner answers", "The [planner](planner.html) answers")
    if name == "examples.md":
        for example in _EXAMPLE.findall(markdown):
            code = (ROOT / "examples" / f"{example}.py").read_text(encoding="utf-8")
            markdown += f"\n## {example}.py {{#{example}}}\n\n```python\n{code}```\n"
        markdown = _NOTEBOOK.sub(r"](notebook-\1.md)", _EXAMPLE.sub(r"](#\1)", markdown))
    if name == "api.md":
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help="show it at an address of this machine")
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "site", help="a folder; the site is in its site/")
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    how = ["serve"] if given.serve else ["build", "--strict", "--clean"]
    made = write_sources(given.to.resolve())
    sys.exit(subprocess.run([sys.executable, "-m", "zensical", *how, "-f", made], check=False).returncode)  # noqa: S603 (our own words)
