"""The report page in a real browser: every interaction, in light and dark, wide and narrow, without a request or an error."""

import json
import re
from dataclasses import replace

import pytest
from made import (
    EVIL,
    bert,
    changed,
    deep,
    hostile,
    incomplete,
    job,
    llama_405b,
    long_names,
    many,
    no_time_at_all,
    oddly_named,
    resnet,
    without_anything,
)
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from flopsight import units
from flopsight.analysis.folding import folded_paths
from flopsight.hardware.named import named_ceilings
from flopsight.render.html import write
from flopsight.render.html.static import standalone
from flopsight.results.caveats import BusyMachine

ODD = {"names": oddly_named, "nothing": without_anything, "no time": no_time_at_all, "deep": deep, "job": incomplete}
PAGES = {"resnet": resnet, "bert": bert, "405b": llama_405b, "hostile": hostile, "diff": changed, "job": job}
SIZES = {"desktop": (1400, 1000), "phone": (380, 780), "4k": (3840, 2160)}


@pytest.fixture
def page(tmp_path):
    def write(profile):
        return profile.to_html(tmp_path / "report.html")

    return write


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_opens_without_an_error_or_a_request(browser, page, name, dark):
    browser.open(page(PAGES[name]()), dark=dark)
    for tab in browser.all('[role="tab"]'):
        tab.click()

    assert browser.complaints() == []
    assert browser.requests() == []


@pytest.mark.parametrize("size", SIZES)
def test_a_page_fits_every_width(browser, page, size):
    browser.open(page(resnet()), size=SIZES[size])

    assert browser.script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.all(".rows .tr")


@pytest.mark.parametrize("width", [420, 1440])
@pytest.mark.parametrize("name", ODD)
def test_odd_profiles_are_drawn_within_the_screen_and_without_a_number_that_is_none(browser, page, name, width):
    browser.open(page(ODD[name]()), size=(width, 900))
    shown = (
        "return [document.body.innerText, ...[...document.querySelectorAll('#app *')].flatMap((one) =>"
        " [...one.attributes].map((attribute) => attribute.value))].join('\\n')"
    )
    for tab in [tab.get_attribute("id") for tab in browser.all('[role="tab"]')]:
        browser.script(f"document.getElementById('{tab}').click()")
        assert not re.findall(r"\b(?:NaN|Infinity|undefined|null|object Object)\b", browser.script(shown)), tab
        assert browser.script("return document.documentElement.scrollWidth <= window.innerWidth"), tab

    assert not browser.all("img")
    assert browser.complaints() == []


def test_the_chosen_tab_is_in_sight_and_more_titles_are_hinted_at(browser, page):
    browser.open(page(bert()))
    browser.script("document.querySelector('.tabs').style.width = '240px'")
    hints = lambda: browser.one(".tabs").get_attribute("class").split()[1:]  # noqa: E731

    browser.wait(lambda: hints() == ["after"])
    browser.script("document.getElementById('tab-memory').click()")
    browser.wait(lambda: hints() == ["before"])
    strip, tab = browser.one(".tabs").rect, browser.one("#tab-memory").rect
    assert strip["x"] <= tab["x"]
    assert tab["x"] + tab["width"] <= strip["x"] + strip["width"]


def test_no_column_is_cut_on_a_wide_screen(browser, page):
    cut = (
        "return [...document.querySelectorAll('.wide, .grid-box, .scroller, .head button')]"
        ".filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.className + one.textContent.slice(0, 40))"
    )
    browser.open(page(job()), size=(1440, 1000))
    for tab in [tab.get_attribute("id") for tab in browser.all('[role="tab"]')]:
        browser.one(f"#{tab}").click()
        assert browser.script(cut) == [], tab


def test_shapes_and_names_have_room_for_what_they_hold(browser, page):
    cut = "return [...document.querySelectorAll('.rows .td')].filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
    for profile in (bert(), resnet()):
        browser.open(page(profile), size=(1440, 1000))
        assert browser.script(cut) == []

    browser.open(page(long_names()), size=(1440, 1000))
    assert browser.script(cut) == []

    browser.open(page(resnet()), size=(420, 800))
    # the class stands in the details, so that a name has the column for itself
    assert browser.row("conv1").find_element("css selector", ".name").text == "conv1"


