# SPDX-License-Identifier: Apache-2.0
"""The dashboard in a real browser: what it shows, what it asks for, and how it ends."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from bare_box import make_bare_box, remove_bare_box
from live_browser import token_of
from live_story import acting, begun, failure, figures, plan, restart, row

from rpent_box.contracts.control_messages import Progress
from rpent_box.live.app import Pages
from rpent_box.live.dashboard import serve_dashboard
from rpent_box.live.state import LiveState
from rpent_box.transport.paths import BoxPaths
from rpent_box.transport.ring import Ring

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium"),
    pytest.mark.timeout(60),
]
PATIENCE_S = 20.0
CORNERS = {"red": (210, 40, 30), "green": (40, 180, 60), "blue": (30, 60, 200), "white": (240,) * 3}


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A page of its own, and what it said and asked for."""

    def __init__(self, browser: playwright.Browser, *, width: int = 1280, dark: bool = False):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type} {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error {error}"))
        self.context.on("request", lambda request: self.asked.append(request.url))

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def wait(self, script: str) -> None:
        """Wait until `script` is true. Not the browser, whose own way our policy forbids."""
        self._until(lambda: bool(self.page.evaluate(script)), f"{script} is not true")

    def hear(self, *words: str) -> None:
        """Wait until the page said one of `words`: the browser tells of it when it gets to it."""
        self._until(
            lambda: any(word in said for word in words for said in self.said),
            f"none of {words} was heard",
        )

    def _until(self, holds: Callable[[], bool], missing: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"{missing}; said: {self.said}")
            self.page.wait_for_timeout(50)


@pytest.fixture
def visit(browser: playwright.Browser) -> Iterator[Callable[..., Visit]]:
    visits: list[Visit] = []

    def pay(**options: int | bool) -> Visit:
        visits.append(Visit(browser, **options))
        return visits[-1]

    yield pay
    for one in visits:
        one.context.close()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BoxPaths]:
    paths = make_bare_box(tmp_path)
    yield paths
    remove_bare_box(paths)


def corners(brightness: float = 1.0) -> np.ndarray:
    """Four plain colours, so that a flip, a swap of channels and a shift would show."""
    image = np.zeros((128, 128, 3), np.float64)
    red, green, blue, white = CORNERS.values()
    image[:64, :64], image[:64, 64:], image[64:, :64], image[64:, 64:] = red, green, blue, white
    return (image * brightness).astype(np.uint8)


PIXELS = """(image) => {
  const canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
  const drawing = canvas.getContext("2d", { willReadFrequently: true });
  drawing.drawImage(image, 0, 0);
  const at = (x, y) => [...drawing.getImageData(x, y, 1, 1).data].slice(0, 3);
  return [canvas.width, canvas.height, at(30, 30), at(96, 30), at(30, 96), at(96, 96)];
}"""


def test_the_page_shows_what_the_evaluation_tells(visit: Callable[..., Visit]) -> None:
    state = LiveState()
    begin = begun(plan(tasks=3, episodes=4))
    with serve_dashboard(state) as url:
        seen = visit()
        assert seen.page.goto(url).status == 200
        seen.wait("document.querySelector('#status').textContent === 'starting'")
        state.on_phase("worker", "loading")
        state.on_begin(begin)
        state.on_envs("", 2, "asked for")
        for job, success in zip(begin.jobs, (True, True, False, True, True), strict=False):
            state.on_progress("0", job, acting())
            state.on_episode(row(job, success=success))
        state.on_failure(failure(begin.jobs[5]))
        state.on_progress("1", begin.jobs[6], acting(24))
        state.on_progress("0", begin.jobs[7], Progress(phase="predicting", steps=8, max_steps=40))
        state.on_restart("0", begin.jobs[7], restart())
        state.on_worker("", figures(100.0, served=4321))
        seen.wait("document.querySelectorAll('.machine svg rect').length > 10")
        assert seen.text("#done") == "5"
        assert seen.text("#of").strip() == "of 12"
        assert seen.text("#rate") == "80.0%"
        assert seen.text("#rate-note") == "95%: 37.6% to 96.4%"
        assert "1 without a result" in seen.text("#progress-note")
        assert seen.text("#busy") == "50%"
        tasks = seen.page.locator("#tasks tr")
        assert tasks.count() == 3
        assert tasks.nth(0).locator("td.played").inner_text() == "4 of 4"
        assert "75.0%" in tasks.nth(0).locator("td.success").inner_text()
        assert tasks.nth(1).locator("td").nth(3).inner_text() == "1"
        seats = seen.page.locator(".seat")
        assert seats.count() == 2
        assert "being replaced" in seats.nth(0).inner_text()
        assert "step 24 of 40" in seats.nth(1).inner_text()
        assert "travel over the network" in seats.nth(1).inner_text()
        assert "4,321 predictions" in seen.text(".machine")
        assert "render" in seen.text("#stages")
        assert "<b>ValueError</b>" in seen.text("#happened"), "what programs say is only text"
        assert seen.text("#components").split() == ["worker", "loading"]
        assert seen.page.url == url.partition("#")[0], "the token is gone from the address"
        assert seen.page.reload().status == 200, "and this tab has kept it"
        seen.wait("document.querySelector('#done').textContent === '5'")
        assert {urlsplit(asked).netloc for asked in seen.asked} == {urlsplit(url).netloc}
        assert seen.said == []


