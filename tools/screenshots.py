"""Take pictures of a report: `python tools/screenshots.py result/report.html pictures`.

They show it as readers see it: `1280.png` on a screen and `390.png` on a phone, whole; `first.png` without scrolling;
and `report.pdf` on paper. `docs/figures/report.png` is the `first.png` of `fgsv demo`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTHS = (1280, 390)


def photograph(report: Path, folder: Path) -> list[Path]:
    """Write the pictures of a report into a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with sync_playwright() as runner:
        browser = runner.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(report.absolute().as_uri())
        page.wait_for_function("window.fgsvCharts.then(() => true)")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            made.append(folder / f"{width}.png")
            page.screenshot(path=made[-1], full_page=True)
        page.set_viewport_size({"width": 1000, "height": 900})
        made += [folder / "first.png", folder / "report.pdf"]
        page.screenshot(path=made[-2])
        page.pdf(path=made[-1], prefer_css_page_size=True)
        browser.close()
    return made


if __name__ == "__main__":
    for path in photograph(*map(Path, sys.argv[1:])):
        print(path)