@pytest.mark.parametrize("width", [420, 1440])
def test_a_page_without_script_fits_every_width(driver, tmp_path, width):
    cells = "".join(f"<td>column {number} of a wide table</td>" for number in range(30))
    path = tmp_path / "plain.html"
    path.write_text(standalone("Plain", f"<h1>Plain</h1><table><tr>{cells}</tr></table>"), encoding="utf-8")

    driver.set_window_size(width, 900)
    driver.get(path.as_uri())

    assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert driver.execute_script("return getComputedStyle(document.body).color") == "rgb(27, 35, 48)"  # --ink


def test_the_headline_is_the_profiles(browser, page):
    browser.open(page(bert()))

    # BERT-base with a classifier of two: 109,482,240 + 768 * 2 + 2 parameters
    assert "109 M" in browser.one(".tiles").text
    browser.button("All figures").click()
    assert "109,483,778" in browser.one(".cards").text


def test_a_doubt_stands_beside_the_number_that_it_touches(browser, page):
    browser.open(page(replace(resnet(), caveats=(BusyMachine(10, 0.3),))))

    signs = {
        tile.find_element("css selector", "dt").text: bool(tile.find_elements("css selector", ".doubt"))
        for tile in browser.all(".tile")
    }
    assert signs["Time of a step ⚠"]
    assert not signs["Parameters"]


def test_identical_blocks_are_one_bar_of_the_icicle(browser, page):
    browser.open(page(llama_405b()))
    canvas = browser.one(".icicle canvas")

    top = canvas.size["height"] / 2
    ActionChains(browser.driver).move_to_element_with_offset(canvas, 0, int(2 * 24 + 12 - top)).perform()

    assert "layers.0-125 × 126" in browser.one(".icicle .tip").text


def test_rows_with_a_small_share_are_hidden_on_request(browser, page):
    browser.open(page(bert()), hash="#metric=params")
    Select(browser.one('select[aria-label="Filter"]')).select_by_value("0.05")

    shown = [row.get_attribute("data-path") for row in browser.all(".rows .tr")]
    # of 109.5 million parameters the words have 23.4, the positions 0.4, the pooler 0.6
    assert "bert.embeddings.word_embeddings" in shown
    assert "bert.embeddings.position_embeddings" not in shown
    assert "bert.pooler" not in shown
    assert "least=0.05" in browser.driver.current_url


def test_a_phase_has_its_columns(browser, page):
    browser.open(page(bert()))
    Select(browser.one('select[aria-label="Phase"]')).select_by_value("backward")

    assert browser.texts('[role="columnheader"]') == ["module", "backward FLOPs", "params", "gradient bytes", "output"]
    Select(browser.one('select[aria-label="Phase"]')).select_by_value("")
    assert "FLOPs" in browser.texts('[role="columnheader"]')


def test_a_click_in_the_icicle_focuses_table_and_details(browser, page):
    browser.open(page(bert()))
    canvas = browser.one(".icicle canvas")

    # the third bar from the top spans the whole width: bert, then its encoder
    top = canvas.size["height"] / 2
    ActionChains(browser.driver).move_to_element_with_offset(canvas, 0, int(2 * 24 + 12 - top)).click().perform()

    assert browser.one(".details h2").text == "bert.encoder"
    assert browser.texts(".crumbs button")[-1] == "encoder"
    assert "chosen" in browser.row("bert.encoder").get_attribute("class")
    assert "focus=bert.encoder" in browser.driver.current_url


def test_the_icicle_is_used_by_keyboard(browser, page):
    browser.open(page(bert()))
    canvas = browser.one(".icicle canvas")

    for keys, focus in (
        (Keys.ARROW_DOWN, "bert"),
        (Keys.ENTER, "bert.embeddings"),
        (Keys.ARROW_RIGHT, "bert.encoder"),
        (Keys.ESCAPE, "bert"),
    ):
        canvas.send_keys(keys)
        assert browser.one(".details h2").text == focus


