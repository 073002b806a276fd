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
