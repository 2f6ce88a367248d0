#!/usr/bin/env python3
"""The page of tarn browse in a real Chromium: loading, scrolling, searching, filtering, selecting, the
keyboard, both themes, and data that tries to become code. `--shots FOLDER` also writes screenshots."""
import io
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import peer

peer.needs("selenium", "numpy", "PIL.Image")

import numpy as np  # noqa: E402
import PIL.Image  # noqa: E402
import PIL.ImageDraw  # noqa: E402
import tarn  # noqa: E402
from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not BROWSER or not DRIVER:
    peer.skip("chromium or chromedriver is not installed (Debian: chromium, chromium-driver)")

COUNT, LONG = 600, 10_000_000
NAMES = ["kiwi", "owl", "jay", "auk", "wren", "heron"]
EVIL = '<img src=x onerror=pwned()>"\'<script>pwned()<'
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="pwned()"><script>pwned()</script></svg>'
CODE = b"<script>document.body.innerHTML='pwned'; pwned()</script><img src=x onerror=pwned()>"


def picture(i):
    width, height = [(320, 240), (240, 320), (400, 300), (256, 256), (500, 280)][i % 5]
    image = PIL.Image.new("HSV", (width, height), (i * 47 % 256, 90, 235))
    draw = PIL.ImageDraw.Draw(image)
    for k in range(7):
        x, y, r = (i * 131 + k * 77) % width, (i * 71 + k * 53) % height, 14 + (i * 13 + k * 29) % 46
        draw.ellipse([x - r, y - r, x + r, y + r], fill=((i * 47 + 80 + k * 21) % 256, 170, 225))
    out = io.BytesIO()
    image.convert("RGB").save(out, "JPEG", quality=88)
    return out.getvalue()


def sound(i):
    data = struct.pack("<4000h", *(int(9000 * np.sin(k * (200 + i) / 1300)) for k in range(4000)))
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt "
            + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16) + b"data" + struct.pack("<I", len(data)) + data)


def make(folder):
    with tarn.DatasetWriter(folder / "birds", max_count=200) as out:
        for i in range(COUNT):
            name = NAMES[i * 7 % 6]
            sample = {"__key__": f"{name}_{i:05}", "jpg": picture(i), "cls": i * 7 % 6, "txt": f"a {name} in the reeds",
                      "json": {"id": i, "tags": [name, "bird"], "meta": {"license": "CC0", "score": i / 10}}}
            if i % 7 == 0:
                sample["mask.npy"] = (np.arange(48 * 64, dtype="f4").reshape(48, 64) * (1 + i % 3)) % 97
            if i % 5 == 0:
                sample["wav"] = sound(i)
            if i % 50 == 0:
                sample["bin"] = bytes(range(256)) * 2
            out.write(sample)
    with tarn.DatasetWriter(folder / "evil") as out:
        out.write({"__key__": EVIL, "txt": CODE.decode(), "html": CODE, "svg": SVG, "jpg": SVG, "png": CODE,
                   "json": json.dumps({CODE.decode(): [CODE.decode(), "</script>", "__proto__"], "__proto__": {"x": 1}}).encode(),
                   "wav": CODE, "mp4": SVG})
        out.write({"__key__": "javascript:pwned()", "txt": "plain", "html": b"<base href=//evil.example>"})
    tarn.gnz.save(str(folder / "long.gnz"), x=np.arange(LONG, dtype="u4") % 1000)