def test_a_stack_of_identical_blocks_is_one_row_that_opens(browser, page):
    browser.open(page(llama_405b()))

    # open from the beginning: what stands inside the blocks, each once
    assert "× 126" in browser.row("layers.0-125").text
    assert "× 126" in browser.row("layers.0-125.gate").text
    assert not browser.all('.rows .tr[data-path="layers.1"]')
    browser.button("each").click()
    assert "Block" in browser.row("layers.1").text
    browser.button("as one").click()
    assert not browser.all('.rows .tr[data-path="layers.1"]')
    browser.row("layers.0-125").find_element("css selector", ".twist").click()
    assert not browser.all('.rows .tr[data-path="layers.0-125.gate"]')


def figures(browser):
    """The details' figures: label, then total, share and what each has."""
    rows = browser.all(".modules .details > table tr")[1:]
    return {
        row.find_element("css selector", "th").text: [one.text for one in row.find_elements("css selector", "td")]
        for row in rows
    }


def test_a_stack_stays_a_stack_in_every_view(browser, page):
    profile = llama_405b()
    browser.open(page(profile))
    # 53248 x 16384 weights in each of 126 blocks
    each = 53248 * 16384

    browser.row("layers.0-125.gate").click()
    assert browser.one(".modules .details h2").text == "layers.0-125.gate × 126"
    assert figures(browser)["params"][::2] == [units.si(126 * each), units.si(each)]
    assert "focus=layers.0-125.gate" in browser.driver.current_url

    browser.one("#tab-memory").click()
    link = next(one for one in browser.all("main button.link") if one.text.startswith("layers.0-125.gate x 126"))
    link.click()
    assert browser.one(".modules .details h2").text == "layers.0-125.gate × 126"
    assert browser.texts(".crumbs button")[1:] == ["layers", "0-125 × 126", "gate"]


def test_a_search_keeps_stacks_together(browser, page):
    browser.open(page(llama_405b()), hash="#query=gate")

    assert [row.get_attribute("data-path") for row in browser.all(".rows .tr")] == [
        "", "layers", "layers.0-125", "layers.0-125.gate",
    ]  # fmt: skip
    assert "126 matches" in browser.one(".table-box .controls").text


def test_search_finds_modules_by_path_and_class(browser, page):
    browser.open(page(bert()))
    ActionChains(browser.driver).send_keys("/").perform()
    ActionChains(browser.driver).send_keys("layer.7 linear").perform()

    shown = [row.get_attribute("data-path") for row in browser.all(".rows .tr")]
    # query, key, value, two outputs and the intermediate one
    assert (
        sum(
            "layer.7." in path and row.find_elements("css selector", ".name")[0].text.endswith("Linear")
            for path, row in zip(shown, browser.all(".rows .tr"), strict=True)
        )
        == 6
    )
    assert "6 matches" in browser.one(".table-box .controls").text
    assert "layer.8" not in " ".join(shown)


def test_columns_sort_both_ways_and_back(browser, page):
    browser.open(page(resnet()))
    browser.one('.controls label[title^="Every row without"] input').click()

    def column():
        return browser.script(
            "return [...document.querySelectorAll('.rows .tr')].slice(0, 6).map(row => row.dataset.path)"
        )

    browser.one('[data-sort="params"]').click()
    # by parameters the whole model comes first, then the last stage, which holds three quarters of them
    assert column()[:2] == ["", "layer4"]
    browser.one('[data-sort="params"]').click()
    assert "layer4" not in column()
    browser.one('[data-sort="params"]').click()
    assert column()[0] == ""


def test_self_only_shows_what_a_module_does_itself(browser, page):
    browser.open(page(resnet()), hash="#columns=flops")

    whole = browser.row("").text
    browser.one('.controls label[title^="Figures of the module itself"] input').click()

    assert "14.6 G" in whole
    assert "14.6 G" not in browser.row("").text


