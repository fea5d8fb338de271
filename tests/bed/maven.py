"""What Maven builds or fetches once, and is cached."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ldp_core import InputError

_SECONDS = 1800


def cache() -> Path:
    """The folder of this library in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ldp-telemetry"


def program(name: str, what: str) -> str:
    """Where a program is."""
    found = shutil.which(name)
    if found is None:
        remedy = {
            "java": "install Java 11 or later",
            "mvn": "install Maven (it is needed once)",
            "git": "install Git (it is needed once)",
        }[name]
        raise InputError(f"the program {name!r} is not on the PATH; {what} needs it: {remedy}")
    return found


def made(kept: Path, name: str, goals: Sequence[str], put: Callable[[Path], object], what: str) -> Path:
    """Run Maven in a new folder, and keep one thing that it makes there."""
    maven = program("mvn", what)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=kept.parent, prefix="building-")
    except OSError as error:
        raise InputError(f"cannot write to {kept.parent}: {error.strerror}; XDG_CACHE_HOME names another") from None
    with scratch as folder:
        put(Path(folder))
        command = [maven, "-q", "-B", *goals]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise InputError(f"Maven has not made {kept.name} in {_SECONDS} s; is Maven Central reached?") from None
        if done.returncode:
            said = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")] or ["nothing"]
            raise InputError(
                f"Maven cannot make {kept.name}. It needs a JDK, and Maven Central or a mirror of it that "
                f"~/.m2/settings.xml names, not 'offline'. It says: {' '.join(said[:2])}"
            )
        with suppress(OSError):  # another process was faster
            (Path(folder) / name).rename(kept)
    return kept
