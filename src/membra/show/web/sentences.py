"""Sentences of the library in Hebrew: refusals and errors, translated where a page shows them.

The library speaks English, in files and in the shell. Here each of its sentences stands once, with {names} for what
differs; `tests/show/web/test_words.py` looks for those that are missing.
"""

import re
from functools import cache


def translated(text: str) -> str | None:
    """A sentence of the library in Hebrew, with what it names; None where it is not known."""
    if text in HEBREW:
        return HEBREW[text]
    for pattern, hebrew in _patterns():
        found = pattern.fullmatch(text)
        if found:
            said = hebrew
            for name, value in found.groupdict().items():
                inner = translated(value) or value
                # Isolated, so that a Latin file name does not turn the sentence around.
                said = said.replace("{" + name + "}", f"\u2068{inner}\u2069")
            return said
    parts = [translated(part) for part in text.split(", ")] if ", " in text else [None]
    return None if None in parts else ", ".join(part or "" for part in parts)


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """From `{name}: the file is gone` to an expression that knows such sentences; the longest are tried first."""
    found = []
    for english in sorted((text for text in HEBREW if "{" in text), key=len, reverse=True):
        parts = re.split(r"\{(\w+)\}", english)
        made = "".join(f"(?P<{part}>.+?)" if odd % 2 else re.escape(part) for odd, part in enumerate(parts))
        found.append((re.compile(made, re.DOTALL), HEBREW[english]))
    return found


