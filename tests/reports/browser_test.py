# SPDX-License-Identifier: Apache-2.0
"""Loads every sample report in headless Chromium, over the DevTools pipe, and measures it.

    browser_test.py WRITE_SAMPLES [SCREENSHOT_FOLDER]

For each page at phone and desktop width, light and dark: no console message, no request but the page itself, no
horizontal overflow, text contrast of at least 4.5:1, one h1, headings in order, tables with headers, nothing injected.
Exit code 77, with the reason, when there is no Chromium.
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
    "stress_shared_buffer": ["FAIL", "race.async", "state_tiles", "gla_decode_kernels.cuh:214", "tile 1 \u2190 tile 3",
                             "99.60 %", "faultline replay fl1.", "9f2c41d07be3a815", "buffer 1", "model"],
    "stress_clean": ["PASS", "<= 0.60 %", "2,000 trials, none failed"],
    "verify_gemv": ["PASS", "output_rounding", "of bound"],
    "verify_stage_sentinel": ["FAIL", "systematic_offset", "x bound"],
    "verify_dropped_tail": ["FAIL", "tail", "wrong tile"],
    "verify_uncoalesced": ["PASS", "slow.uncoalesced", "16.0 x"],
    "cuda_stress": ["NVIDIA H200", "memory stress", "0.0014 %", "skipped", "overlap with the co-resident kernel not proven"],
    "bench_gemv": ["contaminated", "TB/s", "cublasGemmEx"],
    "unsupported": ["INCONCLUSIVE", "wgmma.mma_async"],
    "interrupted": ["INCONCLUSIVE", "Interrupted"],
    "deadlock": ["FAIL", "hang", "warp 7 waits"],
    "hostile": ["<script>document.title='owned'</script>", "[U+001B]", "[U+202E]"],
    "empty": ["INCONCLUSIVE"],
}

MEASURE = r"""(() => {
  const problems = [];
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) {
    const wide = [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, pre, svg') &&
      e.getBoundingClientRect().right > innerWidth + 1);
    problems.push(`overflows by ${root.scrollWidth - innerWidth} px: ` +
      wide.slice(0, 3).map(e => e.tagName + '.' + e.className).join(', '));
  }
  if (document.querySelectorAll('h1').length !== 1) problems.push('not exactly one h1');
  let level = 0;
  for (const h of document.querySelectorAll('h1,h2,h3,h4')) {
    const next = +h.tagName[1];
    if (next > level + 1) problems.push(`heading level ${level} -> ${next} at "${h.textContent.slice(0, 40)}"`);
    level = next;
  }
  for (const table of document.querySelectorAll('table')) {
    if (!table.querySelector('th[scope]') && !table.classList.contains('tiles')) problems.push('table without headers');
  }
  for (const svg of document.querySelectorAll('svg')) {
    if (svg.getAttribute('aria-hidden') !== 'true' && !svg.getAttribute('aria-label')) problems.push('svg without a label');
  }
  for (const region of document.querySelectorAll('[role=region]')) {
    if (!region.getAttribute('aria-label') || region.tabIndex !== 0) problems.push('region without label or focus');
  }
  const elements = [...document.querySelectorAll('script, style, img, iframe, link, object, embed')].map(e => e.tagName);
  if (elements.sort().join() !== 'SCRIPT,STYLE') problems.push('elements: ' + elements);
  if (/owned/.test(document.title) && !/<script>/.test(document.title)) problems.push('script ran');
  for (const e of document.querySelectorAll('*')) {
    for (const a of e.attributes) if (/^on|^style$/.test(a.name)) problems.push(`attribute ${a.name}`);
  }
  const rgb = c => c.match(/[\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || ['SCRIPT', 'STYLE', 'TITLE', 'title'].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    const text = rgb(e.closest('svg') ? style.fill : style.color);
    let back = null;
    for (let p = e; p && !back; p = p.parentElement) {
      const c = rgb(getComputedStyle(p).backgroundColor);
      if (c.length < 4 || c[3] > 0) back = c;
    }
    const [hi, lo] = [light(text), light(back || [255, 255, 255])].sort((a, b) => b - a);
    const contrast = (hi + 0.05) / (lo + 0.05);
    const key = `${e.tagName}.${e.className.baseVal ?? e.className} ${text} on ${back}`;
    if (contrast < 4.5 && !seen.has(key)) { seen.add(key); problems.push(`contrast ${contrast.toFixed(2)}: ${key}`); }
  }
  return JSON.stringify({problems, text: document.body.innerText, details: document.body.textContent,
                         height: root.scrollHeight});
})()"""


class Browser:
    """Chromium with its DevTools on file descriptors 3 and 4: one JSON message each, ended by a zero byte."""

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
        if text not in measured["text"] and text not in measured["details"]:
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
        expression="(async () => { const b = document.querySelector('button[data-copy]'); if (b.hidden) return 'hidden';"
                   " b.click(); await new Promise(r => setTimeout(r, 300)); return b.textContent; })()")
    text = answer["result"].get("value")
    return [] if text in ("Copied", "Press Ctrl+C") else [f"copy button says {text!r}"]


def main():
    write_samples = sys.argv[1]
    shots = pathlib.Path(sys.argv[2]).absolute() if len(sys.argv) > 2 else None
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not chromium:
        print("skipped: no chromium, chromium-browser or google-chrome on the PATH")
        return SKIPPED
    started = time.monotonic()
    bad = 0
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        subprocess.run([write_samples, folder], check=True)
        pages = sorted(pathlib.Path(folder).glob("*.html"))
        if {page.stem for page in pages} != set(EXPECTED):
            print(f"samples and expectations differ: {set(EXPECTED) ^ {page.stem for page in pages}}")
            return 1
        browser = Browser(chromium, profile)
        try:
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                browser.call(f"{domain}.enable", session)
            for page in pages:
                for width in WIDTHS:
                    for scheme in ("light", "dark"):
                        for failure in check(browser, session, page, width, scheme, shots):
                            bad += 1
                            print(f"{page.stem} at {width} px, {scheme}: {failure}")
            for failure in check_copy(browser, session, pathlib.Path(folder) / "stress_shared_buffer.html"):
                bad += 1
                print(failure)
        finally:
            browser.close()
    print(f"{len(pages)} pages, {bad} failures, {time.monotonic() - started:.1f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