def test_columns_are_chosen_and_kept_in_the_address(browser, page):
    path = page(resnet())
    browser.open(path)
    browser.button("Columns").click()
    browser.one('input[data-metric="macs"]').click()

    assert "MACs" in browser.texts('[role="columnheader"]')
    again = browser.driver.current_url.partition("#")[2]
    browser.open(path, hash=f"#{again}")
    assert "MACs" in browser.texts('[role="columnheader"]')


def test_the_table_is_used_by_keyboard(browser, page):
    browser.open(page(bert()))
    table = browser.one(".scroller")

    table.send_keys(Keys.HOME, Keys.ARROW_DOWN, Keys.ENTER)
    assert browser.one(".details h2").text == "bert"
    table.send_keys(Keys.ARROW_LEFT)
    assert not browser.all('.rows .tr[data-path="bert.encoder"]')
    table.send_keys(Keys.ARROW_RIGHT)
    assert browser.all('.rows .tr[data-path="bert.encoder"]')


def test_tabs_are_moved_through_by_arrows(browser, page):
    browser.open(page(bert()))
    first = browser.all('[role="tab"]')[0]
    first.send_keys(Keys.ARROW_RIGHT)

    chosen = browser.one('[role="tab"][aria-selected="true"]')
    assert chosen.text == browser.texts('[role="tab"]')[1]


@pytest.mark.parametrize(
    ("menu", "sign"), [("as Markdown", "| module |"), ("as CSV", "module,"), ("as LaTeX", r"\begin{tabular}")]
)
def test_the_table_is_copied(browser, page, menu, sign):
    browser.open(page(resnet()))
    browser.script(
        "document.execCommand = () => true; navigator.clipboard.writeText = async (text) => { window.copied = text; }"
    )
    browser.button("Copy").click()
    browser.button(menu).click()

    browser.wait(lambda: browser.script("return window.copied"))
    assert sign in browser.script("return window.copied")


def test_a_name_that_tries_to_be_markup_stays_text(browser, page):
    browser.open(page(hostile()))
    browser.script("window.alert = () => { window.attacked = true; }")
    browser.row(EVIL.replace('"', '\\"')).click()
    for tab in browser.all('[role="tab"]'):
        tab.click()

    assert not browser.all("img")
    assert not browser.script("return window.attacked")
    assert browser.complaints() == []


