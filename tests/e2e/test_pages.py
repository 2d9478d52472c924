"""The pages in a real browser: nothing complains, nothing is fetched, everything is drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from audits.curves.page import build_curve_page
from audits.findings.record import Verdict
from securefg.reports import build_report
from securefg.reports.compare import compare_runs, write_comparison
from securefg.reports.dpo import build_dpo_page
from tests.e2e.browser import CHROMIUM, Browser, Page, running_browser
from tests.unit.reports.made_curves import made_curve
from tests.unit.reports.made_findings import attack, audited, check
from tests.unit.reports.runs import NOISE, run

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

PAGES = ("curve", "report", "dpo", "compare")

# Every drawing has a size, and every mark of it lies within the figure that holds it.
DRAWN = """
[...document.querySelectorAll("figure")].map((figure) => {
  const drawings = [...figure.querySelectorAll(".drawing svg")];
  const shown = drawings.filter((drawing) => drawing.getClientRects().length);
  const marks = shown.flatMap((d) => [...d.querySelectorAll("text, .shape, .bar, .line, .heat")]);
  const edge = figure.getBoundingClientRect();
  const outside = marks.map((mark) => mark.getBoundingClientRect())
    .filter((box) => box.left < edge.left - 1 || box.right > edge.right + 1);
  return { title: figure.querySelector("h3").textContent, drawings: shown.length,
           height: shown[0]?.getBoundingClientRect().height ?? 0,
           marks: marks.length, outside: outside.length };
})
"""

WIDER = """
[...document.querySelectorAll("body *")].filter((part) => !part.closest(".scroll, pre, svg, .skip"))
  .filter((part) => part.getBoundingClientRect().right > innerWidth + 1)
  .map((part) => part.outerHTML.slice(0, 120))
"""

# Folded parts are opened, as printing does.
UNFOLD = """document.querySelectorAll("details").forEach((part) => { part.open = true; })"""

# A scroll is told of with the next frame, and hides what the pointer had shown.
PAINTED = (
    "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))).then(String)"
)

COLLECT = """
window.saved = [];
URL.createObjectURL = (blob) => { saved.push(blob.text()); return "#"; };
HTMLAnchorElement.prototype.click = function () { saved.push(this.download); };
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECUREFG_CACHE", str(root / "cache"))
        plain, noisy = run(root / "plain"), run(root / "noisy", *NOISE)
    audited(noisy.path, check("weights", 6.0), attack(0.189, Verdict.LEAK))
    return {
        "curve": build_curve_page(*made_curve(), root / "curve.html"),
        "report": build_report(noisy),
        "dpo": build_dpo_page(noisy),
        "compare": write_comparison(compare_runs([plain.path, noisy.path]), root / "compare.html"),
    }


@pytest.fixture
def page(browser: Browser) -> Page:
    return browser.page()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("name", PAGES)
def test_page_is_drawn_without_complaint_or_request(
    page: Page, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    page.open(pages[name], width, dark=dark)
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.value(WIDER) == []
    page.value(UNFOLD)
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.value(WIDER) == []
    for figure in page.value(DRAWN):
        assert figure["drawings"] == 1, figure
        assert figure["height"] > 40, figure
        assert figure["marks"] > 2, figure
        assert figure["outside"] == 0, figure
    back = page.value("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", back)[:3])) < 384) is dark
    assert page.complaints == []
    assert page.requests == [pages[name].resolve().as_uri()]