HEBREW = {
    # why an image was refused
    "{file}: {w} x {h} pixels are more than the {most} megapixels that membra reads; scale it down": (
        "{file}: {w} × {h} פיקסלים הם יותר מ־{most} המגה־פיקסלים ש־membra קוראת; הקטינו את התמונה"
    ),
    "{file}: too many pixels; scale it down": "{file}: יותר מדי פיקסלים; הקטינו את התמונה",
    "{file}: the file is gone": "{file}: הקובץ איננו",
    "{file}: not a readable image ({why}); save it as JPEG, PNG or TIFF": (
        "{file}: אינה תמונה קריאה ({why}); שמרו אותה כ־JPEG, PNG או TIFF"
    ),
    "unknown format": "תבנית לא מוכרת",
    "{file}: its name is not UTF-8; rename the file": "{file}: שם הקובץ אינו UTF-8; שנו את שמו",
    "The image of this fragment is not in the collection any more": "תמונת הקטע הזה כבר אינה באוסף",
    "the collection's folder for added images is a link, which may lead anywhere; remove it": (
        "התיקייה לתמונות נוספות באוסף היא קישור, שעלול להוביל לכל מקום; הסירו אותו"
    ),
    "{file}: could not be worked on ({why}); scale it down": "{file}: לא היה אפשר לעבד ({why}); הקטינו את התמונה",
    "{n} letters, fewer than {least} ({why})": "{n} אותיות, פחות מ־{least} ({why})",
    "its name ends as the ids of pieces do; rename the file": "שמו מסתיים כמו מזהה של חלק; שנו את שם הקובץ",
    "no ink": "אין דיו",
    "{file} has {n} pieces with writing, and no piece {piece}": "ב־{file} {n} פיסות כתובות, ואין פיסה {piece}",
    "{n} too small": "{n} קטנות מדי",
    "{n} too large": "{n} גדולות מדי",
    "{n} sparse box": "{n} דלילות",
    "{n} sparse patch": "{n} דהויות",
    "{n} slender": "{n} צרות מדי",
    "{n} edge speck": "{n} כתמי קצה",
    "{n} blot": "{n} כתמים",
    "{n} cut off": "{n} קטועות",
    "blank": "ריק",
    "removed": "הוסר",
    "another image of this name is in the collection: {path}": "תמונה אחרת בשם זה נמצאת באוסף: {path}",
    # why a library's image did not come
    "only tiles, or only sizes beyond the service's own limits; ask the library for the image": (
        "יש רק אריחים, או רק גדלים שמעבר למגבלות השירות; בקשו את התמונה מן הספרייה"
    ),
    "not asked: {host} failed {n} times in a row; run the command again later": (
        "לא נתבקש: {host} נכשל {n} פעמים ברצף; הריצו את הפקודה שוב מאוחר יותר"
    ),
    "{address}: {w} x {h} pixels are too many": "{address}: {w} × {h} פיקסלים הם יותר מדי",
    "{address}: a tile of {w} x {h} pixels came instead of {a} x {b}; ask the library for the image": (
        "{address}: התקבל אריח של {w} × {h} פיקסלים במקום {a} × {b}; בקשו את התמונה מן הספרייה"
    ),
    "{address}/info.json: no width and height; this is no image service": (
        "{address}/info.json: אין רוחב וגובה; אין זה שירות תמונות"
    ),
    "{address}: not finished after {n} s; try again later": "{address}: לא הסתיים לאחר {n} שניות; נסו שוב מאוחר יותר",
    "{address}: no answer ({why})": "{address}: אין תשובה ({why})",
    "{said}, {n} times; run the command again later": "{said}, {n} פעמים; הריצו את הפקודה שוב מאוחר יותר",
    "{address}: not an address ({why})": "{address}: אינה כתובת ({why})",
    "{address}: the server answers {status}": "{address}: השרת משיב {status}",
    "{said} and asks to wait {n} s; run the command again then": (
        "{said} ומבקש להמתין {n} שניות; הריצו את הפקודה אז שוב"
    ),
    "{address}: sent on more than {n} times; is the address right?": (
        "{address}: הופנה הלאה יותר מ־{n} פעמים; האם הכתובת נכונה?"
    ),
    "{address}: only http and https addresses are fetched": "{address}: נקראות רק כתובות http ו־https",
    "{address}: an address with a password in it is not fetched": "{address}: כתובת שיש בה סיסמה אינה נקראת",
    "{address}: there is no host {host}; check the address": "{address}: אין שרת {host}; בדקו את הכתובת",
    "{address}: {host} is {ip}, an address inside this machine or network; "
    "give --allow-private if you trust the manifest": (
        "{address}: {host} הוא {ip}, כתובת בתוך מחשב זה או רשת זו; תנו ‎--allow-private אם המניפסט מהימן"
    ),
    "{address}: packed as {how}, which was not asked for": "{address}: ארוז כ־{how}, דבר שלא נתבקש",
    "{address}: more than {n} MB; it is not fetched": "{address}: יותר מ־{n} מגה־בתים; אינו נקרא",
    "{address}: damaged on its way (not {how})": "{address}: ניזוק בדרך (אינו {how})",
    "{address}: cut short on its way": "{address}: נקטע בדרך",
    "{address}: {what} instead of an image; try it in a browser, or run again later": (
        "{address}: {what} במקום תמונה; נסו בדפדפן, או הריצו שוב מאוחר יותר"
    ),
    "a web page (perhaps a question whether we are human)": "דף אינטרנט (אולי שאלה אם אנחנו בני אדם)",
    "something else": "דבר אחר",
    # what a request can do wrong
    "{id} is in the collection but was not described: {why}": "{id} נמצא באוסף אך לא תואר: {why}",
    "{id} is not in {collection}; `membra list` shows what is": (
        "{id} אינו ב־{collection}; הפקודה `membra list` מראה מה יש בו"
    ),
    "{query} is neither a fragment of {collection} nor an image file; see `membra list`": (
        "{query} אינו קטע של {collection} ואינו קובץ תמונה; ראו `membra list`"
    ),
    "There is no such tile": "אין אריח כזה",
    "This fragment has no such letter": "אין בקטע זה אות כזו",
    "These are one and the same; choose another fragment to compare with": "זה אותו הקטע; בחרו קטע אחר להשוואה",
    "Only a fragment of the collection can stand on the second side": "בצד השני יכול לעמוד רק קטע מן האוסף",
    "too many images of this name were added; rename it": "נוספו יותר מדי תמונות בשם זה; שנו את שמה",
    "this bag does not say which letters its words are made of; index the fragment again": (
        "לא ידוע מאילו אותיות עשויות המילים של קטע זה; הכניסו אותו למפתח שוב"
    ),
    "The distances of all pairs of so many fragments do not fit into this machine's memory": (
        "המרחקים בין כל הזוגות של קטעים כה רבים אינם נכנסים לזיכרון המחשב"
    ),
    "there is no table `{what}`; there are {tables}": "אין טבלה `{what}`; יש {tables}",
    "{where}: Field required": "{where}: חסר",
    "{where}: Input should be {what}": "{where}: הערך אינו מתאים",
    "{where}: String should {what}": "{where}: הטקסט אינו מתאים",
    "{where}: List should {what}": "{where}: הרשימה אינה מתאימה",
    "{where}: not understood": "{where}: לא מובן",
    "Method Not Allowed": "פעולה זו אינה אפשרית כאן",
    # verdicts
    "taking a verdict back needs the name of who does it": "ביטול הכרעה צריך את שם המבטל",
    "a verdict says one of {says}, not {said}": "הכרעה אומרת אחת מאלה: {says}; לא {said}",
    "{id} is one fragment; a verdict is about two": "{id} הוא קטע אחד; הכרעה היא על שניים",
    "entry {n} took a verdict back; give that verdict again instead": (
        "רשומה {n} ביטלה הכרעה; במקום זאת תנו את ההכרעה שוב"
    ),
    "there is no verdict {n}; the history has the numbers": "אין הכרעה {n}; המספרים נמצאים בהיסטוריה",
    "verdict {n} was taken back already": "הכרעה {n} כבר בוטלה",
    "{what} can have {most} characters, not {n}; shorten it": "{what}: עד {most} תווים, לא {n}; קצרו",
    "{what} holds characters that are no text; type it again": "{what}: יש תווים שאינם טקסט; הקלידו שוב",
    "a name": "שם",
    "a note": "הערה",
    # disk and other processes
    "{what} is being written by another membra (process {n}); wait until it has finished": (
        "אל {what} כותבת עכשיו membra אחרת (תהליך {n}); המתינו עד שתסיים"
    ),
    "the manifest of {collection} cannot be used now ({why}); make room or check its permissions, then try again": (
        "אי אפשר להשתמש כעת במניפסט של {collection} ({why}); פנו מקום או בדקו הרשאות, ונסו שוב"
    ),
    "the manifest of {collection} cannot be used ({why}); restore it from a copy": (
        "אי אפשר להשתמש במניפסט של {collection} ({why}); שחזרו אותו מעותק"
    ),
    "{what} cannot be used now ({why}); make room or check its permissions, then try again": (
        "אי אפשר להשתמש כעת ב־{what} ({why}); פנו מקום או בדקו הרשאות, ונסו שוב"
    ),
    "{what} cannot be used ({why}); restore it from a copy": "אי אפשר להשתמש ב־{what} ({why}); שחזרו אותו מעותק",
    "{what} was written by a newer membra (format {n}); use that version": (
        "את {what} כתבה membra חדשה יותר (תבנית {n}); השתמשו בה"
    ),
    "{collection} has lost the shard {shard}; restore it from a copy, or index again": (
        "ב־{collection} אבד הקובץ {shard}; שחזרו אותו מעותק, או הכניסו למפתח שוב"
    ),
    "the shard {shard} of {collection} is damaged ({n} bytes instead of {size}); "
    "restore it from a copy, or index again": (
        "הקובץ {shard} של {collection} פגום ({n} בתים במקום {size}); שחזרו אותו מעותק, או הכניסו למפתח שוב"
    ),
    "{file} is damaged ({why}); restore it from a copy, or index again into a new folder": (
        "{file} פגום ({why}); שחזרו אותו מעותק, או הכניסו למפתח שוב בתיקייה חדשה"
    ),
    "{file} is lost; restore it from a copy, or index again into a new folder": (
        "{file} אבד; שחזרו אותו מעותק, או הכניסו למפתח שוב בתיקייה חדשה"
    ),
    "{file} cannot be read ({why}); check the disk and permissions": (
        "אי אפשר לקרוא את {file} ({why}); בדקו את הדיסק ואת ההרשאות"
    ),
    "{collection} was adapted since it was opened; open it again": "{collection} הותאם מאז שנפתח; פתחו אותו שוב",
    "{collection} was described by revision {n} of its recipe, and this membra describes by {m}; "
    "describe it anew first: membra index --redescribe --into {path}": (
        "{collection} תואר לפי מהדורה {n} של המתכון, ו־membra זו מתארת לפי מהדורה {m}; "
        "תארו אותו תחילה מחדש: membra index --redescribe --into {path}"
    ),
    "{collection} was described with another eye than this membra has; "
    "describe it anew first: membra index --redescribe --into {path}": (
        "{collection} תואר בעין אחרת מזו של membra זו; תארו אותו תחילה מחדש: membra index --redescribe --into {path}"
    ),
    "{collection} was described by a newer membra (revision {n}); use that version": (
        "את {collection} תיארה membra חדשה יותר (מהדורה {n}); השתמשו בה"
    ),
    "{file} is not the encoder of this collection; restore it or index again": (
        "{file} אינו המקודד של אוסף זה; שחזרו אותו או הכניסו למפתח שוב"
    ),
    "{folder} is not a collection; make one with `membra index SOURCE --into NEW`": (
        "{folder} אינה אוסף; צרו אוסף בעזרת `membra index SOURCE --into NEW`"
    ),
    "{collection} has format {n}, and this membra reads {m}; "
    "index the images again into a new collection, or use the version of membra that made it": (
        "{collection} כתוב בתבנית {n}, ו־membra זו קוראת {m}; הכניסו את התמונות לאוסף חדש, או השתמשו בגרסה שיצרה אותו"
    ),
    "not a recipe that this version of membra knows ({why}); index again": (
        "אינו מתכון שגרסה זו של membra מכירה ({why}); הכניסו למפתח שוב"
    ),
    "there is no method `{method}`; there are: default, {methods}": "אין שיטה `{method}`; יש: default, {methods}",
    "{why}; make room or try again": "{why}; פנו מקום או נסו שוב",
    "the disk does not answer": "הדיסק אינו משיב",
    "No space left on device": "לא נותר מקום בדיסק",
    "Read-only file system": "אפשר רק לקרוא מן הדיסק",
    "Permission denied": "אין הרשאה",
    "Input/output error": "שגיאת קריאה או כתיבה",
    "the server is being stopped; start it again": "השרת נעצר; הפעילו אותו שוב",
}