def test_a_camera_view_shows_the_pixels_that_the_model_saw(
    visit: Callable[..., Visit], box: BoxPaths
) -> None:
    state = LiveState()
    begin = begun()
    state.on_begin(begin)
    name = box.segment_name("sim-0")
    with (
        Ring.create(name, slots=4, slot_bytes=2 * 128 * 128 * 3, grants=box.grants) as ring,
        serve_dashboard(state) as url,
    ):

        def predict(brightness: float) -> None:
            tensors = {"primary": corners(brightness), "wrist": corners(brightness / 2)}
            payload = ring.write(tensors, wait_s=0, holder="a test")
            ring.free(payload.slot)
            state.on_progress("0", begin.jobs[0], acting(seen=payload))

        predict(1.0)
        seen = visit()
        seen.page.goto(url)
        for index, brightness in enumerate((1.0, 0.5)):
            seen.wait(f"document.querySelectorAll('.views img')[{index}]?.naturalWidth === 128")
            image = seen.page.locator(".views img").nth(index)
            width, height, *colours = image.evaluate(PIXELS)
            assert (width, height) == (128, 128)
            for colour, wanted in zip(colours, CORNERS.values(), strict=True):
                assert np.allclose(colour, np.array(wanted) * brightness, atol=6), (colour, wanted)
        first = seen.page.locator(".views img").nth(0).get_attribute("src")
        predict(0.5)
        seen.wait(f"document.querySelector('.views img').src !== '{first}'")
        seen.wait("document.querySelector('.views img').complete")
        *_, white = seen.page.locator(".views img").nth(0).evaluate(PIXELS)
        assert np.allclose(white, 120, atol=6)
        assert [caption.inner_text() for caption in seen.page.locator("figcaption").all()] == [
            *("primary", "wrist"),
        ]
        frames = [asked for asked in seen.asked if "/frames/" in asked]
        seen.page.uncheck("#views")
        seen.wait("document.querySelector('.views img') === null")
        assert frames
        assert seen.said == []


def test_without_the_token_there_is_nothing_to_see(visit: Callable[..., Visit]) -> None:
    state = LiveState()
    state.on_begin(begun())
    with serve_dashboard(state) as url:
        stranger = visit()
        stranger.page.goto(url.partition("#")[0])
        stranger.wait("document.querySelector('#status').textContent.startsWith('open the addr')")
        assert stranger.text("#of") == ""
        with stranger.page.expect_event("load"):
            stranger.page.goto(url)
        stranger.wait("document.querySelector('#of').textContent.includes('of 6')")
        assert stranger.context.cookies() == []
        assert token_of(url) not in "".join(stranger.asked[1:]).replace(url, "")


HOSTILE = """async (where) => {
  const headers = { Authorization: "Bearer x" };
  const tries = [
    fetch(`${where}/state.json`, { credentials: "include" }),
    fetch(`${where}/state.json`, { headers }),
    fetch(`${where}/state.json`, { method: "POST", mode: "cors", body: "x" }),
    fetch(`${where}/app.js`, { mode: "no-cors" }),
    new Promise((good, bad) => {
      const source = new EventSource(`${where}/events`);
      source.onmessage = good; source.onerror = bad;
    }),
    new Promise((good, bad) => {
      const line = new WebSocket(`${where.replace("http", "ws")}/events`);
      line.onopen = good; line.onerror = bad;
    }),
    new Promise((good, bad) => {
      const image = new Image();
      image.onload = good; image.onerror = bad; image.src = `${where}/icon.svg`;
    }),
  ];
  return (await Promise.allSettled(tries)).map((one) => one.status);
}"""


