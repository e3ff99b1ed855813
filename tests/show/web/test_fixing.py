"""Corrections: a rotated and taped photograph is corrected on its page by mouse and keys."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, Locator, Page, expect

from axe import need_axe, violations
from membra import scribes
from membra.describe.encoder import Encoder
from membra.sources.fragment import fragments
from membra.store.collection import Collection
from membra.store.corrections import Corrections
from shelves import watched
from taped import TAPED, taped

LABEL = taped(5)[1]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replaces that of tests/shelves.py: five manuscripts of two leaves each, and the taped leaf of the first."""
    folder = tmp_path_factory.mktemp("film")
    (folder / "images").mkdir()
    for hand in range(5):
        for leaf in range(2):
            one = scribes.fragment(scribes.hand(10 + hand), scribes.camera(2), letters=50, seed=100 * hand + leaf)
            (folder / "images" / f"m{hand}-{leaf}.jpg").write_bytes(one.jpeg)
    cv2.imwrite(str(folder / "images" / TAPED), taped(5)[0][..., ::-1])
    made = Collection.create(folder / "C", encoder=Encoder.ready(threads=1))
    made.add(fragments(folder / "images"))
    return made.path


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with watched(browser, viewport={"width": 1280, "height": 1000}) as page:
        yield page


def first_candidate(page: Page, url: str) -> str:
    page.goto(f"{url}/candidates?id={TAPED}")
    return page.locator(".ranked .card .name").first.inner_text()


def editor(page: Page, url: str, id: str = TAPED) -> Locator:
    page.goto(f"{url}/fragment?id={id}")
    page.locator(".fix > summary").press("Enter")
    form = page.locator("[data-fix][data-ready=true]")
    expect(form).to_be_visible()
    return form


def on_screen(page: Page, x: float, y: float) -> tuple[float, float]:
    """Return the screen position of a pixel of the photograph."""
    found: list[float] = page.evaluate(
        """([x, y]) => {
            const at = new DOMPoint(x, y).matrixTransform(window.membra.viewers[0].pixels.getScreenCTM());
            return [at.x, at.y];
        }""",
        [x, y],
    )
    return found[0], found[1]


def corrected(page: Page) -> None:
    expect(page.locator(".mark.corrected")).to_be_visible(timeout=60_000)


def test_a_turned_and_taped_photograph_is_put_right_and_its_mate_is_first(
    page: Page, own_server: str, own_shelf: Path, scripts: None
) -> None:
    assert "m3-" in first_candidate(page, own_server), "the label speaks for its own hand"
    form = editor(page, own_server)
    # by the mouse: a polygon around the label, which is fully visible
    page.locator("[data-tools] [data-do=out]").click()
    page.wait_for_timeout(900)  # the animation takes 0.4 s
    page.locator("[name=tool][value=polygon]").check()
    for x, y in LABEL:
        page.mouse.click(*on_screen(page, x, y))
    page.locator(".fix-stage").press("Enter")
    expect(page.locator(".fixes .painted")).to_have_count(1)
    drawn = [
        [int(value) for value in point.split(",")] for point in page.locator("[name=paint_out]").input_value().split()
    ]
    np.testing.assert_allclose(drawn, LABEL, atol=2)
    # an unneeded rectangle, taken back
    page.locator("[name=tool][value=rectangle]").check()
    page.mouse.move(*on_screen(page, *LABEL[0]))
    page.mouse.down()
    page.mouse.move(*on_screen(page, *LABEL[2]), steps=4)
    page.mouse.up()
    expect(page.locator(".fixes .painted")).to_have_count(2)
    form.get_by_role("button", name="Undo the last step").click()
    expect(page.locator(".fixes .painted")).to_have_count(1)
    # rotated by keys: by 180 degrees, then by single degrees
    quarter = form.get_by_role("button", name="↻ 90°")
    page.locator("[name=turn]").fill("20")
    quarter.press("Enter")
    quarter.press("Enter")
    expect(page.locator("[name=turn]")).to_have_value("200")
    assert page.evaluate("window.membra.viewers[0].rotation") == 200
    # without a name nothing is sent
    form.get_by_role("button", name="Describe again").click()
    expect(page.locator("[data-fix] [name=by]")).to_be_focused()
    page.locator("[data-fix] [name=by]").fill("Rivka")
    form.get_by_role("button", name="Describe again").click()
    corrected(page)
    expect(page.locator(".corrections li")).to_have_count(2)
    entry = Collection.open(own_shelf).entry(TAPED)
    assert entry
    assert (entry.angle, entry.corrected) == (200.0, "1,2")
    boxes = Collection.open(own_shelf).description(TAPED).boxes
    ring = np.array(LABEL, np.int32).reshape(-1, 1, 2)
    middles = boxes[:, :2] + boxes[:, 2:] / 2
    assert all(cv2.pointPolygonTest(ring, (float(x), float(y)), False) < 0 for x, y in middles)
    assert "m0-" in first_candidate(page, own_server), "and now its own manuscript"
    # after the undo it is as before
    page.goto(f"{own_server}/fragment?id={TAPED}")
    page.locator(".fix > summary").click()
    for left in (1, 0):
        page.locator(".corrections").get_by_role("button", name="Undo").first.click()
        expect(page.locator(".corrections button")).to_have_count(left, timeout=60_000)
        if left:
            page.locator(".fix > summary").click()
    expect(page.locator(".mark.corrected")).to_have_count(0, timeout=60_000)
    assert "m3-" in first_candidate(page, own_server)