def test_a_name_that_tries_to_be_a_formula_stays_text_in_csv(browser, page):
    browser.open(page(hostile()))
    browser.script("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    browser.button("Copy").click()
    browser.button("as CSV").click()
    browser.wait(lambda: browser.script("return window.copied"))

    assert not any(
        line.startswith(("=", "+", "-", "@")) for line in browser.script("return window.copied").splitlines()
    )


def test_memory_over_the_step_is_read_by_keyboard_and_leads_to_the_module(browser, page):
    profile = bert()
    browser.open(page(profile), hash="#tab=memory")
    canvas = browser.one("main canvas")
    peak = profile.memory_curve.highest

    canvas.send_keys(Keys.ARROW_RIGHT)
    assert units.size(profile.peak_bytes) in browser.one("main .tip").text
    canvas.send_keys(Keys.ARROW_LEFT)
    assert units.size(profile.memory_curve.total[peak - 1]) in browser.one("main .tip").text
    canvas.send_keys(Keys.ENTER)

    # the row of the stack, not of one block
    path = profile.memory_curve.modules[peak - 1]
    assert browser.one(".details h2").text.partition(" × ")[0] == folded_paths(profile.root)[path]


def test_one_time_is_the_whole_steps_everywhere(browser, page):
    profile = resnet()
    browser.open(page(profile))
    step = units.seconds(profile.timing.whole.median)

    assert f"Time of a step\n{step}" in browser.one(".tiles").text.replace(" ⚠", "")
    assert step in browser.row("").text
    assert figures(browser)["time"][:2] == [step, "100%"]
    assert step in browser.one(".icicle canvas").get_attribute("aria-label")


def test_on_another_device_its_limit_comes_first_and_times_name_where_they_are_from(browser, tmp_path):
    browser.open(write(resnet(), tmp_path / "report.html", on="h100-sxm"))

    heads = browser.texts('[role="columnheader"]')
    assert heads[1] == "limit on H100 SXM5 80GB"
    assert "time" not in heads
    labels = [option.text for option in Select(browser.one('select[aria-label="Width of the bars"]')).options]
    assert labels[0] == "limit on H100 SXM5 80GB"
    assert labels[1].startswith("time on ")


def test_the_finding_that_promises_most_is_on_the_first_screen(browser, tmp_path):
    browser.open(write(llama_405b(), tmp_path / "report.html", on="h100-sxm"))

    first = browser.one(".first")
    assert "does not fit the device's memory" in first.text
    assert first.location["y"] + first.size["height"] < 1000
    first.find_element("css selector", "button").click()
    assert browser.one('[role="tab"][aria-selected="true"]').text == "Findings"


def test_a_point_of_the_roofline_is_selected_everywhere(browser, tmp_path):
    browser.open(write(llama_405b(), tmp_path / "report.html", on="h100-sxm"), hash="#tab=roofline")

    point = browser.one('.point[data-path="layers.0-125.gate"]')
    point.send_keys(Keys.ENTER)

    assert "chosen" in browser.one('.point[data-path="layers.0-125.gate"]').get_attribute("class")
    assert browser.one(".details h2").text == "layers.0-125.gate × 126"
    assert "layers.0-125.gate × 126" in browser.one(".told").text
    # a forward and two backward products of 512 tokens in each of 126 blocks, all of which compute binds
    limit = 126 * 3 * 2 * 512 * 16384 * 53248 / named_ceilings("h100-sxm").flops["float32"]
    assert f"limit {units.seconds(limit)}" in browser.one(".told").text


def test_the_diff_ranks_what_changed(browser, page):
    browser.open(page(changed()))

    assert browser.one('[role="tab"][aria-selected="true"]').text == "What changed"
    heaviest, second = browser.all(".grid")[1].text.splitlines()[1:3]
    # the ReLU saved 4 * 16 floats, all that the model saved, and saves as many more
    assert "256 B" in heaviest
    # Linear(8, 16) became Linear(8, 32): 4 * 16 * (2 * 8 + 1) = 1,088 FLOPs more, 144 of 178 parameters more
    assert "+1.09 k" in second


def test_the_ranks_of_a_job_stand_side_by_side(browser, page):
    browser.open(page(job()))
    browser.one("#tab-ranks").click()

    ranks, collectives = browser.all(".grid")
    assert len(ranks.find_elements("css selector", "tbody tr")) == 16
    # 2 ms over a mean of (15 * 1 + 2) / 16 = 1.0625 ms
    assert "88.2%" in browser.one("main").text
    assert "Rank 15 has the longest step" in browser.one("main").text
    collectives.find_element("css selector", "button.link").click()
    assert browser.one(".details h2").text == "0"


def test_without_script_the_static_tree_is_shown(driver, page):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get(page(bert()).as_uri())
        text, source = driver.find_element("css selector", "body").text, driver.page_source
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})

    assert "BertForSequenceClassification" in text
    assert "embeddings: BertEmbeddings" in text
    assert "0-11: BertLayer" in source


@pytest.mark.parametrize("modules", [10_000, 50_000])
def test_a_large_profile_is_drawn_whole(browser, page, modules):
    browser.open(page(many(modules)))

    assert f"rows of {modules} modules" in browser.one(".table-box .controls").text
    browser.button("Expand all").click()
    browser.one(".scroller").send_keys(Keys.END)
    assert len(browser.all(".rows .tr")) < 120, "only what is in sight is drawn"


def test_the_data_is_downloaded_as_json(browser, page):
    browser.open(page(bert()))
    browser.script(
        "URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return 'blob:none'; }"
    )
    browser.button("Download data").click()

    browser.wait(lambda: browser.script("return window.saved"))
    assert json.loads(browser.script("return window.saved"))["title"].startswith("BertForSequenceClassification")
