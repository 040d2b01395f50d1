# SPDX-License-Identifier: Apache-2.0
"""Loads every sample report in headless Chromium, over the DevTools pipe, and measures it.

    browser_test.py WRITE_SAMPLES [SCREENSHOT_FOLDER]

For each page at phone and desktop width, light and dark: no console message, no request but the
page itself, and what measure_page.js looks at: horizontal overflow, text contrast of at least
4.5:1, headings, labels, nothing injected. Exit code 77, with the reason, without Chromium.
"""
import base64
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

WIDTHS = (390, 1280)
SKIPPED = 77

EXPECTED = {
    "stress_shared_buffer": ["FAIL", "race.async", "state_tiles", "gla_decode_kernels.cuh:214",
                             "tile 1 \u2190 tile 3", "99.60 %", "faultline replay fl1.",
                             "9f2c41d07be3a815", "buffer 1", "model"],
    "stress_clean": ["PASS", "<= 0.60 %", "2,000 trials, none failed"],
    "verify_gemv": ["PASS", "output_rounding", "of bound"],
    "verify_stage_sentinel": ["FAIL", "systematic_offset", "x bound"],
    "verify_dropped_tail": ["FAIL", "tail", "wrong tile"],
    "verify_missing_term": ["FAIL", "missing_term", "first divergence", "dw_cross", "Named terms",
                            "not visible with these inputs"],
    "verify_uncoalesced": ["PASS", "slow.uncoalesced", "16.0 x"],
    "cuda_stress": ["NVIDIA H200", "memory stress", "0.0014 %", "skipped",
                    "overlap with the co-resident kernel not proven"],
    "bench_gemv": ["contaminated", "TB/s", "cublasGemmEx"],
    "unsupported": ["INCONCLUSIVE", "wgmma.mma_async"],
    "interrupted": ["INCONCLUSIVE", "Interrupted"],
    "deadlock": ["FAIL", "hang", "warp 7 waits"],
    "mutants_gemv": ["FAIL", "2 of 3 mutants killed", "Kill matrix", "missing_barrier",
                     "race.shared", "mutation score 1 of 3"],
    "hostile": ["<script>document.title='owned'</script>", "[U+001B]", "[U+202E]"],
    "empty": ["INCONCLUSIVE"],
}

MEASURE = (pathlib.Path(__file__).parent / "measure_page.js").read_text()


class Browser:
    """Chromium with its DevTools on descriptors 3 and 4: JSON messages that end in a zero byte."""

    def __init__(self, executable, profile):
        # High numbers first, so that neither end lies where the other must go.
        ends = [os.pipe(), os.pipe()]
        to_browser, self._out = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends[0])
        self._in, from_browser = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends[1])
        for end in ends[0] + ends[1]:
            os.close(end)

        def place_descriptors():
            os.dup2(to_browser, 3)
            os.dup2(from_browser, 4)

        self._process = subprocess.Popen(
            [executable, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--hide-scrollbars", f"--user-data-dir={profile}",
             "--remote-debugging-pipe", "about:blank"],
            close_fds=False, preexec_fn=place_descriptors,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._next, self.events = b"", 0, []

    def _read(self):
        while b"\0" not in self._buffer:
            chunk = os.read(self._in, 1 << 16)
            if not chunk:
                raise RuntimeError("Chromium ended")
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self._next += 1
        message = {"id": self._next, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, session, page):
        """Returns when the page is loaded; `events` then holds what happened since."""
        self.events = []
        self.call("Page.navigate", session, url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def close(self):
        try:
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        self._process.wait(timeout=20)


def check(browser, session, page, width, scheme, shots):
    failures = []
    browser.call("Emulation.setDeviceMetricsOverride", session, width=width, height=900,
                 deviceScaleFactor=1, mobile=width < 600)
    browser.call("Emulation.setEmulatedMedia", session,
                 features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.open(session, page)
    answer = browser.call("Runtime.evaluate", session, expression=MEASURE)["result"]
    if "value" not in answer:
        return [f"cannot measure: {answer}"]
    measured = json.loads(answer["value"])
    failures += measured["problems"]
    for text in EXPECTED[page.stem]:
        if text not in measured["text"]:
            failures.append(f"text not found: {text}")
    for event in browser.events:
        method, params = event.get("method"), event.get("params", {})
        if method == "Log.entryAdded":
            failures.append(f"console: {params['entry']['text']}")
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            failures.append(f"{method}: {params}")
        elif method == "Network.requestWillBeSent" and params["request"]["url"] != page.as_uri():
            failures.append(f"request: {params['request']['url']}")
    if shots:
        image = browser.call("Page.captureScreenshot", session, captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": width, "height": min(measured["height"], 6000), "scale": 1})
        (shots / f"{page.stem}.{width}.{scheme}.png").write_bytes(base64.b64decode(image["data"]))
    return failures


def check_copy(browser, session, page):
    """The copy button is there, and says so when it was pressed."""
    browser.open(session, page)
    answer = browser.call(
        "Runtime.evaluate", session, awaitPromise=True, userGesture=True,
        expression="""(async () => {
            const button = document.querySelector('button[data-copy]');
            if (button.hidden) return 'hidden';
            button.click();
            await new Promise(resolve => setTimeout(resolve, 300));
            return button.textContent;
        })()""")
    text = answer["result"].get("value")
    return [] if text in ("Copied", "Press Ctrl+C") else [f"copy button says {text!r}"]


def main():
    write_samples = sys.argv[1]
    shots = pathlib.Path(sys.argv[2]).absolute() if len(sys.argv) > 2 else None
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if not chromium:
        print(f"skipped: none of {', '.join(names)} is on the PATH")
        return SKIPPED
    started = time.monotonic()
    bad = 0
    with (tempfile.TemporaryDirectory() as folder,
          tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile):
        subprocess.run([write_samples, folder], check=True)
        pages = sorted(pathlib.Path(folder).glob("*.html"))
        unmatched = {page.stem for page in pages} ^ set(EXPECTED)
        if unmatched:
            print(f"samples and expectations differ: {unmatched}")
            return 1
        browser = Browser(chromium, profile)
        try:
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            session = browser.call("Target.attachToTarget", targetId=target,
                                   flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                browser.call(f"{domain}.enable", session)
            for page in pages:
                for width in WIDTHS:
                    for scheme in ("light", "dark"):
                        for failure in check(browser, session, page, width, scheme, shots):
                            bad += 1
                            print(f"{page.stem} at {width} px, {scheme}: {failure}")
            page = pathlib.Path(folder) / "stress_shared_buffer.html"
            for failure in check_copy(browser, session, page):
                bad += 1
                print(failure)
        finally:
            browser.close()
    print(f"{len(pages)} pages, {bad} failures, {time.monotonic() - started:.1f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