def test_without_a_mouse(page: Page, own_server: str, own_shelf: Path, scripts: None) -> None:
    """Letters by arrows and Space, a crop by the crosshair, a brush; typed coordinates are drawn too."""
    editor(page, own_server)
    stage, press = page.locator(".fix-stage"), page.keyboard.press
    page.locator("[name=tool][value=look]").focus()
    for _ in range(5):
        press("ArrowDown")
    expect(page.locator("[name=tool][value=letters]")).to_be_checked()
    stage.focus()
    for key in ("ArrowRight", "ArrowRight", "Space", "ArrowDown", "Space", "ArrowLeft", "Space"):
        press(key)
    expect(page.locator("[name=drop_letters]")).to_have_value("2")
    expect(page.locator(".overlay rect.out")).to_have_count(1)
    page.locator("[name=tool][value=brush]").focus()
    press("Space")
    stage.focus()
    press("Space")
    for _ in range(3):
        press("ArrowRight")
    press("Space")
    press("Enter")
    assert re.fullmatch(r"\d+: \d+,\d+ \d+,\d+", page.locator("[name=paint_out]").input_value())
    page.locator("[name=tool][value=crop]").focus()
    press("Space")
    stage.focus()
    press("Space")
    for key in ("ArrowRight", "ArrowDown"):
        for _ in range(4):
            press(key)
    press("Escape")  # cancelled
    press("Space")
    for key in ("ArrowLeft", "ArrowUp", "Shift+ArrowUp"):
        for _ in range(4):
            press(key)
    press("Space")
    wide, high = map(int, page.locator("[name=crop]").input_value().split(",")[2:])
    assert 0 < wide < high
    page.locator("[name=crop]").fill("1,1,99999,5")
    page.locator("[data-fix] [name=by]").fill("Dov")
    press("Enter")
    expect(page.locator("[data-status]")).to_contain_text("outside the photograph")
    expect(page.locator("[name=drop_letters]")).to_have_value("2")  # drawn shapes are kept
    assert Corrections.open(own_shelf).history() == []
    page.locator("[name=crop]").fill("")
    press("Enter")
    corrected(page)
    assert [one.kind for one in Corrections.open(own_shelf).history()] == ["paint-out", "drop-letters"]


@pytest.mark.parametrize(("language", "theme", "width"), [("en", "light", 1280), ("he", "dark", 400)])
def test_axe_finds_nothing_serious_in_the_editor(
    browser: Browser, own_server: str, scripts: None, language: str, theme: str, width: int
) -> None:
    need_axe()
    context = browser.new_context(viewport={"width": width, "height": 900}, bypass_csp=True)
    page = context.new_page()
    page.goto(f"{own_server}/?lang={language}&theme={theme}")
    editor(page, own_server)
    page.locator("[name=turn]").fill("200")
    page.locator("[data-fix] [name=by]").fill("Rivka")
    page.locator("[data-fix] button:not([type])").click()
    corrected(page)
    page.locator(".fix > summary").press("Enter")
    expect(page.locator("[data-fix][data-ready=true]")).to_be_visible()  # nothing moves any more
    page.locator("[name=tool][value=letters]").check()
    wrong = violations(page, "/fragment")
    wide = page.evaluate("document.documentElement.scrollWidth")
    context.close()
    assert wrong == []
    assert wide <= width, "nothing reaches beyond the screen"


