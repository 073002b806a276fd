"""Names, levels, pictures and fingers on the map, in headless Chromium."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from browser import Hands, chromium
from report_cases import circle

from jsem_pyg.report import report

pytestmark = pytest.mark.slow  # most of a minute
BOXES = """
return [...document.querySelectorAll("#map .annotation rect.bg")].map((each) => {
  const {left, right, top, bottom} = each.getBoundingClientRect();
  return [each.closest(".annotation").textContent, left, right, top, bottom];
});
"""
TOUCH = """
const map = document.getElementById("map");
const {left, top, width, height} = map.getBoundingClientRect();
for (const [type, apart] of [["touchstart", 50], ["touchmove", 150], ["touchend", 0]]) {
  const touches = (apart ? [-apart, apart] : []).map((shift, identifier) => new Touch({
    identifier, target: map, clientX: left + width / 4 + shift, clientY: top + height / 2,
  }));
  map.dispatchEvent(new TouchEvent(type, {touches, bubbles: true, cancelable: true}));
}
"""


@pytest.fixture(scope="module")
def driver():
    browser = chromium()
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """240 points on a circle in 30 clusters, three at the next level, each with its picture."""
    data, found = circle(240, 30)
    del data.y
    found = replace(found, levels=(found.labels // 10,))
    return report(
        data,
        found,
        tmp_path_factory.mktemp("report") / "map.html",
        images=np.arange(240 * 6).reshape(240, 2, 3),
        layout="pca",
    )


@pytest.fixture
def hands(driver, path):
    found = Hands(driver, path)
    yield found
    assert found.complaints() == []


def names(hands):
    """The names on the map, none of which covers another."""
    boxes = hands.js(BOXES)
    for (_, left, right, top, bottom), (_, *other) in combinations(boxes, 2):
        apart = left >= other[1] or other[0] >= right or top >= other[3] or other[2] >= bottom
        assert apart
    return {text for text, *_ in boxes}


def scroll(hands, steps):
    for _ in range(steps):
        script = "document.querySelector('#map .nsewdrag').dispatchEvent(new WheelEvent('wheel', "
        hands.js(f"{script}{{deltaY: -100, clientX: 500, clientY: 400, bubbles: true}}))")


def test_names_do_not_cover_each_other_and_follow_the_legend(hands):
    before = names(hands)
    assert len(before) > 12
    assert before <= {f"cluster {number}" for number in range(30)}
    shown = hands.find_all(".legend:not([hidden]) .group")
    gone = int(next(iter(before)).split()[1])
    shown[gone].click()
    assert f"cluster {gone}" not in names(hands)
    hands.find(".legend:not([hidden]) .none").click()
    assert names(hands) == set()


def test_many_names_hide_while_the_map_zooms(hands):
    visible = "return getComputedStyle(document.querySelector('#map .annotation')).display"
    assert hands.js(visible) != "none"
    hands.js(
        "window.seen = []; document.getElementById('map').on('plotly_relayouting', () => "
        "window.seen.push(getComputedStyle(document.querySelector('#map .annotation')).display))"
    )
    scroll(hands, 3)
    hands.wait(lambda: hands.js("return window.seen.length > 0"))
    assert set(hands.js("return window.seen")) == {"none"}
    hands.wait(lambda: not hands.js("return document.querySelector('#map.zooming') !== null"))
    assert hands.js(visible) != "none"
    names(hands)


def test_the_slider_shows_another_level(hands):
    assert hands.text("#level-shown") == "30 clusters, taken"
    hands.find("#level").send_keys(hands.keys.HOME)
    assert hands.text("#level-shown") == "3 clusters"
    assert hands.traces("trace.x.length") == [80, 80, 80]
    assert names(hands) == {"cluster 0", "cluster 1", "cluster 2"}


def test_pictures_are_shown_where_one_points_and_where_one_chooses(hands):
    grey = """
    const canvas = document.querySelector(arguments[0] + " .picture");
    const {width, height} = canvas;
    const {data} = canvas.getContext("2d").getImageData(0, 0, width, height);
    return [width, height, ...data.filter((_, i) => i % 4 === 0)];
    """
    hands.click_at(20, 3)  # point 163 of 240
    expected = 255 - np.rint((163 * 6 + np.arange(6)) * 255 / (240 * 6 - 1))
    for place in ("#tip", "#point"):
        assert hands.shows(f"{place} .picture")
        assert hands.js(grey, place) == [3, 2, *expected]


def test_a_lasso_over_several_clusters_leaves_the_panel_as_wide_as_it_is(hands):
    width = "return document.getElementById('panel').clientWidth"
    page = "return document.documentElement.scrollWidth <= innerWidth"
    before = hands.js(width)
    hands.find("#lasso").click()
    wide, high = 400, 200
    hands.lasso([(-wide, -high), (wide, -high), (wide, high), (-wide, high), (-wide, -high)])
    hands.wait(lambda: hands.shows("#found"))
    groups = sum(each > 0 for each in hands.traces("trace.selectedpoints.length"))
    assert len(hands.find_all("#found-groups .part")) == 12 < groups
    assert hands.text("#found-groups").endswith(f"and {groups - 12} more clusters")
    assert hands.js(width) == before
    assert hands.js(page)


def test_two_fingers_zoom(hands):
    reach = "return document.getElementById('map').layout.xaxis.range"
    low, high = hands.js(reach)
    hands.js(TOUCH)
    nearer, farther = hands.js(reach)
    assert farther - nearer == pytest.approx((high - low) / 3)
    between = 0.75 * low + 0.25 * high  # stays where the fingers are
    assert 0.75 * nearer + 0.25 * farther == pytest.approx(between)


def test_the_map_and_its_names_fit_into_any_window(hands):
    size = hands.driver.get_window_size()
    fits = """
    const map = document.getElementById("map");
    const {left, right, top, bottom} = map.getBoundingClientRect();
    const {width, height} = map._fullLayout;
    return [width === map.clientWidth && height === map.clientHeight, left, right, top, bottom];
    """
    over = """
    const [help, panel] = ["help", "panel"].map((id) => document.getElementById(id));
    const below = help.getBoundingClientRect().bottom - panel.getBoundingClientRect().top;
    return innerWidth > 960 ? 0 : below; // in wide windows it stands beside
    """
    try:
        for width, height in ((700, 900), (800, 400), (1200, 700)):
            hands.driver.set_window_size(width, height)
            hands.wait(lambda: hands.js(fits)[0])
            assert hands.js(over) <= 0
            _, left, right, top, bottom = hands.js(fits)
            assert len(names(hands)) > 4
            for _, *box in hands.js(BOXES):
                assert left <= box[0] < box[1] <= right
                assert top <= box[2] < box[3] <= bottom
    finally:
        hands.driver.set_window_size(size["width"], size["height"])
