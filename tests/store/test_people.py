"""The file of people who may sign: names that can be written by hand, and no keys with which to enter."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from membra.cli import cli
from membra.errors import Busy, MembraError
from membra.files import exclusive_lock
from membra.store.people import People, people


def test_a_key_is_said_once_and_stands_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    keys = people(file, add=["Rivka", 'Levi, "David"'])
    assert list(keys) == ["Rivka", 'Levi, "David"']
    text = file.read_text(encoding="utf-8")
    assert not any(key in text for key in keys.values())
    assert hashlib.sha256(keys["Rivka"].encode()).hexdigest() in text
    assert people(file) == {"Rivka": "", 'Levi, "David"': ""}
    known = People(file)
    assert [known.named(key) for key in (*keys.values(), "", "x", "sha256:")] == ["Rivka", 'Levi, "David"', "", "", ""]
    assert known.links == {}


def test_another_key_closes_the_one_before_while_the_server_runs(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    old = people(file, add=["Rivka"])["Rivka"]
    known = People(file)
    new = people(file, add=["RIVKA "])["RIVKA"]
    assert [known.named(old), known.named(new)] == ["", "RIVKA"]
    people(file, add=["David"], remove=["rivka"])
    assert known.named(new) == ""
    file.unlink()
    assert known.named(new) == "", "nobody may enter while it cannot be read"


def test_two_who_add_at_once_lose_nobody(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    code = "import sys; from membra.store.people import people; print(*people(sys.argv[1], add=sys.argv[2:]).values())"
    names = [f"P{number}" for number in range(4)]
    adding = [
        subprocess.Popen([sys.executable, "-c", code, str(file), name], stdout=subprocess.PIPE, text=True)
        for name in names
    ]
    printed = [one.communicate()[0].split()[-1:] for one in adding]
    known, told = People(file), [name for name, key in zip(names, printed, strict=True) if key]
    assert [known.named(key) for own in printed for key in own] == told != []
    with exclusive_lock(tmp_path / ".people.csv.lock", file), pytest.raises(Busy):
        people(file, remove=told)
    assert sorted(people(file)) == told


def test_a_plain_list_of_names_will_do(tmp_path: Path) -> None:
    file = tmp_path / "people.txt"
    file.write_text("# who works here\nרבקה\n\nDavid Levi\n", encoding="utf-8")
    known = People(file)
    assert list(known.links) == ["רבקה", "David Levi"]
    assert known.named(known.links["רבקה"]) == "רבקה"
    assert People(file).named(known.links["רבקה"]) == "", "such a link is good until the server stops"
    people(file, add=["Noa"])
    assert "# who works here" in file.read_text(encoding="utf-8")


def test_a_spreadsheet_may_save_it_with_semicolons(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    key = people(file, add=["Levi, David"])["Levi, David"]
    digest = file.read_text(encoding="utf-8").strip().rsplit(",", 1)[1]
    file.write_text(f'name;key\nLevi, David;{digest}\n"Noa; Carmel";\n', encoding="utf-8")
    known = People(file)
    assert (known.named(key), list(known.links)) == ("Levi, David", ["Noa; Carmel"])
    people(file, add=["Rivka"], remove=["levi, david"])
    assert list(people(file)) == ["Noa; Carmel", "Rivka"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "contains no names"),
        ("Rivka\nrivka\n", "line 2: rivka is listed twice"),
        ("Rivka,secret\n", "line 1: a line must be a name and a key"),
        ("Rivka,,x\n", "a line must be a name and a key"),
        (",sha256:00\n", "is not a valid name"),
        ("Riv\u200bka\n", "is not a valid name"),
        ("x" * 300, "can have at most"),
        ("\n".join(f"n{number}" for number in range(1001)), "more than 1000"),
        ("x\n" * 600_000, "too large"),
        (
            "x" * 200_000,
            "line 1: a line must be a name and a key|can have at most 200",
        ),  # reading tables raises the limit of csv
        ("Rivka;sha256:aaa\n", "line 1: a line must be a name and a key"),
    ],
)
def test_what_is_no_list_of_people_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "people.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(MembraError, match=said):
        People(file)


def test_what_is_no_text_and_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    for name in ("x", "nothing"):
        with pytest.raises(MembraError, match=r"UTF-8|--add NAME"):
            People(tmp_path / name)
    for wrong in ({"add": ["#x"]}, {"add": ["\n"]}, {"remove": ["David"]}):
        file = tmp_path / "people.csv"
        people(file, add=["Rivka"])
        before = file.read_bytes()
        with pytest.raises(MembraError):
            people(file, **wrong)
        assert file.read_bytes() == before


def test_the_command_prints_links(tmp_path: Path) -> None:
    file = str(tmp_path / "people.csv")
    done = CliRunner().invoke(cli, ["people", file, "--add", "Rivka", "--url", "https://example.org/membra/"])
    assert done.exit_code == 0, done.output
    key = done.output.strip().removeprefix("Rivka: https://example.org/membra/enter?key=")
    assert People(Path(file)).named(key) == "Rivka"
    assert CliRunner().invoke(cli, ["people", file]).output == "Rivka\n"
