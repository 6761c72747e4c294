"""Everyone can use the page: axe-core finds nothing in any view, and the keyboard reaches everything."""

from pathlib import Path

import pytest
from made import bert, changed, generation, job, llama_405b, plan, resnet, run, sweep

AXE = Path(__file__).parents[3] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
CHECK = (
    "const done = arguments[arguments.length - 1]; axe.run(document).then(({violations}) => done(violations.map((one) =>"
    " `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join('; ')}`)))"
)
PAGES = {"resnet": resnet, "bert": bert, "405b": llama_405b, "diff": changed, "job": job}
PLAIN = {"sweep": sweep, "plan": plan, "run": run, "generation": generation}
"""Pages without script."""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_no_view_has_a_violation(browser, tmp_path, name, dark):
    browser.open(PAGES[name]().to_html(tmp_path / "report.html"), dark=dark)
    browser.script(AXE.read_text(encoding="utf-8"))
    found = {}
    for tab in [tab.get_attribute("id") for tab in browser.all('[role="tab"]')]:
        browser.one(f"#{tab}").click()
        found[tab] = browser.driver.execute_async_script(CHECK)

    assert {tab: problems for tab, problems in found.items() if problems} == {}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [420, 1440])
@pytest.mark.parametrize("name", PLAIN)
def test_no_page_without_script_has_a_violation_or_is_wider_than_the_screen(browser, tmp_path, name, width, dark):
    browser.open(PLAIN[name]().to_html(tmp_path / "page.html"), dark=dark, size=(width, 900), ready=False)
    browser.script(AXE.read_text(encoding="utf-8"))

    assert browser.driver.execute_async_script(CHECK) == []
    assert browser.script("return document.documentElement.scrollWidth <= window.innerWidth")


def test_nothing_moves_for_those_who_ask_for_that(browser, tmp_path):
    browser.open(changed().to_html(tmp_path / "report.html"))
    moving = "return [...document.querySelectorAll('*')].filter((one) => { const style = getComputedStyle(one);"
    moving += " return style.animationName !== 'none' || parseFloat(style.transitionDuration) > 0; }).length"

    browser.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    )
    assert browser.script(moving) == 0
