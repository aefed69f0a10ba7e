# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: what it shows, that it asks nobody, and how it looks."""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fabricated_runs import META, WORKER, fabricate_evaluation, plan_of, restart
from msgspec.structs import replace
from tiny_media import PICTURE, VIDEO, VIDEO_S, VIDEO_SIZE

from rpent_box.report import words
from rpent_box.report.compare import compare
from rpent_box.report.figures import figures_of
from rpent_box.report.load import Entry, load_entries
from rpent_box.report.write import write_report

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright"
)
image = pytest.importorskip("PIL.Image", reason="pillow is not installed: pip install pillow")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium here: apt-get install chromium"
)

PLAN = plan_of({"libero_spatial": 4, "libero_object": 2}, episodes=10)
DESK, PHONE = (1180, 900), (380, 800)
TIMEOUT_MS = 20_000
HOSTILE = "</script><img src=x onerror=document.title='owned'>"


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return two evaluations of the same episodes; the first has everything that is ever shown."""
    parent = tmp_path_factory.mktemp("runs")

    def change(job, row):
        return replace(
            row,
            instruction=HOSTILE if job.task == 3 else row.instruction,
            restarts=(restart(),) if job.episode == 12 else (),
            remarks={"a target was out of reach": 3} if job.episode == 5 else {},
        )

    a = fabricate_evaluation(
        parent,
        "a",
        plan=PLAN,
        change=change,
        failed=(3, 17),
        files={"episode.mp4": VIDEO, "episode.jpg": PICTURE},
    )
    worker = replace(WORKER, meta=replace(META, checkpoint="step_30000"))
    b = fabricate_evaluation(parent, "b", plan=PLAN, skill=0.6, salt="b", worker=worker)
    return a, b


@pytest.fixture(scope="module")
def one(folders: tuple[Path, Path]) -> Path:
    """Return the report of the first."""
    return write_report([folders[0]]).report


@pytest.fixture(scope="module")
def two(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of both, which compares them."""
    return write_report(folders, output=tmp_path_factory.mktemp("page") / "two.html").report


def entry_of(page: Path) -> Entry:
    (entry,) = load_entries([page.parent])
    return entry


