"""The text of the pages in English and Hebrew. The English words in the templates are the keys."""

from membra.show.web.sentences import translated

LANGUAGES = {"en": "ltr", "he": "rtl"}  # and the direction in which each is read; the first is the default


def say(text: str, language: str, **values: object) -> str:
    """`text`, of a template or of the library, in a language, with {names} filled in. What is not known stays."""
    said = (HEBREW.get(text) or translated(text) or text) if language == "he" else text
    for name, value in values.items():
        said = said.replace("{" + name + "}", str(value))
    return said


HEBREW = {
    # the frame
    "To the content": "אל התוכן",
    "Pages": "דפים",
    "Language and light": "שפה ותאורה",
    "Collection": "האוסף",
    "Proposals": "הצעות",
    "Verdicts": "הכרעות",
    "Map": "מפה",
    "Dark": "כהה",
    "Light": "בהיר",
    "Light as the system": "תאורה לפי המערכת",
    "This page as JSON": "דף זה כ־JSON",
    "The schema": "הסכימה",
    "Back": "הקודם",
    "Next": "הבא",
    "{page} of {pages}": "{page} מתוך {pages}",
    "That did not work": "הפעולה לא הצליחה",
    "To the collection": "אל האוסף",
    # the collection
    "Coverage": "כיסוי",
    "all": "הכול",
    "described": "תוארו",
    "few letters": "מעט אותיות",
    "refused": "נדחו",
    "doubtful": "מפוקפק",
    "Little trustworthy writing was found; it takes no part in proposals and likelihoods.": (
        "נמצא מעט כתב מהימן; הקטע אינו משתתף בהצעות ובסבירויות."
    ),
    "too doubtful for a likelihood": "מפוקפק מכדי לומר סבירות",
    "Find a fragment": "חיפוש קטע",
    "shelfmark, file, or any column": "סימן מדף, קובץ או כל עמודה",
    "Find": "חיפוש",
    "{found} fragments": "{found} קטעים",
    "{n} fragments": "{n} קטעים",
    "{n} letters": "{n} אותיות",
    "Nothing has this name. Fewer words find more.": "לא נמצא דבר בשם זה. פחות מילים ימצאו יותר.",
    "Pages of the collection": "דפי האוסף",
    "Candidates for another image": "מועמדים לתמונה אחרת",
    "Choose a photograph or drop it here; it is not added to the collection.": (
        "בחרו תצלום או גררו אותו לכאן; הוא אינו מתווסף לאוסף."
    ),
    "Find candidates": "חיפוש מועמדים",
    # a fragment
    "Neighbours on the shelf": "שכנים על המדף",
    "Candidates": "מועמדים",
    "On the map": "על המפה",
    "Photograph": "תצלום",
    "Photograph of {name}": "תצלום של {name}",
    "Smaller": "הקטנה",
    "Larger": "הגדלה",
    "Turn left": "סיבוב שמאלה",
    "Turn right": "סיבוב ימינה",
    "Turn": "סיבוב",
    "Whole": "השלם",
    "Show all letters": "הצגת כל האותיות",
    "Show the outline": "הצגת קו המתאר",
    "Turned upright by {n}°.": "סובב ב־{n}° כדי לעמוד ישר.",
    "Which way is up cannot be told.": "אי אפשר לומר היכן למעלה.",
    "What was seen": "מה נראה",
    "What was seen on {name}": "מה נראה על {name}",
    "Legibility": "קריאות",
    "Turned by": "מסובב ב־",
    "cannot be told": "אי אפשר לומר",
    "Height of a letter": "גובה אות",
    "writing surface": "משטח הכתיבה",
    "ink": "דיו",
    "line": "שורה",
    "letter": "אות",
    "the arrow points up": "החץ מצביע למעלה",
    "Its place on the photograph": "מקומו בתצלום",
    "{n} pieces of {name}": "{n} חלקים של {name}",
    "What is known": "מה ידוע",
    "Confirmed join": "צירוף מאושר",
    "Its letters, the most frequent first": "אותיותיו, השכיחות תחילה",
    # candidates
    "Candidates for": "מועמדים עבור",
    "Candidates for {name}": "מועמדים עבור {name}",
    "Nearest first, by {method}.": "הקרובים תחילה, לפי {method}.",
    "Likelihoods are learnt from {joins} known joins and {others} other pairs of this collection.": (
        "הסבירויות נלמדו מ־{joins} צירופים ידועים ומ־{others} זוגות אחרים באוסף זה."
    ),
    "Likelihoods are not calibrated: too few pairs of this collection are decided.": (
        "הסבירויות אינן מכוילות: הוכרעו מעט מדי זוגות באוסף זה."
    ),
    "Likelihoods are being learnt from what is known of this collection; load the page again.": (
        "הסבירויות נלמדות ממה שידוע על אוסף זה; טענו את הדף שוב."
    ),
    "Add this image to the collection": "הוספת התמונה לאוסף",
    "Leave out": "להשמיט",
    "known joins": "צירופים ידועים",
    "known join": "צירוף ידוע",
    "pairs already decided": "זוגות שכבר הוכרעו",
    "the same": "אותו ערך של",
    "Apply": "החלה",
    "No fragment is left. Leave out less.": "לא נותר אף קטע. השמיטו פחות.",
    "{rank}: compare with {name}": "{rank}: השוואה עם {name}",
    "compare with": "השוואה עם",
    "distance": "מרחק",
    "{n} % likely": "סבירות {n}%",
    "over 99 % likely": "סבירות מעל 99%",
    "under 1 % likely": "סבירות מתחת ל־1%",
    "not calibrated": "לא מכויל",
    "Screens of candidates": "מסכי מועמדים",
    # the comparison
    "All candidates": "כל המועמדים",
    "and": "וגם",
    "Candidate {rank}": "מועמד {rank}",
    "Beyond the first candidates": "מעבר למועמדים הראשונים",
    "The search does not rank this pair.": "החיפוש אינו מדרג זוג זה.",
    "Adjust": "כוונון",
    "Brightness": "בהירות",
    "Contrast": "ניגודיות",
    "Zoom and move together, letters of one height": "הגדלה ותנועה יחד, אותיות בגובה אחד",
    "Keys J H U N and arrows": "המקשים J H U N והחצים",
    "Letters that match, best first": "אותיות תואמות, הטובות תחילה",
    "Point at one, or choose it, and every such letter lights up in both photographs.": (
        "הצביעו על אחת, או בחרו בה, וכל אות כזו תואר בשני התצלומים."
    ),
    # verdicts
    "Verdict": "הכרעה",
    "Kept:": "נשמר:",
    "Not decided yet.": "טרם הוכרע.",
    "Your name": "שמכם",
    "Note": "הערה",
    "join": "צירוף",
    "same hand": "אותה יד",
    "unsure": "לא בטוח",
    "no": "לא",
    "undo": "ביטול",
    "Undo": "ביטול",
    "History of this pair": "תולדות הזוג",
    "taken back": "בוטלה",
    "An image that was dropped in can be judged once it is added to the collection.": (
        "תמונה שנגררה לכאן אפשר להכריע בה לאחר שתתווסף לאוסף."
    ),
    "Pairs that are decided": "זוגות שהוכרעו",
    "These contradict each other": "אלה סותרות זו את זו",
    "Somebody said no of two fragments that joins connect all the same.": (
        "נאמר לא על שני קטעים שצירופים אחרים מחברים ביניהם."
    ),
    "Confirmed joins": "צירופים מאושרים",
    "Group {number}": "קבוצה {number}",
    "History, newest first": "ההיסטוריה, החדש תחילה",
    "History": "ההיסטוריה",
    "Nothing was decided yet. Compare two fragments and say what you think.": (
        "עדיין לא הוכרע דבר. השוו שני קטעים ואמרו מה דעתכם."
    ),
    "Take away": "להורדה",
    "What holds": "מה שבתוקף",
    "Dossier of this pair": "תיק הזוג",
    "IIIF manifest": "מניפסט IIIF",
    "No.": "מס׳",
    "Fragments": "קטעים",
    "By": "מאת",
    "When": "מתי",
    "of no. {number}": "של מס׳ {number}",
    "Undo no. {number}": "ביטול מס׳ {number}",
    "Pages of the history": "דפי ההיסטוריה",
    # proposals and map
    "Groups that the machine takes for parts of one manuscript. They are suggestions; only a verdict makes a join.": (
        "קבוצות שהמכונה רואה בהן חלקים של כתב יד אחד. אלה הצעות בלבד; רק הכרעה יוצרת צירוף."
    ),
    "Being worked out; this page will look again by itself.": "בחישוב; הדף יתרענן מעצמו.",
    "Look now": "לבדוק עכשיו",
    "{found} groups": "{found} קבוצות",
    "nearness": "קרבה",
    "Graph of group {number}": "גרף של קבוצה {number}",
    "Pages of proposals": "דפי ההצעות",
    "Fragments that lie near each other are written alike. Choose one to stand there, and walk on to its neighbours.": (
        "קטעים סמוכים נכתבו בכתב דומה. בחרו קטע כדי לעמוד בו, והמשיכו אל שכניו."
    ),
    "Map of {n} fragments": "מפה של {n} קטעים",
    "You are at": "אתם נמצאים ב־",
    "From here": "מכאן",
    "Compare": "השוואה",
    "Begin at": "התחילו ב־",
    # what can go wrong on a page
    "There is no fragment of that name in this collection": "אין באוסף זה קטע בשם זה",
    "That image is no longer kept; drop it in again": "התמונה כבר אינה שמורה; גררו אותה שוב",
    "No image was chosen; choose a file or drop one here": "לא נבחרה תמונה; בחרו קובץ או גררו אותו לכאן",
    "This page is from before the server was started anew; load it again and repeat": (
        "הדף נטען לפני שהשרת הופעל מחדש; טענו אותו שוב וחזרו על הפעולה"
    ),
    "a verdict needs the name of who gives it": "הכרעה צריכה את שם המכריע",
    "Not Found": "לא נמצא",
}
