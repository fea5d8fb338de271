"""A headless Chromium, driven over a pipe by the Chrome DevTools protocol: the standard library is enough for it.

https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections import deque

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 30.0
KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Tab": 9, "Enter": 13}


def found() -> str | None:
    """The browser: that of LDP_BROWSER, or one on the path."""
    return os.environ.get("LDP_BROWSER") or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """Chromium, until the ``with`` block ends."""

    def __init__(self, path, profile):
        ours, theirs = os.pipe(), os.pipe()  # (from, to) of what we send; of what it says
        self._to, self._from = ours[1], theirs[0]
        command = [path, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        command += ["--disable-background-networking", "--disable-dev-shm-usage", "--force-color-profile=srgb"]
        command += ["--hide-scrollbars", f"--user-data-dir={profile}", "about:blank"]
        read, write = ours[0], theirs[1]
        shell = f'exec 3<&{read} 4>&{write}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "chromium", *command],
            pass_fds=(read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._rest, self._messages, self._number = b"", deque(), 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.send("Browser.close")
            self._process.wait(10)
        except (OSError, RuntimeError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(10)
        os.close(self._to)
        os.close(self._from)

    def receive(self, until):
        """The next message, or None after the time ``until``."""
        while not self._messages:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                return None
            data = os.read(self._from, 1 << 16)
            if not data:
                raise RuntimeError("the browser has ended")
            *whole, self._rest = (self._rest + data).split(b"\0")
            self._messages.extend(json.loads(text) for text in whole)
        return self._messages.popleft()

    def send(self, method, session=None, on_event=lambda _: None, **params):
        """Call a method of the protocol, and wait for its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while (answer := self.receive(until)) is not None:
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            on_event(answer)
        raise TimeoutError(method)

    def page(self, url, **options):
        return Page(self, url, **options)


class Page:
    """A page, what it has asked for, and what it has complained of.

    Args:
        browser: an open one.
        url: to open.
        width, height: of the window, in pixels.
        dark: whether the user prefers dark colors.
        mobile: whether it is a phone.
    """

    def __init__(self, browser, url, *, width=1100, height=900, dark=False, mobile=False, scale=1):
        self._browser = browser
        self.requests, self.complaints = [], []
        target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.resize(width, height, mobile=mobile, scale=scale)
        self.media("screen", dark=dark)
        self.requests.clear()
        self.send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def send(self, method, **params):
        return self._browser.send(method, self._session, self._note, **params)

    def _note(self, event):
        if event.get("sessionId") != self._session:
            return
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])

    def run(self, code):
        """The value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition, seconds=PATIENCE):
        until = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < until, f"never: {condition}"
            time.sleep(0.02)

    def key(self, name):
        code = {"key": name, "code": name, "windowsVirtualKeyCode": KEYS[name]}
        self.send("Input.dispatchKeyEvent", type="rawKeyDown", **code)
        self.send("Input.dispatchKeyEvent", type="keyUp", **code)

    def resize(self, width, height, *, mobile=False, scale=1):
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": mobile}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def media(self, kind, *, dark=False):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=kind, features=[scheme])

    def pdf(self):
        """What comes out of a printer."""
        self.media("")
        return base64.b64decode(self.send("Page.printToPDF", printBackground=False)["data"])
