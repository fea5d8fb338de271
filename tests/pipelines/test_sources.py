"""The files of a job."""

from __future__ import annotations

from pathlib import Path

from pipelines.sources import match_files


def test_a_pattern_without_a_folder_finds_the_files_that_are_here(tmp_path, monkeypatch):
    (tmp_path / "a.ndjson").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert [Path(path).name for path in match_files(["*.ndjson"])] == ["a.ndjson"]
    assert match_files(["a.ndjson"]) == ["a.ndjson"]
