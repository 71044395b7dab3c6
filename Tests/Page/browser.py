"""Chromium without a window, driven by its DevTools protocol over two pipes: Python's standard library is enough.

https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import json
import os
import select
import signal
import subprocess
import time


class Browser:
    """A browser with one page. Writes down what the page asks for, and what goes wrong in it."""

    patience = 30

    def __init__(self, executable, profile):
        to_browser, self._orders = os.pipe()
        self._answers, from_browser = os.pipe()

        options = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--disable-extensions",
                   "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
                   f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")
        # The browser reads orders from 3 and writes answers to 4.
        shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(["bash", "-c", shell, "browser", executable, *options, "about:blank"],
                                         pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL,
                                         start_new_session=True,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._rest = b""
        self._number = 0
        self._session = None
        self.requests, self.problems = [], []
        target = self.order("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.order("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.order(f"{domain}.enable")

    def close(self):
        # With the processes of its own, which write to the profile's folder.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def order(self, method, **parameters):
        """Sends an order and returns what it gives."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._orders, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.patience
        while True:
            answer = self._next(deadline)
            if answer is None:
                raise TimeoutError(f"the browser does not answer {method}")
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._take(answer)

    def _next(self, deadline):
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                return None
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def _take(self, event):
        method, of = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(of["request"]["url"])
        elif method == "Network.loadingFailed" and not of.get("canceled"):
            self.problems.append(f"a request failed: {of.get('errorText')}")
        elif method == "Network.responseReceived" and of["response"]["status"] >= 400:
            self.problems.append(f"{of['response']['url']} answers {of['response']['status']}")
        elif method == "Runtime.exceptionThrown":
            details = of["exceptionDetails"]
            self.problems.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
        elif method == "Runtime.consoleAPICalled" and of["type"] in ("error", "warning", "assert"):
            self.problems.append(f"console: {[value.get('value') for value in of['args']]}")
        elif method == "Log.entryAdded" and of["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"log: {of['entry']['text']} {of['entry'].get('url', '')}")

    def run(self, script, *values):
        """Runs the body of a function in the page, with values as `values`, and returns what it returns."""
        result = self.order(
            "Runtime.evaluate", expression=f"(async (values) => {{ {script} }})({json.dumps(values)})", awaitPromise=True,
            returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def wait(self, what, script, *values):
        """Waits until a script gives something that is true, and returns it."""
        deadline = time.monotonic() + self.patience
        while True:
            found = self.run(script, *values)
            if found:
                return found
            if time.monotonic() > deadline:
                text = self.run("return document.body.innerText")
                raise TimeoutError(f"after {self.patience} s still not: {what}. The page shows:\n{text}")
            time.sleep(0.05)

    def press(self, key, code, character=None):
        """Presses a key, as a person does."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.order("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": character} if character else {}))
        self.order("Input.dispatchKeyEvent", type="keyUp", **common)

    def shoot(self, path):
        """Writes a picture of the whole page."""
        picture = self.order("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture))
