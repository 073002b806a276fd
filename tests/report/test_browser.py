"""The page in a real browser, headless Chromium.

apt-get install chromium chromium-driver
pytest -m slow tests/report/test_browser.py
"""

import pytest
from browser import Hands, chromium
from report_cases import HOSTILE, circle, texts

from jsem_pyg.report import report

pytestmark = pytest.mark.slow  # most of a minute
NAMES = ["<i>one</i>", "two", "three"]


@pytest.fixture(scope="module")
def driver():
    browser = chromium()
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    data, found = circle()
    return report(
        data,
        found,
        tmp_path_factory.mktemp("report") / "map.html",
        text=texts(60),
        cluster_names=NAMES,
        label_names=["A", "B", "C"],
        scores={"raw": {"ARI": (0.5, 0.01)}},
        settings={"<seed>": 0},
        layout="pca",
    )


@pytest.fixture
def hands(driver, path):
    found = Hands(driver, path)
    yield found
    assert found.complaints() == []
    assert found.requests() == []
    assert found.driver.title == "Map of diffused points"  # which hostile texts try to change


def test_the_map_is_drawn(hands):
    assert hands.traces("trace.x.length") == [20, 20, 20]
    assert set(hands.traces("trace.type")) == {"scattergl"}
    assert hands.js("return document.querySelectorAll('#map canvas').length") > 0
    assert not hands.shows("#failure")
    names = hands.find_all(".legend:not([hidden]) .group bdi, .legend:not([hidden]) .group [dir]")
    assert [each.text for each in names] == NAMES


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_pointing_at_a_point_shows_its_text_as_it_is(hands, number):
    hands.point_at(0, number)
    hands.wait(lambda: hands.shows("#tip"))
    assert hands.text("#tip .facts") == f"cluster: <i>one</i> · label: A · point {number}"
    assert hands.text("#tip .text") == HOSTILE[number]
    right = "return document.querySelector(arguments[0]).getBoundingClientRect().right"
    assert hands.js(right, "#tip") <= hands.js(right, "#map")
    hands.actions().move_to_element(hands.find("h1")).perform()
    hands.wait(lambda: not hands.shows("#tip"))


def test_the_search_highlights(hands):
    hands.find("#search").send_keys("NUMBER 2")
    hands.wait(lambda: hands.shows("#found"))
    expected = [i for i, text in enumerate(texts(60)) if "number" in text and "2" in text]
    assert hands.text("#found-count") == f"{len(expected)} points with “number 2”."
    points = [
        int(each.get_attribute("data-point")) for each in hands.find_all("#found-list button")
    ]
    assert points == expected
    assert sum(hands.traces("trace.selectedpoints.length")) == len(expected)
    assert hands.text("#news").startswith(f"{len(expected)} points")
    hands.find("#search").send_keys(hands.keys.ESCAPE)
    hands.wait(lambda: not hands.shows("#found"))
    assert hands.traces("trace.selectedpoints") == [None, None, None]


def test_the_slider_goes_through_the_times(hands):
    before = hands.traces("Array.from(trace.x)")
    assert hands.text("#time-shown") == "t = 0.5"
    hands.find("#time").send_keys(hands.keys.HOME)
    assert hands.text("#time-shown") == "t = 0, raw"
    hands.wait(lambda: hands.traces("Array.from(trace.x)") != before)
    hands.find("#time").send_keys(hands.keys.END)
    hands.wait(lambda: hands.traces("Array.from(trace.x)") == before)


def test_a_chosen_point_shows_its_edges(hands):
    hands.click_at(0, 12)
    hands.wait(lambda: hands.shows("#point"))
    assert hands.text("#point-text") == "text number 12"
    data, found = circle()
    own = data.edge_index[0] == 12
    of = dict(zip(data.edge_index[1, own].tolist(), found.conductances[own].tolist(), strict=True))
    listed = {
        int(each.get_attribute("data-point")): float(
            each.find_element("css selector", ".value").text
        )
        for each in hands.find_all("#point-edges button")
    }
    assert listed == pytest.approx(of, abs=6e-4)
    assert list(listed.values()) == sorted(listed.values(), reverse=True)
    assert hands.lines() == len(of)
    hands.find("#point-edges button").send_keys(hands.keys.ENTER)  # walk on along an edge
    assert hands.text("#point-text") == texts(60)[next(iter(listed))]
    hands.find("#unchoose").click()
    assert hands.lines() == 0
    assert not hands.shows("#point")


def test_the_edges_that_closed(hands):
    data, found = circle()
    few = int((found.conductances < 0.25).sum()) // 2
    assert few > 0
    assert hands.text("#closed-count").startswith(
        f"{few} of {data.num_edges // 2} edges conduct less"
    )
    hands.find("#closed-shown").click()
    assert hands.lines() == few
    hands.find("#threshold").send_keys(hands.keys.END)
    hands.wait(lambda: hands.lines() == data.num_edges // 2)
    hands.find("#closed summary").click()
    assert len(hands.find_all("#closed-list li")) == min(50, data.num_edges // 2)


def test_a_failure_is_said(driver, path, tmp_path):
    broken = tmp_path / "broken.html"
    source = path.read_text(encoding="utf-8")
    broken.write_text(
        source.replace('type="text/plain">', 'type="text/plain">!', 1), encoding="utf-8"
    )
    driver.get(broken.as_uri())
    shown = driver.find_element("css selector", "#failure")
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 20).until(lambda _: shown.is_displayed())
    assert shown.text.startswith("The map could not be drawn")
    driver.get_log("browser")