def test_forms_work_without_scripts(writer: TestClient, own_shelf: Path) -> None:
    token = writer.get("/api/token").json()["token"]
    html = writer.get(f"/fragment?id={TAPED}").text
    number = re.search(r'name="seen" value="(\d+)"', html)
    assert number
    sent = {"token": token, "id": TAPED, "seen": number[1], "by": "Rivka", "turn": "200", "drop_letters": "0, 1"}
    answer = writer.post("/corrections", data={**sent, "paint_out": " ".join(f"{x},{y}" for x, y in LABEL)})
    assert answer.status_code == 200, answer.text
    assert "corrected" in answer.text
    shown = writer.get(f"/api/fragment?id={TAPED}").json()
    assert shown["card"]["corrected"] == [1, 2, 3]
    assert [line["kind"] for line in shown["corrections"]] == ["drop-letters", "paint-out", "turn"]
    assert all(line["holds"] for line in shown["corrections"])
    stale = writer.post("/corrections", data=sent)
    assert (stale.status_code, "described again since" in stale.text) == (409, True)
    assert writer.post("/corrections", data={**sent, "token": "no"}).status_code == 403
    assert writer.post("/corrections", data={**sent, "drop_letters": "", "turn": "x"}).status_code == 422
    undone = writer.post("/corrections/undo", data={"token": token, "number": 1, "id": TAPED, "by": "Dov"})
    assert undone.status_code == 200
    assert Collection.open(own_shelf).description(TAPED).angle != 200.0
    table = writer.get("/export/corrections.json").json()
    assert [row["kind"] for row in table["rows"]] == ["turn", "paint-out", "drop-letters", "undo"]


def test_as_json_and_in_pieces(writer: TestClient, own_shelf: Path) -> None:
    size = writer.get(f"/api/fragment?id={TAPED}").json()["shown"]
    line = [[0, size["height"] // 2], [size["width"], size["height"] // 2]]
    done = writer.post("/api/corrections", json={"id": TAPED, "by": "R", "split": line}).json()
    assert done["fragments"] == [f"{TAPED}#1", f"{TAPED}#2"]
    assert (done["described"], done["problem"]) == (True, "")
    joined = writer.post(
        "/api/corrections", json={"id": f"{TAPED}#1", "by": "R", "join": [f"{TAPED}#2"], "describe": False}
    ).json()
    assert joined["described"] is False
    assert writer.get(f"/api/fragment?id={TAPED}%231").json()["uncorrected"] is True
    assert "not been described again yet" in writer.get(f"/fragment?id={TAPED}%231").text
    token = writer.get("/api/token").json()["token"]
    assert writer.post("/corrections/describe", data={"token": token, "id": f"{TAPED}#1"}).url.params["id"] == TAPED
    back = writer.post("/api/corrections/undo", json={"number": 2, "by": "R"}).json()
    assert back["fragments"] == [f"{TAPED}#1", f"{TAPED}#2"]
    for sent, status in (
        ({"id": "nothing.jpg", "by": "R", "turn": 4}, 404),
        ({"id": f"{TAPED}#1", "by": "R", "crop": [0, 0, 1e6, 4]}, 422),
        ({"id": f"{TAPED}#1", "by": "R", "drop_letters": [10**6]}, 422),
        ({"id": f"{TAPED}#1", "by": "R", "up": "north"}, 422),
        ({"id": f"{TAPED}#1", "by": "", "turn": 4}, 422),
    ):
        answer = writer.post("/api/corrections", json=sent)
        assert answer.status_code == status, json.dumps(sent)
    assert writer.post("/api/corrections/undo", json={"number": 99, "by": "R"}).status_code == 404
    assert len(writer.get(f"/api/corrections?id={TAPED}%231").json()) == 3


def test_while_somebody_else_writes_it_is_kept_and_said(writer: TestClient, own_shelf: Path) -> None:
    with Collection.open(own_shelf).writing():
        done = writer.post("/api/corrections", json={"id": "m0-0.jpg", "by": "R", "turn": 1}).json()
    assert (done["described"], "is writing to" in done["problem"]) == (False, True)
    assert writer.get("/api/fragment?id=m0-0.jpg").json()["uncorrected"] is True
    # concurrent corrections wait for each other
    people = [
        threading.Thread(
            target=writer.post, args=("/api/corrections",), kwargs={"json": {"id": id, "by": "R", "turn": 2}}
        )
        for id in ("m0-0.jpg", "m0-1.jpg")
    ]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert [Collection.open(own_shelf).description(id).angle for id in ("m0-0.jpg", "m0-1.jpg")] == [2.0, 2.0]
