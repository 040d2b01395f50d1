# SPDX-License-Identifier: Apache-2.0
"""Loads every sample report in headless Chromium, over the DevTools pipe, and measures it.

    browser_test.py WRITE_SAMPLES [SCREENSHOT_FOLDER]

For each page, narrow, usual and wide, light and dark: no console message, no request but the page
itself, and what measure_page.js looks at: horizontal overflow, text contrast of at least 4.5:1,
landmarks, headings, names, captions, nothing injected. Then what the script does, with keys and
mouse: maps, trials one by one, theme, copying, printing; and how long the largest page takes.
FAULTLINE_AXE=axe.min.js runs axe-core (deque.com/axe) on each page too. Exit code 77, with the
reason, without Chromium.
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

VIEWS = ((390, "light"), (390, "dark"), (1280, "light"), (1280, "dark"), (2560, "light"),
         (2560, "dark"))
TEST_VIEWS = VIEWS[:1] + VIEWS[3:5]  # each width and each theme; screenshots are of all
RENDERED_WITHIN_MS = 2000  # the page of 100,000 trials
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
    "interrupted": ["INCONCLUSIVE", "Cut short"],
    "deadlock": ["FAIL", "hang", "warp 7 waits"],
    "mutants_gemv": ["FAIL", "2 of 3 mutants killed", "Kill matrix", "missing_barrier",
                     "race.shared", "mutation score 1 of 3"],
    "stress_large": ["FAIL", "100,000", "more are in the JSON record"],
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

    def evaluate(self, session, expression):
        """The value of JavaScript, awaited."""
        answer = self.call("Runtime.evaluate", session, expression=expression, awaitPromise=True,
                           returnByValue=True, userGesture=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def key(self, session, key, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", session, type=kind, key=key, text=text)

    def mouse(self, session, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", session, type=kind, x=x, y=y, **more)

    def close(self):
        try:
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        self._process.wait(timeout=20)


def messages(browser, page):
    """What the page should not have done since it was opened."""
    for event in browser.events:
        method, params = event.get("method"), event.get("params", {})
        if method == "Log.entryAdded":
            yield f"console: {params['entry']['text']}"
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            yield f"{method}: {params}"
        elif method == "Network.requestWillBeSent" and params["request"]["url"] != page.as_uri():
            yield f"request: {params['request']['url']}"


def set_view(browser, session, width, scheme, motion="no-preference", height=900):
    browser.call("Emulation.setDeviceMetricsOverride", session, width=width, height=height,
                 deviceScaleFactor=1, mobile=width < 600)
    browser.call("Emulation.setEmulatedMedia", session,
                 features=[{"name": "prefers-color-scheme", "value": scheme},
                           {"name": "prefers-reduced-motion", "value": motion}])


def axe_failures(browser, session):
    """What axe-core finds in a page that is drawn as a whole."""
    path = os.environ.get("FAULTLINE_AXE")
    if not path:
        return []
    # The page's policy admits no script of others; the debugger is not bound by it.
    browser.evaluate(session, pathlib.Path(path).read_text() + "; 0")
    found = json.loads(browser.evaluate(session, """axe.run(document).then(r => JSON.stringify(
        r.violations.map(v => `${v.id} (${v.impact}): ${v.help}: ` +
            v.nodes.slice(0, 3).map(n => n.html.slice(0, 120)).join(' | '))))"""))
    return [f"axe: {violation}" for violation in found]


def check(browser, session, page, width, scheme, shots):
    set_view(browser, session, width, scheme)
    browser.open(session, page)
    measured = json.loads(browser.evaluate(session, MEASURE))
    failures = list(measured["problems"])
    for text in EXPECTED[page.stem]:
        if text not in measured["text"]:
            failures.append(f"text not found: {text}")
    if shots or "FAULTLINE_AXE" in os.environ:
        # A window as high as the page: what lies below a window is not drawn.
        for _ in range(2):  # drawn, it may be higher than it was thought to be
            height = browser.evaluate(session, "document.documentElement.scrollHeight")
            set_view(browser, session, width, scheme, height=min(height, 16000))
            browser.evaluate(session, "new Promise(resolve => setTimeout(resolve, 50))")
    failures += axe_failures(browser, session)
    failures += messages(browser, page)
    if shots:
        image = browser.call("Page.captureScreenshot", session)
        (shots / f"{page.stem}.{width}.{scheme}.png").write_bytes(base64.b64decode(image["data"]))
    return failures


class Expectations:
    """Collects what was not as it should be."""

    def __init__(self):
        self.failures = []

    def equal(self, what, got, want):
        if got != want:
            self.failures.append(f"{what}: {got!r} instead of {want!r}")

    def contains(self, what, got, want):
        if want not in (got or ""):
            self.failures.append(f"{what}: {want!r} is not in {got!r}")


READOUT = "document.querySelectorAll('figure .readout')[%d].textContent"


def check_maps(browser, session, page):
    """Figures of the squares under the pointer and under the focus; zoom by button, key, wheel."""
    expect = Expectations()
    set_view(browser, session, 1280, "light")
    browser.open(session, page)

    def ask(text):
        return browser.evaluate(session, text)
    # The second map is new_state, of two buffers and two rounds: its squares are tiles 0, 2, 1, 3.
    table = "document.querySelectorAll('table.map')[1]"
    level = f"{table}.className"
    expect.contains("at first", ask(READOUT % 1), "wrong elements")

    def place_of_a_square():
        return json.loads(ask(f"""(() => {{
            {table}.scrollIntoView({{block: 'center'}});
            const box = {table}.querySelectorAll('td')[2].getBoundingClientRect();
            return JSON.stringify([box.x + box.width / 2, box.y + box.height / 2]); }})()"""))
    square = place_of_a_square()
    browser.mouse(session, "mouseMoved", *square)
    for part in ("tile 1: wrong in 783 of 2,000 trials", "501,120 wrong elements",
                 "worst 41.3 x bound", "(124 ulps)", "first at element 1024",
                 "held tile 3's data in 99.60 %"):
        expect.contains("under the pointer", ask(READOUT % 1), part)
    ask(f"{table}.querySelectorAll('td')[0].click()")
    expect.contains("with the focus", ask(READOUT % 1), "tile 0: wrong in 14 of 2,000 trials")
    for key, tile in (("ArrowRight", 2), ("ArrowDown", 3), ("ArrowLeft", 1), ("ArrowUp", 0),
                      ("End", 2), ("Home", 0)):
        browser.key(session, key)
        expect.contains(key, ask("document.activeElement.getAttribute('aria-label')"),
                        f"tile {tile}:")
        expect.contains(key, ask(READOUT % 1), f"tile {tile}:")
    expect.equal("squares in the tab order", ask(f"{table}.querySelectorAll('[tabindex=\"0\"]')"
                                                 ".length"), 1)
    expect.equal("level", ask(level), "map z4")
    browser.key(session, "+", "+")
    expect.equal("+", ask(level), "map z5")
    expect.contains("text of a square", ask(f"{table}.querySelectorAll('td')[2].innerText"),
                    "501,120 wrong, 41.3 x bound")
    browser.key(session, "-", "-")
    browser.key(session, "-", "-")
    expect.equal("- -", ask(level), "map z3")
    browser.key(session, "0", "0")
    expect.equal("0", ask(level), "map z4")
    browser.mouse(session, "mouseWheel", *square, deltaX=0, deltaY=120)
    turned = """(async () => {{
        for (let i = 0; i < 40 && scrollY === {0} && {1} === '{2}'; ++i)
            await new Promise(resolve => setTimeout(resolve, 50)); }})()"""
    at = ask("scrollY")
    ask(turned.format(at, level, "map z4"))
    expect.equal("wheel", ask(level), "map z3")
    expect.equal("the page at the wheel", ask("scrollY"), at)
    ask("document.activeElement.blur()")
    square = place_of_a_square()
    at = ask("scrollY")
    browser.mouse(session, "mouseWheel", *square, deltaX=0, deltaY=-120)
    ask(turned.format(at, level, "map z3"))
    expect.equal("wheel without the focus", ask(level), "map z3")
    for button, want in (("Zoom into", "map z4"), ("Zoom out of", "map z3"),
                         ("Original size of", "map z4")):
        ask(f"document.querySelector('button[aria-label=\"{button} new_state\"]').click()")
        expect.equal(button, ask(level), want)
    return expect.failures + list(messages(browser, page))


def check_large_ratios(browser, session, page):
    """Numbers with a comma, of squares and of what they say when they are large."""
    expect = Expectations()
    browser.open(session, page)
    browser.evaluate(session, "document.querySelector('.map td').click()")
    expect.equal("under the focus", browser.evaluate(session, READOUT % 0),
                 "tile 0: wrong in 18 of 18 trials, 144 wrong elements, worst 38,251 x bound "
                 "(1.15e+05 ulps), first at element 0")
    return expect.failures


def check_player(browser, session, page):
    """The failing trials: step, play, pause, to the end; no motion where none is wanted."""
    expect = Expectations()
    set_view(browser, session, 1280, "dark")
    browser.open(session, page)

    def ask(text):
        return browser.evaluate(session, text)
    shown = "document.querySelector('#player .shown').textContent"
    play = "document.querySelector('[data-play]')"
    heat = "[...document.querySelectorAll('table.map')[1].querySelectorAll('td')].map(" \
           "td => td.className.slice(0, 2)).join(' ')"
    all_trials = ask(heat)
    expect.equal("at first", ask(shown), "All 2,000 trials")
    ask("document.querySelector('[data-step=\"1\"]').click()")
    expect.contains("a step", ask(shown), "Trial 0 of round-robin, lazy copies: 2 wrong squares")
    expect.equal("its squares", ask(heat), "h1 h0 h4 h0")
    expect.contains("what is said", ask("document.getElementById('said').textContent"), "Trial 0")
    expect.contains("its figures", ask(READOUT % 1), "in this trial")
    expect.contains("remark", ask("document.querySelector('#tiles-title small').textContent"),
                    "in this trial")
    ask("document.querySelector('[data-step=\"-1\"]').click()")
    expect.equal("and back", ask(heat), all_trials)
    ask(play + ".click()")
    expect.equal("playing", ask(play + ".textContent"), "Pause")
    ask("new Promise(resolve => setTimeout(resolve, 950))")
    at = int(ask("document.querySelector('#player input').value"))
    if not 2 <= at <= 4:
        expect.failures.append(f"after a second at trial {at}")
    ask(play + ".click()")
    expect.equal("paused", ask(play + ".textContent"), "Play")
    at = ask("document.querySelector('#player input').value")
    expect.equal("what is said then", ask("document.getElementById('said').textContent"),
                 ask(shown))
    ask("new Promise(resolve => setTimeout(resolve, 450))")
    expect.equal("stays", ask("document.querySelector('#player input').value"), at)
    ask("document.querySelector('#player input').focus()")
    browser.key(session, "End")
    browser.call("Input.dispatchKeyEvent", session, type="keyDown", key="End", code="End",
                 windowsVirtualKeyCode=35)
    expect.contains("the last", ask(shown), "(120 of 120)")
    ask("document.querySelector('[data-all]').click()")
    expect.equal("all", ask(shown), "All 2,000 trials")
    set_view(browser, session, 1280, "dark", "reduce")
    ask("new Promise(resolve => setTimeout(resolve, 100))")
    expect.equal("reduced motion", ask(play + ".hidden"), True)
    expect.equal("which is said", ask("document.querySelector('[data-still]').hidden"), False)
    expect.equal("no transition", ask("getComputedStyle(document.querySelector('.map td'))"
                                      ".transitionDuration"), "0s")
    return expect.failures + list(messages(browser, page))


def check_sweep(browser, session, page):
    """A trial of a sweep: maps of other problems are hidden while it is shown."""
    expect = Expectations()
    set_view(browser, session, 1280, "light")
    browser.open(session, page)

    def ask(text):
        return browser.evaluate(session, text)
    shown = "document.querySelector('#player .shown').textContent"
    seen = "[...document.querySelectorAll('#tiles figure')].filter(f => !f.hidden).length"
    expect.equal("at first", ask(seen), 2)
    ask("document.querySelector('[data-step=\"1\"]').click()")
    expect.equal("of one trial", ask(seen), 1)
    expect.contains("which is said", ask(shown), "1 map of other problems hidden")
    ask("document.querySelector('[data-all]').click()")
    expect.equal("of all trials", ask(seen), 2)
    return expect.failures + list(messages(browser, page))


def check_page_tools(browser, session, page):
    """Theme, copying, skip link, printing."""
    expect = Expectations()
    set_view(browser, session, 1280, "light")
    browser.open(session, page)

    def ask(text):
        return browser.evaluate(session, text)
    theme = "document.getElementById('theme')"
    ground = "getComputedStyle(document.body).backgroundColor"
    for name, color in (("system", "rgb(255, 255, 255)"), ("light", "rgb(255, 255, 255)"),
                        ("dark", "rgb(16, 19, 23)"), ("system", "rgb(255, 255, 255)")):
        expect.equal("theme", ask(theme + ".textContent"), f"Theme: {name}")
        expect.equal(f"ground of {name}", ask(ground), color)
        ask(theme + ".click()")
    set_view(browser, session, 1280, "dark")
    expect.equal("light chosen, dark asked for", ask(ground), "rgb(255, 255, 255)")
    browser.open(session, page)
    expect.equal("kept", ask(theme + ".textContent"), "Theme: light")
    ask(theme + ".click(), " + theme + ".click()")

    button = "document.querySelector('button[data-copy]')"
    expect.equal("copy button is hidden", ask(button + ".hidden"), False)
    ask(button + ".click()")
    ask("new Promise(resolve => setTimeout(resolve, 300))")
    if ask(button + ".textContent") not in ("Copied", "Press Ctrl+C"):
        expect.failures.append(f"copy button says {ask(button + '.textContent')!r}")
    if not ask("document.getElementById('said').textContent"):
        expect.failures.append("copying is not said")

    ask("document.activeElement.blur(), scrollTo(0, 0)")
    browser.call("Input.dispatchKeyEvent", session, type="keyDown", key="Tab", code="Tab",
                 windowsVirtualKeyCode=9)
    expect.equal("first in the tab order", ask("document.activeElement.className"), "skip")
    expect.equal("its outline", ask("getComputedStyle(document.activeElement).outlineStyle"),
                 "solid")

    closed = "document.querySelectorAll('details:not([open])').length"
    before = ask(closed)
    size = len(base64.b64decode(browser.call("Page.printToPDF", session)["data"]))
    if before == 0 or size < 10000:
        expect.failures.append(f"printed {size} bytes, {before} closed details before")
    expect.equal("closed again after printing", ask(closed), before)
    browser.call("Emulation.setEmulatedMedia", session, media="print",
                 features=[{"name": "prefers-color-scheme", "value": "dark"}])
    expect.equal("paper", ask(ground), "rgb(255, 255, 255)")
    expect.equal("buttons on paper", ask(f"{theme}.getClientRects().length"), 0)
    browser.call("Emulation.setEmulatedMedia", session, media="")
    return expect.failures + list(messages(browser, page))


def check_speed(browser, session, page):
    """From the start of loading until the page is laid out and painted, script included."""
    set_view(browser, session, 1280, "light")
    browser.open(session, page)
    took = browser.evaluate(session, """new Promise(resolve => requestAnimationFrame(
        () => setTimeout(() => resolve(Math.round(performance.now())), 0)))""")
    print(f"{page.stem}: {page.stat().st_size:,} bytes, rendered in {took} ms")
    return [] if took < RENDERED_WITHIN_MS else [f"{page.stem} took {took} ms"]


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
            def report(where, failures):
                for failure in failures:
                    print(f"{where}: {failure}")
                return len(failures)

            for page in pages:
                for width, scheme in VIEWS if shots else TEST_VIEWS:
                    bad += report(f"{page.stem} at {width} px, {scheme}",
                                  check(browser, session, page, width, scheme, shots))
            page = pathlib.Path(folder) / "stress_shared_buffer.html"
            bad += report("ratios", check_large_ratios(
                browser, session, pathlib.Path(folder) / "verify_stage_sentinel.html"))
            bad += report("check_sweep", check_sweep(
                browser, session, pathlib.Path(folder) / "verify_dropped_tail.html"))
            for part in (check_maps, check_player, check_page_tools):
                bad += report(part.__name__, part(browser, session, page))
            bad += report("speed", check_speed(browser, session,
                                               pathlib.Path(folder) / "stress_large.html"))
        finally:
            browser.close()
    print(f"{len(pages)} pages, {bad} failures, {time.monotonic() - started:.1f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
