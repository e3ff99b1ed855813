"""The workbench as users see it: real Chromium, real server, with and without scripts, in both directions."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from shelves import watched

ODD = 'images/ב"ג <script>alert(1)-script>.jpg'
PAGES = ["/", "/?q=8C1&show=described", "/fragment?id={a}", "/candidates?id={a}", "/compare?a={a}&b={b}&word=1"]
PAGES += [
    "/survey?a={a}",
    "/group?id={a}&id={b}",
    "/fit?a={a}&b={b}",
    "/proposals",
    "/verdicts",
    "/map",
    "/map?at={a}",
    "/fragment?id=nothing",
    "/fragment?id=images/broken.jpg",
]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which a request to another server also fails the test."""
    outside: list[str] = []
    with watched(browser, viewport={"width": 1280, "height": 900}) as page:
        page.on(
            "request",
            lambda asked: (
                outside.append(asked.url) if not re.match(r"(http://127\.0\.0\.1|data:|blob:)", asked.url) else None
            ),
        )
        yield page
    assert outside == [], "the pages ask nobody else"


@pytest.fixture
def bare(browser: Browser) -> Iterator[Page]:
    """A page without scripts."""
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def compare(page: Page, server: str) -> tuple[str, str]:
    """Go from the first page to the comparison of a fragment with its best candidate; the two ids."""
    page.goto(f"{server}/?page=1")
    page.get_by_label("Find a fragment").fill("8C2.1")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator(".card")).to_have_count(1)
    page.get_by_role("link", name="Candidates for T-S 8C2.1").click()
    page.get_by_role("link", name=re.compile("^1 compare with")).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("T-S 8C2.1")
    a, b = (json_of(page, side)["id"] for side in ("a", "b"))
    return str(a), str(b)


def json_of(page: Page, side: str) -> dict[str, object]:
    import json

    found: dict[str, object] = json.loads(page.locator(f"[data-viewer={side}]").get_attribute("data-shown") or "{}")
    return found


def said(page: Page, server: str) -> list[dict[str, str]]:
    """Return all verdicts, newest first."""
    found: list[dict[str, str]] = page.request.get(f"{server}/api/verdicts").json()["history"]
    return found


def live(page: Page) -> None:
    """Wait until both viewers are ready and have their tiles."""
    for side in ("a", "b"):
        expect(page.locator(f"[data-viewer={side}][data-ready=true]")).to_be_visible()


def test_from_a_fragment_to_a_verdict_and_back(page: Page, server: str, scripts: None) -> None:
    compare(page, server)
    live(page)
    # highlight a match: every letter of it, in both
    first = page.locator(".match").first
    counts = [len((first.get_attribute(f"data-{side}") or "").split(",")) for side in ("a", "b")]
    first.hover()
    for side, count in zip(("a", "b"), counts, strict=True):
        expect(page.locator(f"[data-viewer={side}] .overlay .lit")).to_have_count(count)
    page.mouse.move(5, 5)
    expect(page.locator(".overlay .lit")).to_have_count(0)
    page.keyboard.press("ArrowDown")
    expect(page.locator(".match[aria-current]")).to_have_count(1)
    expect(page.locator(".overlay .lit")).to_have_count(sum(counts))
    assert "word=1" in page.url  # the choice is in the URL
    with page.expect_download() as taken:
        page.get_by_role("link", name="Dossier of this pair").click()
    assert "T-S 8C2.1" in taken.value.path().read_text(encoding="utf-8")
    # a verdict by key, first without a name, then with
    page.keyboard.press("j")
    expect(page.get_by_label("Your name")).to_be_focused()
    page.get_by_label("Your name").fill("Rivka")
    page.get_by_label("Note").fill("the same lamed")
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("j")
    expect(page.locator("#verdict .now")).to_contain_text("join")
    expect(page.locator("#verdict .now")).to_contain_text("the same lamed")
    page.keyboard.press("h")
    expect(page.locator("#verdict .now")).to_contain_text("same hand")
    # undo restores the previous one; the history has all three
    page.locator("#verdict").get_by_role("button", name="Undo").click()
    expect(page.locator("#verdict .now")).to_contain_text("join")
    page.get_by_role("link", name="Verdicts", exact=True).click()
    expect(page.locator(".history tbody tr")).to_have_count(3)
    expect(page.locator(".history tbody tr").first).to_contain_text("undo")
    expect(page.locator(".strip.group li")).to_have_count(2)
    with page.expect_download() as taken:
        page.get_by_role("link", name="Confirmed joins CSV").click()
    assert "join" in taken.value.path().read_text(encoding="utf-8-sig")
    page.get_by_role("button", name="Undo no. 1").click()
    expect(page.locator(".history tbody tr")).to_have_count(4)
    expect(page.locator(".strip.group")).to_have_count(0)


