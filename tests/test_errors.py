"""Errors are data: a class with a code and a status, and a message that is a template with values."""

import ast
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import membra
from membra import errors
from membra.errors import Damaged, MembraError, NotFetched, NotFound, Refused, TooFewLetters, Unreadable
from membra.messages import Message

SOURCE = Path(membra.__file__).parent
KINDS = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, MembraError)]
NAMES = {kind.__name__ for kind in KINDS}


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"^( *)(\w+) +(\d{3})  ([\w-]+) +\w", errors.__doc__ or "", re.MULTILINE)
    assert [(name, int(status), code) for _, name, status, code in drawn] == [
        (kind.__name__, kind.status, kind.code) for kind in KINDS
    ]
    above: dict[int, str] = {}
    for indent, name, _, _ in drawn:
        above[len(indent)] = name
        (parent,) = getattr(errors, name).__bases__
        assert parent.__name__ == above.get(len(indent) - 2, "Exception")


def test_codes_are_of_one_kind_each() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not NotFetched])
def test_an_error_survives_the_way_from_another_process(kind: type[MembraError]) -> None:
    inner = TooFewLetters("{count} letters", count=3)
    error = pickle.loads(pickle.dumps(kind("{file} of {folder}: {why}", file="{why}", folder=Path("a/b"), why=inner)))
    assert type(error) is kind
    assert str(error) == "{why} of a/b: 3 letters"
    assert error.values == {"file": "{why}", "folder": Path("a/b"), "why": "3 letters"}
    why = error.values["why"]
    assert isinstance(why, Message)
    assert why.values == {"count": 3}


def test_so_does_what_a_server_said() -> None:
    error = NotFetched(
        "the server returned status {status}", url="http://x", status="404\nGone", answered=404, later=True
    )
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "http://x: the server returned status 404 Gone"
    assert (again.url, again.answered, again.later) == ("http://x", 404, True)
    assert again.reason.template == "the server returned status {status}"


def test_a_value_can_be_replaced() -> None:
    error = NotFetched("no answer ({why})", url="http://x", why="late")
    other = error.replaced(address="http://y", file="not in this sentence")
    assert (str(other), str(error)) == ("http://y: no answer (late)", "http://x: no answer (late)")
    assert type(other) is NotFetched
    assert str(Refused("{file}: gone", file="a1b2").replaced(file="leaf.jpg")) == "leaf.jpg: gone"


def test_a_message_is_kept_as_json() -> None:
    message = Message(
        "{a}{b}{c}{d}", a=Path("x/y"), b=[Message("{n}", n=1), "two"], c=2.5, d=Message("deep {e}", e="{a}")
    )
    again = Message.from_json(message.to_json())
    assert (again, again.template, again.values) == (message, message.template, message.values)
    assert isinstance(again.values["a"], Path)
    assert message == "x/y1, two2.5deep {a}"  # a {field} within a value is not filled
    assert message.shown() == {"a": "y", "b": "1, two", "c": 2.5, "d": "deep {a}"}


@pytest.mark.parametrize(
    "text", ["", "{", "1", '"x"', "{}", '{"message": 1, "values": {}}', '{"message": "", "values": 1}']
)
def test_what_is_no_message_is_not_read_as_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Message.from_json(text)


def test_a_template_from_elsewhere_does_nothing_but_fill_in() -> None:
    hostile = '{"message": "{a.__class__} {a!r:>99999999} {b} {a}", "values": {"a": "x"}}'
    assert Message.from_json(hostile) == "{a.__class__} {a!r:>99999999} {b} x"


def calls() -> list[tuple[str, ast.Call]]:
    """Return every call that makes an error or a message, with file and line."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {*NAMES, "Message"} and node.args:
                found.append((f"{path.relative_to(SOURCE)}:{node.lineno}", node))
    return found


def test_every_sentence_names_what_is_given_to_it() -> None:
    own = {"answered", "later", "url"}  # of NotFetched, beside the values
    seen = 0
    for place, call in calls():
        template = call.args[0]
        assert not isinstance(template, ast.JoinedStr | ast.BinOp), f"{place}: give a template and values"
        if isinstance(template, ast.Constant) and all(keyword.arg for keyword in call.keywords):
            given = {str(keyword.arg) for keyword in call.keywords}
            given -= own if getattr(call.func, "id", "") == "NotFetched" else set()
            assert set(re.findall(r"\{(\w+)\}", str(template.value))) == given, place
            seen += 1
    assert seen > 150


def test_nobody_looks_into_the_text_of_an_error() -> None:
    """`str(error)` is for display only: no code searches, splits or replaces in it."""
    looked = (
        r"str\((?:error|reason|failed|refusal)\)(?:\.(?!split\(\)\))|\[(?!:))|in str\(error|\.args\[|error\.message\.\w"
    )
    for sample in ("str(error).replace(a, b)", "str(reason).split(';')[0]", "if part in str(error)", "error.args[0]"):
        assert re.search(looked, sample)
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if re.search(looked, line):
                found.append(f"{path.relative_to(SOURCE)}:{number}: {line.strip()}")
    assert found == []


def test_the_kind_decides_the_status() -> None:
    assert (NotFound.status, Damaged.status, Unreadable.status, Refused.status) == (404, 503, 503, 422)
    assert Damaged("x").code == "damaged"


def test_errors_do_as_well_where_dask_has_taught_pickle_about_them() -> None:
    """Errors from a cluster pass through tblib, which rebuilds them without `__init__`."""
    pytest.importorskip("tblib")
    script = (
        "import pickle, tblib.pickling_support\n"
        "from membra.errors import NotFetched\n"
        "tblib.pickling_support.install()\n"
        "error = NotFetched('no answer ({why})', url='x', why='late', answered=503)\n"
        "again = pickle.loads(pickle.dumps(error))\n"
        "print(error.replaced(address='y'), error, again, again.answered, again.reason.values, sep='|')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "y: no answer (late)|x: no answer (late)|x: no answer (late)|503|{'why': 'late'}\n"
