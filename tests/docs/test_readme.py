"""What the README says can be copied, runs."""

import re
from pathlib import Path

from ..cases import each

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


@each("name", ["polars", "beam"])
def test_example_runs_and_prints_what_is_shown_but_for_the_noise(name, capsys, caplog):
    block = re.search(rf"<!-- example: {name} -->\n```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
    code, shown = block.groups()
    assert len(code.strip().splitlines()) <= 10
    exec(compile(code, f"README.md ({name})", "exec"), {})
    printed = capsys.readouterr().out
    assert caplog.messages == [], "the first thing that a reader sees is no warning"
    assert sorted(without_noise(printed)) == sorted(without_noise(shown))


def without_noise(text: str) -> list[str]:
    """Its lines without their numbers, noisy bits and spaces."""
    return [_without_noise(line) for line in text.splitlines()]


def _without_noise(line: str) -> str:
    date = re.match(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}", line)
    rest = line[date.end() :] if date else line
    bare = re.sub(r"-?\d[\d,]*(\.\d+)?|[\s─═]+", "", re.sub(r"\[(true|false).*\]", "[bits]", rest))
    return (date[0] if date else "") + bare


def test_two_commands_each_one_line():
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 2
    assert all(block.count("\n") == 1 for block in blocks)
