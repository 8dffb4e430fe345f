"""The report in a browser: figures load, the table sorts and filters, nothing is asked of any host, and it fits a phone.

Chromium and its driver come from Debian's packages chromium and chromium-driver, which .ci/run installs.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perstep.paper.report import report
from report_samples import CLAIMS, write_part, write_runs

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium, of the dev extra, is not installed")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="no browser: apt-get install chromium chromium-driver, and these tests run"
)

QUIET = (
    "headless=new", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync", "disable-default-apps", "disable-dev-shm-usage",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    root = ["no-sandbox"] if os.geteuid() == 0 else []
    for flag in (*QUIET, *root, f"user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))  # the given driver: selenium downloads nothing
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    results = tmp_path_factory.mktemp("results") / "with a blank"
    folder = write_part(results, scale="paper")
    write_part(results, scale="smoke", claims=[claim | {"verdict": "does not hold"} for claim in CLAIMS])
    long = "<script>window.harmed = true; console.error('harm')</script>" + "x" * 300
    rewards = {f"step_size=0.002,reward_ratio={ratio}": [-0.6 - ratio / 100, -0.6] for ratio in (1, 2, 10)}
    write_runs(folder, "differential-q", rewards, error=long)
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>window.harmed = true</script></svg>'
    (folder / "figures" / "drawn.svg").write_text(svg)
    return report(results).as_uri()


@pytest.fixture
def page(browser: Any, address: str) -> Any:
    """The page as it opens on a desk, in the light."""
    look(browser)
    browser.get_log("performance")
    browser.get(address)
    return browser


def look(browser: Any, width: int = 1200, scheme: str = "light") -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def ask(page: Any, script: str, *about: Any) -> Any:
    return page.execute_script(f"return {script}", *about)


def visible(page: Any, column: int) -> list[str]:
    """The cells of a column of the claims that are shown, from top to bottom."""
    rows = "Array.from(document.querySelectorAll('.claims tbody tr')).filter(row => row.offsetParent)"
    return list(ask(page, f"{rows}.map(row => row.cells[{column}].innerText)"))


def click(page: Any, selector: str, place: int = 0) -> None:
    page.execute_script("document.querySelectorAll(arguments[0])[arguments[1]].click()", selector, place)


def write(page: Any, text: str) -> None:
    field = page.find_element("css selector", ".controls input")
    field.clear()
    field.send_keys(text)


def test_figures_load_and_nothing_goes_wrong_or_out(page: Any, address: str) -> None:
    widths = ask(page, "Array.from(document.images).map(image => image.complete ? image.naturalWidth : 0)")
    assert len(widths) == 5  # two a scale, and the SVG
    assert all(width > 0 for width in widths)
    assert [entry for entry in page.get_log("browser") if entry["level"] != "INFO"] == []
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert {url.partition("#")[0] for url in asked if not url.startswith("data:")} == {address}
    assert ask(page, "window.harmed") is None


def test_the_table_sorts_up_down_and_back(page: Any) -> None:
    before = visible(page, 4)
    head = ".claims th button"
    for order, name in ((["✓", "✗", "○"], "ascending"), (["○", "✗", "✓"], "descending")):
        click(page, head, 4)
        signs = [text[0] for text in visible(page, 4)]
        assert signs == sorted(signs, key=order.index)
        assert ask(page, "document.querySelectorAll('.claims th')[4].getAttribute('aria-sort')") == name
    click(page, head, 4)
    assert visible(page, 4) == before
    click(page, head, 0)
    where = [text.split("\n")[0] for text in visible(page, 0)]
    assert where.index("App. C.1") < where.index("Fig. 2c") < where.index("Fig. C.4")


def test_keys_alone_will_do(page: Any) -> None:
    button = page.find_elements("css selector", ".claims th button")[1]
    button.send_keys("\ue007")  # Enter
    claims = visible(page, 1)
    assert claims == sorted(claims, key=str.lower)
    page.find_elements("css selector", "button.count")[1].send_keys(" ")
    assert {text[2:] for text in visible(page, 4)} == {"does not hold"}


def test_the_table_filters_by_text_verdict_and_scale(page: Any) -> None:
    everything = len(visible(page, 0))
    status = "document.querySelector('.controls output').textContent"
    assert ask(page, status) == f"all {everything} claims"
    write(page, "quantiles D2")
    assert all("D2" in text for text in visible(page, 1))
    assert 0 < len(visible(page, 1)) < everything
    assert ask(page, status) == f"{len(visible(page, 1))} of {everything} claims"
    write(page, "no such claim")
    assert visible(page, 0) == []
    assert page.find_element("css selector", ".nothing").is_displayed()
    write(page, "")
    click(page, "button.count", 0)
    assert visible(page, 4) == ["✓ holds"] * 2
    click(page, "button.count", 0)
    assert len(visible(page, 0)) == everything
    choose = (
        "const s = document.querySelector('.controls select'); s.value = 'smoke'; s.dispatchEvent(new Event('change'))"
    )
    page.execute_script(choose)
    assert visible(page, 4) == ["✗ does not hold"] * len(CLAIMS)
    counts = ask(page, "Array.from(document.querySelectorAll('.count b')).map(each => each.textContent)")
    assert counts == ["0", str(len(CLAIMS)), "0"]


def test_a_link_shows_what_it_leads_to(page: Any, address: str) -> None:
    page.get(f"{address}#fig-redpill-smoke-figure_2")
    assert page.find_element("id", "fig-redpill-smoke-figure_2").is_displayed()  # its scale was folded


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_holds_it(page: Any, address: str, scheme: str, tmp_path: Path) -> None:
    look(page, 360, scheme)
    page.get(address)
    page.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    assert ask(page, "innerWidth") == 360
    assert ask(page, "document.documentElement.scrollWidth") == 360
    beyond = """Array.from(document.querySelectorAll('h1, h2, h3, p, .count, .claims td, .controls *, dd, .notice li'))
        .filter(each => each.offsetParent && each.getBoundingClientRect().right > 360).map(each => each.outerHTML)"""
    assert ask(page, beyond) == []
    assert page.save_screenshot(str(tmp_path / "phone.png"))


def test_light_and_dark_are_both_readable(page: Any, address: str) -> None:
    """Contrast by WCAG 2: 4.5 or more for all words, in both."""
    papers = {}
    for scheme in ("light", "dark"):
        look(page, scheme=scheme)
        page.get(address)
        papers[scheme] = luminance(ask(page, "getComputedStyle(document.body).backgroundColor"))
        for selector in ("body", ".claims td", ".claims .scale", ".verdict.holds", ".verdict.fails", ".verdict.not-run",
                         ".lead", "nav a", "dt", "code.command"):  # fmt: skip
            words, paper = ask(page, COLOURS, selector)
            light, dark = sorted((luminance(words), luminance(paper)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (scheme, selector, words, paper)
    assert papers["light"] > 0.8
    assert papers["dark"] < 0.05


COLOURS = """(() => {
    const element = document.querySelector(arguments[0]);
    let behind = element;
    while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
    return [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor];
})()"""


def luminance(colour: str) -> float:
    """Relative luminance of "rgb(r, g, b)", as WCAG 2 defines it."""
    parts = [float(text) / 255 for text in colour.partition("(")[2].rstrip(")").split(",")[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
