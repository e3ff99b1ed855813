"""Normalises shelfmarks: one key for all spellings of the same shelfmark."""

import re
import unicodedata

_PARTS = re.compile(r"[^\W\d_]+|\d+")
_IGNORED = ("ms", "mss", "כי")  # "manuscript", an optional prefix


def shelfmark_key(text: str) -> tuple[str, ...]:
    """Return the key by which a shelfmark is compared: its letters and numbers, without case, punctuation and accents.

    Consecutive letters are one part however they are separated, so that `T-S NS` and `TS NS` are the same; numbers are
    separate parts, so that `100.1` and `1001` differ. Leading zeros and a leading `MS` are ignored.

    >>> shelfmark_key("T-S NS 100.1") == shelfmark_key("TS NS 100.1") == shelfmark_key("t.s.n.s.100 . 01")
    True
    >>> shelfmark_key("T-S NS 100.1"), shelfmark_key("T-S NS 1001")
    (('tsns', '100', '1'), ('tsns', '1001'))
    >>> shelfmark_key("MS Heb. d. 33/4") == shelfmark_key("Heb.d.33.4"), shelfmark_key('כ"י 5') == shelfmark_key("5")
    (True, True)
    >>> shelfmark_key("T-S 8C1.3"), shelfmark_key("?")
    (('ts', '8', 'c', '1', '3'), ())
    """
    plain = unicodedata.normalize("NFKD", text).casefold()
    plain = "".join(c for c in plain if not unicodedata.combining(c) and c not in "\"'״׳’”“‘")
    words = _PARTS.findall(plain)
    if len(words) > 1 and words[0] in _IGNORED:
        words = words[1:]
    parts: list[str] = []
    for word in words:
        if not word.isdigit():
            if parts and not parts[-1].isdigit():
                parts[-1] += word
                continue
            parts.append(word)
        else:
            parts.append(word.lstrip("0") or "0")
    return tuple(parts)


def has_shelfmark(text: str, wanted: tuple[str, ...]) -> bool:
    """Return whether a shelfmark contains the parts of a key, consecutively.

    >>> [has_shelfmark("T-S NS 100.1", shelfmark_key(wanted)) for wanted in ("TS NS 100", "NS 100", "TS NS 10", "")]
    [True, True, False, False]
    """
    own, count = shelfmark_key(text), len(wanted)
    if not wanted:
        return False
    return any(
        own[first].endswith(wanted[0]) and (not wanted[0].isdigit() or own[first] == wanted[0])
        and own[first + 1 : first + count] == wanted[1:]
        for first in range(len(own) - count + 1)
    )  # fmt: skip