@contextmanager
def opened(
    browser: playwright.Browser,
    path: Path,
    size: tuple[int, int] = DESK,
    scheme: str = "light",
    media: str = "screen",
) -> Iterator[playwright.Page]:
    """Open a page, and afterwards require that it said nothing and asked for nothing but itself."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
    )
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: said.append(f"failed: {request.url[:80]}"))
    page.emulate_media(media=media)
    try:
        page.goto(path.as_uri())
        yield page
        assert said == []
        assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    finally:
        context.close()


def wait(one: playwright.Locator, script: str) -> None:
    """Wait until `script` is true. Not the browser: our policy forbids what it would do."""
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    while not one.evaluate(script):
        assert time.monotonic() < deadline, f"{script} is not true"
        time.sleep(0.05)


def figure(page: playwright.Page, within: str, name: str) -> str:
    return page.locator(f"{within} [data-figure={name}]").first.inner_text()


def test_the_figures_on_the_page_are_those_that_were_computed(browser, one):
    found = figures_of(entry_of(one))
    with opened(browser, one) as page:
        total = found.total
        assert figure(page, ".hero", "rate") == words.percent(total.success_rate)
        assert figure(page, ".hero", "successes") == str(total.successes)
        assert figure(page, ".hero", "done") == str(total.done)
        assert figure(page, ".hero", "interval") == words.interval(total.success_interval)
        for suite in found.suites:
            assert figure(page, f'[data-suite="{suite.suite}"]', "rate") == words.percent(
                suite.success_rate
            )
            for task in suite.tasks:
                row = f'[data-task="{task.suite}/{task.task}"]'
                assert figure(page, row, "rate") == words.percent(task.success_rate)
                assert figure(page, row, "successes") == str(task.successes)
                assert figure(page, row, "interval") == words.interval(task.success_interval)
        for name, value in found.times.stages_s.items():
            stage = page.locator(f'#time figure:first-child [data-stage="{name}"]')
            assert stage.locator("[data-figure=total]").inner_text() == words.seconds(value)
        assert page.locator(".card").count() == len(total.unsolved_steps) > 5


def test_charts_are_drawn_where_their_figures_say(browser, one):
    found = figures_of(entry_of(one))
    with opened(browser, one) as page:
        for task in found.suites[0].tasks:
            row = page.locator(f'[data-task="{task.suite}/{task.task}"] svg').first
            track = row.locator(".track").bounding_box()
            point = row.locator(".point").bounding_box()
            middle = point["x"] + point["width"] / 2
            share = (middle - track["x"]) / track["width"]
            assert share == pytest.approx(task.success_rate, abs=0.01)
        columns = page.locator("#lengths svg").first.locator("rect.solved")
        assert columns.count() > 3
        tallest = max(one.bounding_box()["height"] for one in columns.all())
        assert tallest > 10


def test_videos_play_and_pictures_are_shown(browser, one):
    with opened(browser, one) as page:
        video = page.locator("video").first
        video.scroll_into_view_if_needed()
        wait(video, "one => one.readyState >= 1")
        assert video.evaluate("one => one.duration") == pytest.approx(VIDEO_S, abs=0.05)
        size = video.evaluate("one => [one.videoWidth, one.videoHeight]")
        assert tuple(size) == VIDEO_SIZE
        video.evaluate("one => one.play()")
        wait(video, "one => one.currentTime > 0.1")
        assert video.evaluate("one => one.error") is None


def test_a_picture_without_its_video_is_shown_and_links_to_it(browser, folders, tmp_path):
    path = write_report([folders[0]], output=tmp_path / "page.html", videos="none").report
    with opened(browser, path) as page:
        assert page.locator("video").count() == 0
        shown = page.locator(".card img").first
        assert shown.evaluate("one => one.complete && one.naturalWidth") == VIDEO_SIZE[0]
        link = page.locator(".card a").first.evaluate("one => one.href")
    assert Path(link.removeprefix("file://")).read_bytes() == VIDEO


def test_hostile_text_is_only_shown(browser, one):
    with opened(browser, one) as page:
        assert page.title() == "mini-wam on libero"
        assert page.locator("script").count() == 0
        assert HOSTILE in page.locator('[data-task="libero_spatial/3"] .name').inner_text()


def test_even_a_script_that_got_in_would_not_run(browser, one, tmp_path):
    attacked = tmp_path / "attacked.html"
    attack = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
    attacked.write_text(one.read_text().replace("<footer>", attack + "<footer>"))
    context = browser.new_context()
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(attacked.as_uri())
    assert page.title() == "mini-wam on libero"
    context.close()
    assert any("Content Security Policy" in text for text in refused)


def test_two_results_show_their_comparison(browser, folders, two):
    comparison = compare(*load_entries(folders))
    with opened(browser, two) as page:
        assert page.locator(".verdict").inner_text() == comparison.sentence
        assert figure(page, "#compared", "difference") == words.points(comparison.total.difference)
        assert figure(page, "#compared", "p") == words.probability(comparison.total.p)
        rows = page.locator("#compared .tasks tbody tr")
        assert rows.count() == len(comparison.tasks)
        assert page.locator("#a-result .hero .rate").count() == 1
        assert page.locator("#b-result .hero .rate").count() == 1


@pytest.mark.parametrize(
    ("size", "scheme", "media"),
    [
        (DESK, "light", "screen"),
        (DESK, "dark", "screen"),
        (PHONE, "light", "screen"),
        (PHONE, "dark", "screen"),
        (DESK, "dark", "print"),
    ],
)
@pytest.mark.parametrize("which", ["one", "two"])
def test_it_looks_right_everywhere(browser, request, which, size, scheme, media):
    path = request.getfixturevalue(which)
    with opened(browser, path, size, scheme, media) as page:
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width == size[0], "the page scrolls sideways"
        assert page.evaluate(SCROLLING) == []
        assert page.evaluate(UNREADABLE) == []
        shot = image.open(io.BytesIO(page.screenshot())).convert("RGB")
        colours = shot.getcolors(maxcolors=1 << 20)
        (most, paper) = max(colours)
        is_dark = sum(paper) < 3 * 128
        assert is_dark == (scheme == "dark" and media == "screen")
        assert len(colours) > 60, "the picture is blank"
        assert most < 0.97 * shot.width * shot.height
        assert any(_is_green(colour) for _, colour in colours), "no success rate is drawn"


def test_it_prints(browser, one):
    with opened(browser, one, media="print") as page:
        assert page.locator("nav").is_visible() is False
        printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert len(printed) > 30_000


def _is_green(colour: tuple[int, int, int]) -> bool:
    red, green, _ = colour
    return green > red + 60


SCROLLING = """() => [...document.querySelectorAll('body *')]
    .filter(one => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0
        && ['auto', 'scroll'].includes(getComputedStyle(one).overflowX))
    .map(one => one.className)"""
"""Parts that scroll sideways within the page."""

UNREADABLE = """() => {
    const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const channel = v => linear(v / 255);
    const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
    const read = text => text.match(/[\\d.]+/g).map(Number);
    const paper = one => {
        for (; one; one = one.parentElement) {
            const c = read(getComputedStyle(one).backgroundColor);
            if (c.length < 4 || c[3] > 0) return c;
        }
        return [255, 255, 255];
    };
    const bad = new Set();
    for (const one of document.querySelectorAll('body *')) {
        const own = [...one.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
        if (!own || one.closest('svg') || !one.checkVisibility()) continue;
        const a = light(read(getComputedStyle(one).color)), b = light(paper(one));
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) bad.add(`${one.tagName}.${one.className}: ${contrast.toFixed(2)}`);
    }
    return [...bad];
}"""
"""Text whose contrast with what is behind it is below WCAG's AA."""