@pytest.mark.parametrize("name", PAGES)
def test_page_fits_on_paper_dark_or_not(page: Page, pages: dict[str, Path], name: str) -> None:
    page.open(pages[name], 720, dark=True)
    page.prefer("dark", media="print")
    page.value(UNFOLD)
    assert page.value("document.documentElement.scrollWidth") <= 720
    assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.value("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    for figure in page.value(DRAWN):
        assert (figure["drawings"], figure["outside"]) == (1, 0), figure


def test_the_fences_see_a_complaint_a_request_and_what_is_too_wide(
    page: Page, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.html"
    wide = '<div style="width: 900px">wide</div>'
    bad.write_text(f'<!doctype html>{wide}<img src="gone.png"><script>nobody()</script>')
    page.open(bad, 375)
    assert page.value("document.documentElement.scrollWidth") > 375
    assert len(page.value(WIDER)) == 1
    assert any("nobody is not defined" in complaint for complaint in page.complaints)
    assert any(url.endswith("gone.png") for url in page.requests)


def tip_of(page: Page) -> str:
    return str(page.value('document.getElementById("tip").hidden ? "" : tip.textContent'))


def test_hover_and_focus_show_the_numbers(page: Page, pages: dict[str, Path]) -> None:
    page.open(pages["curve"], 1440)
    first = '[...document.querySelectorAll("#price .broad .point .hit")][2]'
    page.value(f'{first}.scrollIntoView({{block: "center"}})')
    page.value(PAINTED)
    box = page.value(f"{first}.getBoundingClientRect().toJSON()")
    assert tip_of(page) == ""
    page.move_to(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert re.match(r"Noise at each client, ε.=.1 per.row\naccuracy 45\.3%", tip_of(page))
    page.move_to(2, 2)
    assert tip_of(page) == ""
    page.value('document.querySelector("#price .broad .point").focus()')
    assert tip_of(page).startswith("No defence\naccuracy 83.0%")
    page.press("ArrowRight")
    assert tip_of(page).startswith("Masked sums\naccuracy 81.0%")
    assert page.value("document.activeElement.getAttribute('href')") == "#point-2"
    page.press("Tab")
    assert page.value('document.activeElement.closest(".broad")') is None
    assert page.complaints == []


def test_the_button_turns_light_into_dark_and_back(page: Page, pages: dict[str, Path]) -> None:
    page.open(pages["curve"], 1440)
    back = "getComputedStyle(document.body).backgroundColor"
    light = page.value(back)
    page.value("theme.click()")
    dark = page.value(back)
    assert dark != light
    assert page.value("theme.textContent") == "Light"
    page.value("theme.click()")
    assert page.value(back) == light
    page.prefer("dark")
    assert page.value(back) == light, "the reader's choice stands"


def test_figures_are_downloaded_as_csv_and_svg(page: Page, pages: dict[str, Path]) -> None:
    page.open(pages["curve"], 1440)
    page.value(COLLECT)
    for kind in ("csv", "svg"):
        page.value(f"""document.querySelector("#price [data-save={kind}]").click()""")
    table, table_name, drawing, drawing_name = page.value("Promise.all(saved)")
    assert table_name == "FedGL_on_Cora_accuracy.csv"
    assert drawing_name == "FedGL_on_Cora_accuracy.svg"
    header, first = table.splitlines()[:2]
    assert header == "setting,epsilon,accuracy,low,high,runs"
    assert first.startswith("none,inf,0.83")
    assert drawing.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert "var(" not in drawing
    assert "fill:rgb(" in drawing.replace(" ", "")
    assert "accuracy 83.0%" in drawing
    assert page.complaints == []


def test_the_data_block_is_read_back_by_the_browser(page: Page, pages: dict[str, Path]) -> None:
    page.open(pages["curve"], 1440)
    text = page.value("""JSON.stringify(JSON.parse(document.getElementById("data").textContent))""")
    assert json.loads(text) == made_curve()[0].model_dump(mode="json", by_alias=True)


def test_cell_opens_its_plot_by_keyboard_and_closes_it(page: Page, pages: dict[str, Path]) -> None:
    page.open(pages["report"], 1440)
    link = "document.querySelector('.who a[href*=links]')"
    shown = "[...document.querySelectorAll('.evidence')].filter((c) => c.checkVisibility()).length"
    assert page.value(shown) == 0
    page.value(f"{link}.focus()")
    assert page.value(f"getComputedStyle({link}).outlineStyle") != "none"
    page.press("Enter")
    assert page.value(shown) == 1
    target = page.value(f"{link}.getAttribute('href')")
    assert page.value(f"document.querySelector('{target} .plot-row .dot') !== null") is True
    page.value(f"document.querySelector('{target} a').click()")
    assert page.value(shown) == 0
    assert page.complaints == []


def test_link_into_a_folded_part_opens_it(page: Page, pages: dict[str, Path]) -> None:
    page.open(pages["curve"], 1440)
    row = "document.getElementById('point-2')"
    assert page.value(f"{row}.checkVisibility()") is False
    page.value("location.hash = '#point-2'")
    page.value(PAINTED)
    assert page.value(f"{row}.checkVisibility()") is True


def test_every_cell_is_on_paper(page: Page, pages: dict[str, Path]) -> None:
    page.open(pages["dpo"], 720)
    page.prefer("light", media="print")
    hidden = "[...document.querySelectorAll('.evidence')].filter((c) => !c.checkVisibility())"
    assert page.value(f"{hidden}.length") == 0
    assert page.value("document.querySelectorAll('.evidence').length") > 0