def test_every_answer_has_its_key_and_arrows_walk_the_candidates(page: Page, server: str, scripts: None) -> None:
    compare(page, server)
    live(page)
    page.get_by_label("Your name").fill("Dov")
    page.get_by_role("heading", level=1).click()
    for key, says in (("u", "unsure"), ("n", "no"), ("h", "same hand"), ("j", "join")):
        page.keyboard.press(key)
        expect(page.locator("#verdict .now .mark")).to_have_class(re.compile(says.replace(" ", "-")))
    before = page.url
    page.keyboard.press("ArrowRight")
    expect(page.locator(".facts")).to_contain_text("Candidate 2")
    live(page)
    expect(page.get_by_label("Your name")).to_have_value("Dov")  # typed once
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".facts")).to_contain_text("Candidate 1")
    assert quote("images/", safe="") in before or "images" in before
    page.get_by_label("Keys J H U N and arrows").uncheck()
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("n")
    page.wait_for_timeout(300)
    expect(page.locator("#verdict .now .mark")).to_have_class(re.compile("join"))


def test_keys_pressed_in_haste_are_not_lost(page: Page, server: str, scripts: None) -> None:
    a, b = compare(page, server)
    live(page)
    page.get_by_label("Your name").fill("Dov")
    page.get_by_role("heading", level=1).click()
    page.evaluate(
        """() => ["u", "j"].forEach((key) =>
          document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })))"""
    )
    expect(page.locator("#verdict .now .mark")).to_have_class(re.compile("join"))
    page.evaluate(
        """() => ["n", "ArrowRight"].forEach((key) =>
          document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })))"""
    )
    expect(page.locator(".facts")).to_contain_text("Candidate 2")
    page.goto(f"{server}/compare?a={quote(a)}&b={quote(b)}")
    expect(page.locator("#verdict .now .mark")).to_have_class(re.compile(r"\bno\b"))


def test_no_key_decides_while_the_next_pair_is_on_its_way(page: Page, server: str, scripts: None) -> None:
    compare(page, server)
    live(page)
    onward = str(page.locator(".walk a[rel=next]").get_attribute("href"))
    held: list[Route] = []
    # the next page does not come yet
    page.route(lambda url: url.endswith(onward), lambda route: held.append(route))
    page.get_by_label("Your name").fill("Dov")
    page.get_by_role("heading", level=1).click()
    page.evaluate(
        """() => ["h", "ArrowRight", "n"].forEach((key) =>
          document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })))"""
    )
    while not held:
        page.wait_for_timeout(50)
    for key in ("n", "j"):
        page.keyboard.press(key)
    page.wait_for_timeout(500)
    assert [line["says"] for line in said(page, server)] == ["same hand"]
    held.pop().continue_()
    expect(page.locator(".facts")).to_contain_text("Candidate 2")
    live(page)
    expect(page.locator("#verdict .now")).to_contain_text("Not decided yet")
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("j")  # on the new page keys decide
    expect(page.locator("#verdict .now .mark")).to_have_class(re.compile("join"))
    assert [line["says"] for line in said(page, server)] == ["join", "same hand"]


def test_keys_decide_on_a_page_that_was_left_and_brought_back(page: Page, server: str, scripts: None) -> None:
    compare(page, server)
    live(page)
    onward = str(page.locator(".walk a[rel=next]").get_attribute("href"))
    page.route(lambda url: url.endswith(onward), lambda route: route.abort("aborted"))  # the page stays
    page.get_by_label("Your name").fill("Dov")
    page.get_by_role("heading", level=1).click()
    for key in ("ArrowRight", "n"):
        page.keyboard.press(key)
    page.wait_for_timeout(500)
    assert said(page, server) == []
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    page.keyboard.press("u")
    expect(page.locator("#verdict .now .mark")).to_have_class(re.compile("unsure"))


def test_a_key_decides_once_however_long_it_is_held(page: Page, server: str, scripts: None) -> None:
    compare(page, server)
    live(page)
    page.get_by_label("Your name").fill("Dov")
    page.get_by_role("heading", level=1).click()
    for _ in range(3):
        page.keyboard.down("j")  # from the second on, a repetition
    expect(page.locator("#verdict .now .mark")).to_have_class(re.compile("join"))
    page.wait_for_timeout(300)
    assert len(said(page, server)) == 1


def test_without_htmx_an_arrow_does_not_end_a_verdict_under_way(page: Page, server: str, scripts: None) -> None:
    page.route("**/vendor/htmx.js", lambda route: route.abort())
    compare(page, server)
    live(page)
    held: list[Route] = []
    page.route("**/verdicts", lambda route: held.append(route))
    page.get_by_label("Your name").fill("Dov")
    page.get_by_role("heading", level=1).click()
    for key in ("j", "ArrowRight"):
        page.keyboard.press(key)
    page.wait_for_timeout(500)
    held.pop().continue_()
    expect(page.locator("#verdict .now .mark")).to_have_class(re.compile("join"))
    expect(page.locator(".facts")).to_contain_text("Candidate 1")


def test_typing_a_note_gives_no_verdict(page: Page, server: str, scripts: None) -> None:
    compare(page, server)
    live(page)
    page.get_by_label("Your name").fill("Dov")
    page.get_by_label("Note").press_sequentially("join? no hunch")
    page.wait_for_timeout(200)
    expect(page.locator("#verdict .now")).to_contain_text("Not decided yet")