class Page:
    """A served page, and the browser that shows it."""

    def __init__(self, driver, *args, view=""):
        tool = os.environ.get("TARN") or str(peer_tool())
        self.process = subprocess.Popen([tool, "browse", "--no-open", *map(str, args)], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().strip()
        self.driver = driver
        driver.get_log("browser")
        driver.get("about:blank")
        driver.get(self.url + view)
        driver.execute_script("window.pwnedTimes = 0; window.pwned = () => { window.pwnedTimes++; };")
        self.wait(lambda: self.tiles() or self.text("message"))

    def wait(self, true, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                found = true()
                if found:
                    return found
            except Exception:  # an element that was replaced meanwhile
                pass
            time.sleep(0.02)
        raise AssertionError(f"waited in vain; the page says: {self.text('message')!r}, address {self.driver.current_url}")

    def js(self, code, *args):
        return self.driver.execute_script(code, *args)

    def text(self, name):
        return self.js("const e = document.getElementById(arguments[0]); return e.hidden ? '' : e.textContent", name)

    def tiles(self):
        """The keys of the visible tiles, in order of their places."""
        return self.js("""return [...document.querySelectorAll('.tile')].filter((t) => t.dataset.key !== undefined)
          .map((t) => [t.getBoundingClientRect(), t.dataset.key]).sort((a, b) => a[0].y - b[0].y || a[0].x - b[0].x).map((p) => p[1])""")

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector):
        self.wait(lambda: self.find(selector)).click()

    def keys(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def count(self):
        return int(self.js("return count"))

    def images_loaded(self):
        return self.js("""const all = [...document.querySelectorAll('.tile img')];
          return all.length > 0 && all.every((i) => i.complete && i.naturalWidth > 0)""")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 0
        self.process.stdout.close()


def peer_tool():
    return pathlib.Path(__file__).resolve().parents[2] / "build-plain/tarn"


def new_driver(folder):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1360,940", "--hide-scrollbars",
                     "--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-sync",
                     "--disable-default-apps", "--no-proxy-server", "--host-resolver-rules=MAP evil.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                     f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(folder / "downloads")})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


# --- Tests ---


def the_page_loads_and_shows_thumbnails(d, folder):
    with Page(d, folder / "birds") as page:
        keys = tarn.open(folder / "birds").keys()
        assert page.tiles() == keys[:len(page.tiles())] and len(page.tiles()) > 8
        page.wait(page.images_loaded)
        assert "600 samples" in page.text("summary") and d.title.endswith("tarn")
        bad = [entry for entry in d.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        assert not bad, bad


def scrolling_reaches_every_sample(d, folder):
    with Page(d, folder / "birds") as page:
        keys, seen = tarn.open(folder / "birds").keys(), set()
        for _ in range(400):
            page.wait(lambda: len(page.tiles()) == page.js("return tiles.size"))
            seen.update(page.tiles())
            if len(seen) == len(keys):
                break
            page.js("document.getElementById('main').scrollTop += document.getElementById('main').clientHeight * 0.9")
            page.wait(lambda: page.js("return Math.abs(grid.top - document.getElementById('main').scrollTop) < 1"))
        assert seen == set(keys), len(seen)


def ten_million_samples_scroll_and_stay_few_elements(d, folder):
    with Page(d, folder / "long.gnz") as page:
        assert page.count() == LONG
        assert page.js("return grid.full > grid.height")
        page.keys(Keys.END)
        page.wait(lambda: str(LONG - 1) in page.tiles())
        assert page.tiles()[-1] == str(LONG - 1)
        page.js("document.getElementById('main').scrollTop = grid.height / 2")
        page.wait(lambda: any(LONG * 0.45 < int(key) < LONG * 0.55 for key in page.tiles()))
        first = page.js("return grid.top")
        page.js("document.getElementById('main').dispatchEvent(new WheelEvent('wheel', {deltaY: 100, cancelable: true}))")
        assert page.js("return grid.top") == first + 100
        page.keys(Keys.HOME)
        page.wait(lambda: "0" in page.tiles())
        assert page.js("return document.querySelectorAll('.tile').length") < 100


def a_key_is_found(d, folder):
    with Page(d, folder / "birds") as page:
        page.keys("/")
        page.keys("_00321")
        page.wait(lambda: page.js("return document.querySelectorAll('#matches button').length") == 1)
        page.click("#matches button")
        page.wait(lambda: page.text("detail-key").endswith("_00321"))
        assert "at=321" in d.current_url
        page.find("#key").clear()
        page.find("#key").send_keys("nobody")
        page.wait(lambda: "No sample" in page.text("matches"))


def the_order_form_shows_what_a_rank_sees(d, folder):
    ds = tarn.open(folder / "birds")
    with Page(d, folder / "birds") as page:
        page.find("#order").send_keys("shuffle")
        page.find("#seed").send_keys("7")
        page.click("#order-form button")
        wanted = ds.shuffle(7).keys()
        page.wait(lambda: page.tiles() and page.tiles() == wanted[:len(page.tiles())])
        page.click("#run-box summary")
        for name, value in (("rank", "3"), ("world", "8"), ("batch", "4"), ("step", "20")):
            page.find("#" + name).send_keys(value)
        page.click("#order-form button")
        batch = ds.shuffle(7).at(20, 4, rank=3, world_size=8).keys()
        page.wait(lambda: page.tiles() == batch)
        assert "Epoch 1, step 1" in page.text("step-note")
        url = d.current_url
        page.click(".tile")
        page.wait(lambda: page.text("detail-key") == batch[0])
        page.js("[...document.querySelectorAll('#detail-body button')].find((b) => b.textContent.startsWith('When')).click()")
        turn = ds.shuffle(7).when(batch[0], 4, world_size=8, epochs=3)
        page.wait(lambda: all(f"epoch {t.epoch}, step {t.step}, rank {t.rank}, place {t.place}"
                              in page.text("detail-body") for t in turn))
        d.get("about:blank")  # the address alone gives the same view
        d.get(url)
        page.wait(lambda: page.tiles() == batch)


def a_click_on_a_bar_filters_and_filters_combine(d, folder):
    ds = tarn.open(folder / "birds")
    with Page(d, folder / "birds") as page:
        field = "[...document.querySelectorAll('#fields .field')].find((f) => f.querySelector('b').textContent === '%s')"
        page.js((field % "cls") + ".querySelector('button').click()")
        page.wait(lambda: page.js("return " + (field % "cls") + ".querySelectorAll('.list button').length") == 6)
        assert "first 600 shown" in page.text("fields")
        page.js((field % "cls") + ".querySelectorAll('.list button')[2].click()")
        page.wait(lambda: page.count() == 100)
        page.js((field % "jpg") + ".querySelector('button').click()")
        bars = "return [...%s.querySelectorAll('.chart')].find((c) => c.textContent.startsWith('Width'))" % (field % "jpg")
        page.wait(lambda: page.js(bars))
        page.js(bars[7:] + ".querySelector('.list button, .bars button').click()")
        page.wait(lambda: 0 < page.count() < 100)
        chips = page.text("filters")
        assert "cls = 2" in chips and "width of jpg" in chips
        assert d.current_url.count("f=") == 2
        expected = [key for key in ds.filter(lambda s: s["cls"] == 2).keys() if int(key[-5:]) % 5 == 1]
        page.wait(lambda: page.tiles() and page.tiles() == expected[:len(page.tiles())])
        page.click(".chip button")
        page.wait(lambda: page.text("filters").count("✕") == 1 and page.count() == 120)


def a_selection_is_exported_and_can_be_read(d, folder):
    with Page(d, folder / "birds") as page:
        chosen = page.tiles()[1:4]
        for key in chosen:
            page.js("document.querySelector(`.tile[data-key=\"${arguments[0]}\"] input`).click()", key)
        assert page.text("ticked-count") == "3 selected"
        texts = {}
        for kind in ("keys", "json", "python"):
            page.click(f'[data-export="{kind}"]')
            texts[kind] = page.js("return document.getElementById('export-text').value")
            if kind == "json":
                page.click("#export-save")
                page.wait(lambda: (folder / "downloads/selection.json").exists())
            page.keys(Keys.ESCAPE)
        assert texts["keys"].split() == chosen
        selection = folder / "downloads/selection.json"
        assert tarn.open(folder / "birds").filter(json=selection).keys() == chosen
        space = {"tarn": tarn}
        exec(texts["python"], space)
        assert space["ds"].keys() == chosen
        page.click("#untick")
        assert not page.text("ticked-count") or not page.js("return ticked.size")


def every_kind_of_field_is_shown(d, folder):
    with Page(d, folder / "birds", view="#at=0") as page:
        body = page.wait(lambda: page.js("return document.querySelectorAll('#detail-body article').length") == 7)
        assert body
        page.wait(lambda: page.js("const i = document.querySelector('.body.image img'); return i && i.naturalWidth") == 320)
        page.click(".body.image")
        assert page.js("return document.querySelector('.body.image').classList.contains('zoomed')")
        page.wait(lambda: page.js("return document.querySelector('audio').duration") > 0.4)
        assert page.js("return document.querySelectorAll('.tree details').length") >= 3
        assert "00 01 02 03" in page.js("return document.querySelector('.hex').textContent")
        page.wait(lambda: page.js("return [...document.querySelectorAll('.body > img')].some((i) => i.naturalWidth === 64)"))
        assert "checksum ok" in page.text("detail-body")


def the_keyboard_moves_opens_selects_and_closes(d, folder):
    keys = tarn.open(folder / "birds").keys()
    with Page(d, folder / "birds") as page:
        columns = page.js("return grid.columns")
        page.keys(Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ENTER)
        page.wait(lambda: page.text("detail-key") == keys[1 + columns])
        page.keys(Keys.ARROW_RIGHT)
        page.wait(lambda: page.text("detail-key") == keys[2 + columns])
        page.keys(" ")
        assert page.text("ticked-count") == "1 selected"
        page.keys(Keys.ESCAPE)
        assert page.js("return document.getElementById('detail').hidden")
        page.keys("t")
        page.wait(lambda: page.js("return isTable()"))
        page.keys("t", "?")
        assert page.js("return document.getElementById('help').open")


def tables_sort_by_their_columns(d, folder):
    with Page(d, folder / "long.gnz", "--list", ",".join(map(str, range(995, 1010)))) as page:
        page.wait(lambda: page.tiles())
        page.js("document.querySelectorAll('.head button')[1].click()")
        page.wait(lambda: page.tiles()[:2] == ["1000", "1001"])
        page.js("document.querySelectorAll('.head button')[1].click()")
        page.wait(lambda: page.tiles()[:2] == ["999", "998"])


def both_themes_have_readable_text(d, folder):
    contrast = """const lum = (c) => { const v = c.match(/[\\d.]+/g).slice(0, 3).map((x) => { x /= 255;
        return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
      const back = (e) => { for (; e; e = e.parentElement) { const b = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(b)) return b; } return 'rgb(255,255,255)'; };
      return [...document.querySelectorAll('header b, header span, aside h2, aside b, aside span, .cap div, button')].filter((e) => e.offsetParent)
        .map((e) => { const a = lum(getComputedStyle(e).color), b = lum(back(e)); return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); })"""
    with Page(d, folder / "birds") as page:
        dark = []
        for _ in range(2):
            dark.append(page.js("return document.documentElement.classList.contains('dark')"))
            assert min(page.js(contrast)) > 4.4, min(page.js(contrast))
            page.click("#theme")
        assert sorted(dark) == [False, True]


def hostile_names_and_payloads_do_not_run(d, folder):
    with Page(d, folder / "evil") as page:
        assert set(page.tiles()) == {EVIL, "javascript:pwned()"}
        for i in range(2):
            page.js("open(arguments[0])", i)
            page.wait(lambda: page.text("detail-key") in (EVIL, "javascript:pwned()") and page.js("return opened") == i)
        page.js("open(0)")
        page.wait(lambda: page.js("return document.querySelectorAll('#detail-body article').length") >= 2)
        page.js("for (const b of document.querySelectorAll('#fields button')) b.click()")
        page.find("#key").send_keys(EVIL)
        page.wait(lambda: page.js("return document.querySelectorAll('#matches button').length") >= 1)
        for kind in ("keys", "json", "python"):
            page.js("tick(arguments[0], true); exportTicked(arguments[1]); document.getElementById('export').close()", EVIL, kind)
        page.js("toggleMode()")
        page.wait(lambda: page.tiles())
        # When this image has failed to load, so have all that the data asked for.
        d.execute_async_script("const i = new Image(); i.onerror = () => arguments[0](); i.src = 'missing.png'")
        assert page.js("return window.pwnedTimes") == 0
        assert page.js("return document.scripts.length") == 1
        assert page.js("return document.querySelectorAll('svg script, iframe, object, embed, base, [onerror], [onload]').length") == 0
        assert page.js("return ({}).x === undefined")
        refused = [e["message"] for e in d.get_log("browser") if "Content Security Policy" in e["message"]]
        assert not refused, refused  # nothing even tried
        d.get(page.url + "raw?i=0&field=svg")  # is saved, not shown
        assert d.current_url != page.url + "raw?i=0&field=svg" or "pwned" not in d.page_source


def another_token_or_host_shows_nothing(d, folder):
    with Page(d, folder / "birds") as page:
        wrong = page.url[:-3] + ("aa/" if page.url[-3:-1] != "aa" else "bb/")
        d.get(wrong)
        assert "token" in d.page_source and "samples" not in d.page_source
        d.get(page.url.replace("127.0.0.1", "evil.test"))  # a name that points to this machine
        assert "Host" in d.page_source and "samples" not in d.page_source


def the_page_says_when_the_server_has_ended(d, folder):
    page = Page(d, folder / "birds")
    page.process.send_signal(signal.SIGINT)
    assert page.process.wait(60) == 0
    page.process.stdout.close()
    page.js("setParams({order: 'shuffle', seed: '1'})")
    page.wait(lambda: page.text("message"))


TESTS = [the_page_loads_and_shows_thumbnails, scrolling_reaches_every_sample, ten_million_samples_scroll_and_stay_few_elements,
         a_key_is_found, the_order_form_shows_what_a_rank_sees, a_click_on_a_bar_filters_and_filters_combine,
         a_selection_is_exported_and_can_be_read, every_kind_of_field_is_shown, the_keyboard_moves_opens_selects_and_closes,
         tables_sort_by_their_columns, both_themes_have_readable_text, hostile_names_and_payloads_do_not_run,
         another_token_or_host_shows_nothing, the_page_says_when_the_server_has_ended]


def shots(d, folder, out):
    """Both themes: the grid with histograms, and a sample."""
    os.chdir(folder)
    d.set_window_size(1280, 820)
    with Page(d, "birds", view="#order=shuffle&seed=7") as page:
        for name in ("cls", "jpg"):
            page.js("[...document.querySelectorAll('#fields .field')].find((f) => f.querySelector('b').textContent === arguments[0])"
                    ".querySelector('button').click()", name)
        page.wait(page.images_loaded)
        page.wait(lambda: page.text("fields").count("Height") == 1)
        page.js("document.activeElement.blur(); tick(tiles.get(1).dataset.key, true); tick(tiles.get(6).dataset.key, true)")
        time.sleep(0.3)
        page.js("setTheme('light')")
        d.save_screenshot(str(out / "browse-light.png"))
        page.js("document.getElementById('untick').click(); setTheme('dark'); open(0)")
        page.wait(lambda: page.js("const i = document.querySelector('.body.image img'); return i && i.naturalWidth"))
        time.sleep(0.5)
        d.save_screenshot(str(out / "browse-dark.png"))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "downloads").mkdir()
        make(folder)
        d = new_driver(folder)
        failed = 0
        try:
            if sys.argv[1:2] == ["--shots"]:
                shots(d, folder, pathlib.Path(sys.argv[2]).resolve())
                return 0
            for number, test in enumerate(TESTS, 1):
                try:
                    test(d, folder)
                    print(f"ok {number} - {test.__name__}", flush=True)
                except Exception as failure:  # a missing element, too
                    failed += 1
                    print(f"not ok {number} - {test.__name__}\n# " + repr(failure)[:1500].replace("\n", "\n# "), flush=True)
            print(f"1..{len(TESTS)}")
        finally:
            d.quit()
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
