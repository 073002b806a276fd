"""A browser without a window, and hands on the page of a report."""

import json
import shutil

import pytest

PIXEL = """
const map = document.getElementById("map"), [group, number] = arguments;
const trace = map.data.find((each) => each.meta?.group === group);
const {xaxis, yaxis} = map._fullLayout, box = map.getBoundingClientRect();
return [xaxis.d2p(trace.x[number]) - box.width / 2, yaxis.d2p(trace.y[number]) - box.height / 2];
"""


def chromium(width=1400, height=900):
    """A headless Chromium, or a skipped test that says what is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for argument in (
        "--headless=new",
        "--no-sandbox",  # which containers do not allow
        "--disable-dev-shm-usage",
        "--enable-unsafe-swiftshader",  # WebGL without a GPU
        f"--window-size={width},{height}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(programs[1]))


class Hands:
    """What a person does on the page, and sees there."""

    def __init__(self, driver, path):
        from selenium.webdriver import ActionChains, Keys

        self.driver, self.keys = driver, Keys
        self.actions = lambda: ActionChains(driver, duration=50)
        driver.get_log("browser"), driver.get_log("performance")  # of pages before this one
        driver.get(path.as_uri())
        self.wait(lambda: self.js("return document.documentElement.dataset.state === 'ready'"))

    def js(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def wait(self, condition, seconds=60):
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, seconds, 0.05).until(lambda _: condition())

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0]).textContent", selector)

    def shows(self, selector):
        return self.find(selector).is_displayed()

    def traces(self, what):
        """Something of each trace of points, written in JavaScript of `trace`."""
        return self.js(
            "return document.getElementById('map').data.filter((trace) => trace.meta)"
            f".map((trace) => {what})"
        )

    def lines(self):
        """How many lines are on the map."""
        return self.js(
            "return document.getElementById('map').data.filter((trace) => trace.mode === 'lines')"
            ".reduce((sum, trace) => sum + trace.x.length / 3, 0)"
        )

    def pixel(self, group, number):
        """Where a point of a group lies, from the middle of the map."""
        return [round(each) for each in self.js(PIXEL, group, number)]

    def point_at(self, group, number):
        """Hold the mouse over a point."""
        self.actions().move_to_element_with_offset(
            self.find("#map"), *self.pixel(group, number)
        ).perform()

    def click_at(self, group, number):
        self.point_at(group, number)
        self.wait(lambda: self.shows("#tip"))
        self.actions().click().perform()

    def complaints(self):
        """What the console says, but for how the driver of the graphics does its work."""
        return [each for each in self.driver.get_log("browser") if each["source"] != "rendering"]

    def requests(self):
        """The addresses that were asked for, but for the page itself and what it holds."""
        events = [
            json.loads(each["message"])["message"] for each in self.driver.get_log("performance")
        ]
        asked = [
            e["params"]["request"]["url"]
            for e in events
            if e["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