def test_an_image_dropped_on_the_page_finds_its_candidates(page: Page, own_server: str, drawn_shelf: Path) -> None:
    page.goto(f"{own_server}/?page=1")
    content = base64.b64encode((drawn_shelf.parent / "images" / "0003.jpg").read_bytes()).decode()
    page.evaluate(
        """(content) => {
            const bytes = Uint8Array.from(atob(content), (one) => one.charCodeAt(0));
            const carried = new DataTransfer();
            carried.items.add(new File([bytes], "עלה חדש.jpg", { type: "image/jpeg" }));
            const drop = new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true });
            document.body.dispatchEvent(drop);
        }""",
        content,
    )
    expect(page.get_by_role("heading", level=1)).to_contain_text("עלה חדש.jpg")
    expect(page.locator(".card").first).to_contain_text("T-S 8C4.1")
    page.get_by_role("link", name=re.compile("^2 compare with")).click()
    expect(page.locator("#verdict")).to_contain_text("after you add it")
    page.go_back()
    page.get_by_role("button", name="Add this image to the collection").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("added/עלה חדש.jpg")


def test_what_is_no_image_gets_a_sentence_in_the_page(page: Page, server: str) -> None:
    page.goto(f"{server}/?page=1")
    page.get_by_label("Candidates for another image").set_input_files(
        {"name": "leaf.jpg", "mimeType": "image/jpeg", "buffer": b"this is no image"}
    )
    expect(page.get_by_role("alert")).to_contain_text("leaf.jpg: not a readable image")
    expect(page.get_by_label("Candidates for another image")).to_be_visible()


def test_filters_act_at_once_and_are_in_the_address(page: Page, server: str) -> None:
    page.goto(f"{server}/candidates?id={quote(ODD)}")
    known = page.locator(".card.known").count()
    assert known
    page.get_by_label("known joins").check()
    expect(page.locator(".card.known")).to_have_count(0)
    assert "hide=known" in page.url


def test_without_scripts_everything_is_there(bare: Page, server: str, drawn_shelf: Path) -> None:
    compare(bare, server)
    bare.locator(".match").nth(1).click()
    assert "word=2" in bare.url
    link = bare.locator(".match").nth(1)
    for side in ("a", "b"):
        expect(bare.locator(f"[data-viewer={side}] .plain .lit")).to_have_count(
            len((link.get_attribute(f"data-{side}") or "").split(","))
        )
    bare.get_by_label("Your name").fill("Rivka")
    bare.get_by_role("button", name="same hand").click()
    expect(bare.locator("#verdict .now")).to_contain_text("same hand")
    bare.get_by_role("button", name="Undo").click()
    expect(bare.locator("#verdict .now")).to_contain_text("Not decided yet")
    bare.get_by_role("link", name="Verdicts", exact=True).click()
    expect(bare.locator(".history tbody tr")).to_have_count(2)
    bare.goto(f"{server}/?page=1")
    bare.get_by_label("Candidates for another image").set_input_files(str(drawn_shelf.parent / "images" / "0003.jpg"))
    bare.get_by_role("button", name="Find candidates").click()
    expect(bare.locator(".card").first).to_contain_text("T-S 8C4.1")


def test_in_hebrew_from_right_to_left(page: Page, server: str, scripts: None) -> None:
    page.goto(f"{server}/?page=1")
    page.get_by_role("link", name="עברית").click()
    expect(page.locator("html")).to_have_attribute("dir", "rtl")
    page.get_by_role("link", name="מפה").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("מפה")  # it is remembered
    page.goto(f"{server}/candidates?id=images/0001.jpg")
    page.get_by_role("link", name=re.compile("^1 ")).click()
    live(page)
    viewers = [page.locator(f"[data-viewer={side}]").bounding_box() for side in ("a", "b")]
    assert viewers[0]
    assert viewers[1]
    assert viewers[0]["x"] > viewers[1]["x"]  # the first is on the right
    page.get_by_label("שמכם").fill("רבקה")
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("j")
    expect(page.locator("#verdict .now")).to_contain_text("צירוף")
    page.keyboard.press("ArrowLeft")  # next
    expect(page.locator(".facts")).to_contain_text("מועמד 2")


@pytest.mark.parametrize("language", ["en", "he"])
def test_nothing_is_wider_than_a_phone(browser: Browser, server: str, language: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{server}/?lang={language}")
    for url in PAGES:
        page.goto(server + url.format(a=quote(ODD), b="images/0001.jpg"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, url
    context.close()


def test_a_comparison_on_a_phone(browser: Browser, server: str, scripts: None) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    compare(page, server)
    live(page)
    page.locator(".match").first.tap()
    assert page.locator(".overlay .lit").count() > 1
    page.get_by_label("Your name").fill("Rivka")
    page.get_by_role("button", name="unsure").tap()
    expect(page.locator("#verdict .now")).to_contain_text("unsure")
    context.close()
