"""How long the report page takes from opening to being usable, for 1,000 to 50,000 modules, and a model graph to being drawn.

Each page is opened several times and the best counts: other processes only ever add.
Run in the environment of the browser lane: .venvs/browser/bin/python bench/page.py
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parents[1] / "tests" / "lanes" / "browser"
sys.path.insert(0, str(HERE))
TIMES = 5
USABLE = "return Math.max(...['ready', 'first-contentful-paint'].map((name) => performance.getEntriesByName(name)[0]?.startTime ?? 0))"
SEARCH = (
    "const box = document.querySelector('input[type=search]'); const from = performance.now();"
    "box.value = 'group7 linear'; box.dispatchEvent(new Event('input')); return performance.now() - from"
)
OPEN_ALL = (
    "const from = performance.now(); [...document.querySelectorAll('button')].find((one) => one.textContent === 'Open all').click();"
    "document.body.getBoundingClientRect(); return [performance.now() - from, document.querySelectorAll('.box').length]"
)


def main() -> None:
    from conftest import FLAGS, Browser
    from made import chain, many
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service("/usr/bin/chromedriver"))
    with TemporaryDirectory() as folder:
        print(f"{'modules':>8}  {'file':>9}  {'usable after':>12}  {'a search':>9}")
        for modules in (1_000, 10_000, 50_000):
            path = many(modules).to_html(Path(folder) / f"{modules}.html")
            usable, search = [], []
            for _ in range(TIMES):
                page = Browser(driver).open(path)
                usable.append(page.script(USABLE))
                search.append(page.script(SEARCH))
            size = path.stat().st_size / 1e3
            print(f"{modules:>8,}  {size:>6.0f} kB  {min(usable):>9.0f} ms  {min(search):>6.0f} ms")
        print(f"{'boxes':>8}  {'graph drawn after':>17}")
        for boxes in (100, 500):
            path = chain(boxes).to_html(Path(folder) / f"{boxes}.html")
            took = [Browser(driver).open(path, "#tab=graph").script(OPEN_ALL) for _ in range(TIMES)]
            print(f"{took[0][1]:>8,}  {min(took)[0]:>14.0f} ms")
    driver.quit()


if __name__ == "__main__":
    main()
