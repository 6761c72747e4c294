"""The model graph in a real browser: boxes, lines, frames, mouse and keyboard, and the other views that it selects in."""

import pytest
from made import bert, chain, changed, job, pipeline, resnet
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

LAYER = "bert.encoder.layer.0-11"


@pytest.fixture
def graph(browser, tmp_path):
    def opened(profile, hash="#tab=graph", **options):
        return browser.open(profile.to_html(tmp_path / "report.html"), hash=hash, **options)

    return opened


def boxes(browser):
    """Paths of the boxes, from the top to the bottom."""
    script = "return [...document.querySelectorAll('.box')].sort((a, b) => a.getBoundingClientRect().y - b.getBoundingClientRect().y).map((one) => one.dataset.path)"
    return browser.script(script)


def box(browser, path, number=0):
    return browser.all(f'.box[data-path="{path}"]')[number]


def width_of_line(browser, source, target):
    line = browser.one(f'.flow[data-from="{source}"][data-to="{target}"]')
    return float(line.get_attribute("stroke-width"))


def test_a_stack_is_a_frame_with_one_block_in_it(graph):
    browser = graph(bert())
    browser.button("Open some").click()

    frames = [frame.get_attribute("data-path") for frame in browser.all(".frame")]
    assert LAYER in frames
    (name,) = [text for text in browser.texts(".frame text") if "layer.0-11" in text]
    assert "× 12" in name
    assert "from block to block" in name
    assert len(boxes(browser)) == len(browser.all(".box"))
    assert browser.complaints() == []


def test_data_flows_from_the_top_to_the_bottom(graph):
    browser = graph(resnet())

    found = boxes(browser)
    assert found[0] == ""
    assert found[1:5] == ["conv1", "bn1", "relu", "maxpool"]
    assert found.index("layer1.0-1") < found.index("layer4.0") < found.index("avgpool") < found.index("fc")


def test_a_line_is_as_wide_as_the_data_is_large(graph):
    browser = graph(resnet())

    # conv1 makes 64 x 112 x 112 floats a picture, maxpool a quarter, the mean over each channel 512
    sizes = [width_of_line(browser, "conv1#0", "bn1#0"), width_of_line(browser, "avgpool#0", "fc#0")]
    assert sizes[0] == 9
    assert 1 < sizes[1] < 2


def test_a_click_selects_in_every_view(graph):
    browser = graph(resnet())
    box(browser, "layer3.0").click()

    assert browser.one(".details h2").text == "layer3.0"
    assert "focus=layer3.0" in browser.driver.current_url
    browser.button("Modules").click()
    assert "chosen" in browser.row("layer3.0").get_attribute("class")


def test_what_is_selected_elsewhere_is_framed_here_or_the_closed_module_around_it(graph):
    browser = graph(resnet(), "#tab=graph&focus=layer3.0.conv1")

    assert [one.get_attribute("data-path") for one in browser.all(".box.chosen")] == ["layer3.0"]


def test_a_module_opens_and_closes_by_mouse(graph):
    browser = graph(resnet())
    before = len(browser.all(".box"))
    box(browser, "layer1.0-1").find_element("css selector", ".sign").click()

    assert len(browser.all('.box[data-path="layer1.0-1.relu"]')) == 2, "the block runs it twice"
    assert [one.text for one in browser.all('.box[data-path="layer1.0-1"] .title')] == ["add"]
    frame = browser.one('.frame[data-path="layer1.0-1"] rect')
    browser.script("arguments[0].dispatchEvent(new MouseEvent('click', { bubbles: true }))", frame)
    assert len(browser.all(".box")) == before


def test_the_graph_is_used_by_keyboard(graph):
    browser = graph(resnet())
    at = lambda: browser.script("return document.activeElement.dataset.path")  # noqa: E731
    browser.script("document.querySelector('.box[tabindex=\"0\"]').focus()")
    assert len(browser.all('.box[tabindex="0"]')) == 1

    for keys, path in ((Keys.HOME, ""), (Keys.ARROW_DOWN, "conv1"), (Keys.ARROW_DOWN, "bn1"), (Keys.ARROW_UP, "conv1")):
        ActionChains(browser.driver).send_keys(keys).perform()
        assert at() == path
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    assert browser.one(".details h2").text == "conv1"
    for _ in range(4):
        ActionChains(browser.driver).send_keys(Keys.ARROW_DOWN).perform()
    assert at() == "layer1.0-1"
    ActionChains(browser.driver).send_keys(Keys.SPACE).perform()
    assert at().startswith("layer1.0-1")
    assert browser.all('.box[data-path="layer1.0-1.conv1"]')
    ActionChains(browser.driver).send_keys(Keys.ESCAPE).perform()
    assert at() == "layer1.0-1"
    assert not browser.all('.box[data-path="layer1.0-1.conv1"]')


def test_pointing_at_a_box_tells_its_time_and_lights_its_lines(graph):
    browser = graph(resnet())
    ActionChains(browser.driver).move_to_element(box(browser, "conv1")).perform()

    assert "conv1" in browser.one(".told").text
    assert "takes" in browser.one(".told").text
    assert len(browser.all(".flow.lit")) == 2


def test_a_search_marks_its_hits(graph):
    browser = graph(resnet(), "#tab=graph&query=maxpool")

    assert [one.get_attribute("data-path") for one in browser.all(".box.hit")] == ["maxpool"]


def test_boxes_are_coloured_by_share_by_class_or_by_what_binds_them(graph):
    browser = graph(resnet())
    colours = lambda: [one.get_attribute("fill") for one in browser.all(".box > rect")]  # noqa: E731
    by_share = colours()

    Select(browser.one('select[aria-label="Colour of the boxes"]')).select_by_value("kind")

    assert colours() != by_share
    assert box(browser, "conv1").find_element("css selector", "rect").get_attribute("fill") in colours()
    assert "paint=kind" in browser.driver.current_url


def test_at_most_500_boxes_are_drawn(graph):
    browser = graph(chain(1000))
    browser.button("Open all").click()

    # 50 blocks of 20 layers: each block that is open has 19 boxes more
    assert len(browser.all(".box")) == 50 + 19 * 23
    browser.button("Close all").click()
    assert len(browser.all(".box")) == 50


@pytest.mark.parametrize("size", [(420, 900), (1440, 1000)])
def test_the_graph_fits_every_width(graph, size):
    browser = graph(bert(), size=size)

    assert browser.script("return document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("stages", [2, 4])
def test_the_stages_of_a_pipeline_are_one_graph(graph, stages):
    browser = graph(pipeline(stages))
    browser.button("Close all").click()

    # stages between the first and the last are alike, and so a stack
    middle = {2: [], 4: ["stage1-2"]}[stages]
    assert [path for path in boxes(browser) if path.startswith("stage")] == ["stage0", *middle, f"stage{stages - 1}"]
    links = browser.script("return document.querySelectorAll('.flow').length")
    assert links >= len(middle) + 3, "from the input through every stage to the output"
    assert browser.complaints() == []


def test_work_of_a_module_itself_has_the_value_of_that_work_alone(graph):
    """Also where a figure is known of whole modules only, as the limit is."""
    profile = bert()
    browser = graph(profile, "#tab=graph&metric=param_bytes")
    browser.button("Open all").click()

    # sums between modules hold no parameters
    work = [text for text in browser.texts(".box") if text.startswith("add")]
    assert work
    assert all("B," not in text for text in work)


def test_profiles_without_flows_have_no_graph(graph):
    for profile in (changed(), job()):
        assert "Model graph" not in graph(profile, "").texts('[role="tab"]')
