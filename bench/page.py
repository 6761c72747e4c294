"""How long the report page takes from opening to being usable, for profiles of 1,000 to 50,000 modules.

Run in the environment of the browser lane: .venvs/browser/bin/python bench/page.py
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parents[1] / "tests" / "lanes" / "browser"
sys.path.insert(0, str(HERE))


def main() -> None:
    from conftest import FLAGS, Browser
    from made import many
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service("/usr/bin/chromedriver"))
    print(f"{'modules':>8}  {'file':>9}  {'usable after':>12}  {'a search':>9}")
    with TemporaryDirectory() as folder:
        for modules in (1_000, 10_000, 50_000):
            path = many(modules).to_html(Path(folder) / f"{modules}.html")
            browser = Browser(driver).open(path)
            usable = browser.script("return performance.getEntriesByName('ready')[0].startTime")
            search = browser.script(
                "const box = document.querySelector('input[type=search]'); const from = performance.now();"
                "box.value = 'group7 linear'; box.dispatchEvent(new Event('input')); return performance.now() - from"
            )
            print(f"{modules:>8,}  {path.stat().st_size / 1e3:>6.0f} kB  {usable:>9.0f} ms  {search:>6.0f} ms")
    driver.quit()


if __name__ == "__main__":
    main()
