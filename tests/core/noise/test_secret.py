"""Secrets do not show, leave a process only if they are told to, and have one form as text."""

import copy
import hmac
import os
import pickle

import pytest

from ldp_core import ParameterError, Secret

from ...cases import each


def test_a_secret_does_not_show_or_leave():
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


KEY = bytes(range(32))
FORMS = {
    "plain": KEY.hex(),
    "line": KEY.hex() + "\n",
    "windows": KEY.hex() + "\r\n",
    "upper": KEY.hex().upper(),
    "around": f" \t{KEY.hex()}  \n\n",
}


@each("form", FORMS)
def test_one_form_in_files_variables_and_vaults(form, tmp_path, monkeypatch):
    """In a file its bytes were the secret, digits and line break included, and another one than in a variable."""
    text = FORMS[form]
    (tmp_path / "secret").write_text(text, newline="")
    monkeypatch.setenv("LDP_SECRET", text)
    for secret in (
        Secret.from_file(tmp_path / "secret"),
        Secret.from_file(str(tmp_path / "secret")),
        Secret.from_env("LDP_SECRET"),
        Secret.from_hex(text),
        Secret.from_hex(text.encode()),
    ):
        assert secret == Secret(KEY)
        assert secret.fingerprint == Secret(KEY).fingerprint
        assert secret.to_hex() == KEY.hex()


BAD = {
    "raw bytes": KEY,
    "raw bytes and a line": KEY + b"\n",
    "nothing": b"",
    "short": b"ab" * 15,
    "odd": b"ab" * 16 + b"c",
    "within": b"ab" * 16 + b" " + b"ab" * 16,
    "two lines": b"ab" * 16 + b"\n" + b"ab" * 16,
    "prefix": b"0x" + b"ab" * 16,
    "mark": b"\xef\xbb\xbf" + b"ab" * 16,
    "utf-16": ("ab" * 16).encode("utf-16"),
    "other digits": ("\u0661\u0662" * 32).encode(),
    "a space that is none in ASCII": ("ab" * 16 + "\u00a0").encode("latin1"),
    "long": b"ab" * 2049,
    "padded": b"ab" * 16 + b" " * 5000,
}


@each("name", BAD)
def test_what_is_not_the_form_is_refused_and_not_quoted(name, tmp_path, monkeypatch):
    data = BAD[name]
    (tmp_path / "secret").write_bytes(data)
    made = [lambda: Secret.from_file(tmp_path / "secret"), lambda: Secret.from_hex(data)]
    if b"\0" not in data:
        monkeypatch.setenv("LDP_SECRET", data.decode("latin1"))
        made += [lambda: Secret.from_env("LDP_SECRET"), lambda: Secret.from_hex(data.decode("latin1"))]
    for make in made:
        with pytest.raises(ParameterError, match="32 to 2048 hexadecimal digits") as caught:
            make()
        assert "abab" not in str(caught.value)
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_digits_are_not_taken_for_bytes():
    for text in (KEY.hex().encode(), KEY.hex().encode() + b"\n"):
        with pytest.raises(ParameterError, match=r"use Secret.from_hex"):
            Secret(text)
    with pytest.raises(ParameterError, match="a str or bytes, got int"):
        Secret.from_hex(5)
    assert Secret(KEY.hex().encode()[:-1] + b"g") != Secret(KEY)


def test_a_new_secret_goes_to_a_new_file_of_its_owner(tmp_path):
    secret, path = Secret.generate(), tmp_path / "secret"
    secret.to_file(path)
    assert path.read_bytes() == secret.to_hex().encode() + b"\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert Secret.from_file(path) == secret
    for again in (secret, Secret.generate()):
        with pytest.raises(ParameterError, match=r"cannot write the secret file .*exists"):
            again.to_file(path)
    assert Secret.from_file(path) == secret
    with pytest.raises(ParameterError, match="cannot write"):
        secret.to_file(tmp_path / "nowhere" / "secret")
    for write in (Secret.from_seed(1).to_hex, lambda: Secret.from_seed(1).to_file(tmp_path / "seed")):
        with pytest.raises(ParameterError, match="keep the seed"):
            write()

    longest = Secret(os.urandom(1024))
    longest.to_file(tmp_path / "longest")
    assert Secret.from_file(tmp_path / "longest") == Secret.from_hex(longest.to_hex()) == longest
    with pytest.raises(ParameterError, match="at most 1024"):
        Secret(os.urandom(1025))


def test_the_fingerprint_is_that_of_its_description():
    label = len(b"fingerprint").to_bytes(8, "big") + b"fingerprint"
    for key in (KEY, bytes(16), KEY * 3):
        expected = hmac.digest(key, label, "sha256")[:8].hex()
        assert Secret(key).fingerprint == Secret(key).shared().fingerprint == expected
    assert len({Secret.generate().fingerprint for _ in range(100)}) == 100
    assert KEY.hex() not in Secret(KEY).fingerprint