def test_a_page_on_another_port_gets_nothing_out_of_it(visit: Callable[..., Visit]) -> None:
    with serve_dashboard(LiveState()) as url, serve_dashboard(LiveState()) as hostile:
        owner = visit()
        owner.page.goto(url)
        owner.wait("document.querySelector('#status').textContent === 'starting'")
        # The same browser, so with whatever it keeps for the dashboard.
        other = owner.context.new_page()
        other.route(hostile.partition("#")[0], lambda route: route.fulfill(body="<title>x</title>"))
        other.goto(hostile.partition("#")[0])
        where = url.partition("/#")[0]
        assert other.evaluate(HOSTILE, where) == ["rejected"] * 7
        assert other.evaluate("document.cookie + JSON.stringify(sessionStorage)") == "{}"


def test_the_page_keeps_the_last_state_when_the_evaluation_ends(
    visit: Callable[..., Visit],
) -> None:
    state = LiveState()
    begin = begun()
    state.on_begin(begin)
    seen = visit()
    with serve_dashboard(state) as url:
        seen.page.goto(url)
        seen.wait("document.querySelector('#status').textContent === 'starting'")
        state.on_progress("0", begin.jobs[0], acting())
        state.on_episode(row(begin.jobs[0]))
        state.end("complete")
        began = time.monotonic()
    assert time.monotonic() - began < 1.0
    seen.wait("document.querySelector('#status').textContent === 'ended: complete'")
    assert seen.text("#done") == "1"
    assert seen.text("#left-title") == "Took"
    asked = len(seen.asked)
    seen.page.wait_for_timeout(1500)
    assert len(seen.asked) == asked, "nothing is asked of a server that has ended"
    assert seen.said == []


def test_a_page_that_loses_its_server_says_so_and_finds_it_again(
    visit: Callable[..., Visit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rpent_box.live.dashboard.secrets.token_urlsafe", lambda size: "x" * 43)
    state = LiveState()
    state.on_begin(begun())
    seen = visit()
    with monkeypatch.context() as broken:
        broken.setattr(Pages, "close", lambda self: None)
        broken.setattr(LiveState, "end", lambda self: None)
        with serve_dashboard(state) as url:
            seen.page.goto(url)
            seen.wait("document.querySelector('#of').textContent.includes('of 6')")
    seen.wait("document.querySelector('#status').textContent === 'connection lost, trying again'")
    job = begun().jobs[0]
    state.on_progress("0", job, acting())
    state.on_episode(row(job))
    assert seen.text("#done") == "0", "what was known stays"
    with serve_dashboard(state, port=urlsplit(url).port or 0) as again:
        assert again == url
        seen.wait("document.querySelector('#done').textContent === '1'")
        assert seen.text("#status") == "playing"


def test_the_address_of_the_next_evaluation_on_the_same_port_may_be_pasted_into_the_old_page(
    visit: Callable[..., Visit],
) -> None:
    seen = visit()
    with serve_dashboard(LiveState()) as url:
        seen.page.goto(url)
        seen.wait("document.querySelector('#status').textContent === 'starting'")
    seen.wait("document.querySelector('#status').textContent === 'ended'")
    state = LiveState()
    state.on_begin(begun())
    with serve_dashboard(state, port=urlsplit(url).port or 0) as again:
        seen.page.reload()
        seen.wait("document.querySelector('#status').textContent.startsWith('open the addr')")
        with seen.page.expect_event("load"):
            seen.page.goto(again)
        seen.wait("document.querySelector('#of').textContent.includes('of 6')")


def test_a_page_that_fails_says_so_and_does_not_pretend(visit: Callable[..., Visit]) -> None:
    seen = visit()
    with serve_dashboard(LiveState()) as url:
        seen.page.goto(url)
        seen.wait("document.querySelector('#status').textContent === 'starting'")
        seen.page.evaluate("document.querySelector('#done').remove()")
        seen.wait("document.querySelector('#status').textContent.includes('reload')")
        seen.hear("TypeError", "null")


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_narrow_screen_in_light_and_dark(
    visit: Callable[..., Visit], tmp_path: Path, *, dark: bool
) -> None:
    state = LiveState()
    begin = begun(plan(tasks=5, episodes=4))
    state.on_begin(begin)
    for job in begin.jobs[:10]:
        state.on_progress("0", job, acting())
        state.on_episode(row(job))
    state.on_worker("", figures(50.0))
    with serve_dashboard(state) as url:
        seen = visit(width=380, dark=dark)
        seen.page.goto(url)
        seen.wait("document.querySelector('#done').textContent === '10'")
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 380
        ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(int(part) for part in ground[4:-1].split(",")) > 380
        assert light != dark
        seen.page.screenshot(path=str(tmp_path / "narrow.png"), full_page=True)
        assert seen.said == []
