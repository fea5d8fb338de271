"""Secrets do not show, and leave a process only if they are told to."""

from __future__ import annotations

import copy
import pickle

import pytest

from ldp_core import Secret


def test_a_secret_does_not_show_or_leave(tmp_path, monkeypatch):
    secret = Secret.generate()
    assert repr(secret) == str(secret) == "Secret(...)"
    assert secret != Secret.generate()
    assert len({secret, Secret.generate()}) == 2
    with pytest.raises(TypeError, match="shared"):
        pickle.dumps(secret)
    with pytest.raises(TypeError, match="shared"):
        copy.deepcopy(secret)
    again = pickle.loads(pickle.dumps(secret.shared()))
    assert again == secret
    assert pickle.loads(pickle.dumps(again)) == secret
    (tmp_path / "secret").write_bytes(bytes(range(40)))
    assert Secret.from_file(tmp_path / "secret") == Secret(bytes(range(40)))
    monkeypatch.setenv("LDP_SECRET", bytes(range(16)).hex())
    assert Secret.from_env("LDP_SECRET") == Secret(bytes(range(16)))
