"""Chromium without a screen, and pages opened from disk as a reader opens them."""

import json
import sys
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

sys.path.insert(0, str(Path(__file__).parent))

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--hide-scrollbars",
)


class Browser:
    """One browser window, with what it wrote to its console and asked the network for."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path, hash="", size=(1400, 1000), dark=False, ready=True):
        self.driver.set_window_size(*size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        self.driver.get("about:blank")
        self.driver.get_log("performance")
        self.driver.get_log("browser")
        self.driver.get(path.as_uri() + hash)
        if ready:
            self.wait(lambda: self.script("return document.documentElement.dataset.ready") == "yes")
        return self

    def wait(self, condition, seconds=20):
        WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda _driver: condition())

    def script(self, text, *args):
        return self.driver.execute_script(text, *args)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        (found,) = self.all(selector)
        return found

    def button(self, text):
        (found,) = [one for one in self.all("button:not(.twist), summary") if one.text == text]
        return found

    def texts(self, selector):
        return [one.text for one in self.all(selector)]

    def row(self, path):
        return self.one(f'.rows .tr[data-path="{path}"]')

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        """Whatever the page asked for beside itself."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
        return [
            url
            for url in urls
            if url != self.driver.current_url.partition("#")[0] and not url.startswith(("blob:", "data:"))
        ]


@pytest.fixture(scope="session")
def driver():
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service("/usr/bin/chromedriver"))
    yield driver
    driver.quit()


@pytest.fixture
def browser(driver):
    return Browser(driver)
