"""The folder of a demo: what is never removed from it."""

from pathlib import Path

import pytest

from membra.demo import DECISIONS, MARK, run_demo
from membra.errors import Invalid


@pytest.mark.parametrize("name", DECISIONS)
def test_a_demo_in_which_a_person_has_decided_is_kept(tmp_path: Path, name: str) -> None:
    (tmp_path / MARK).write_text("Made by `membra demo` with another seed.\n")
    (tmp_path / "collection").mkdir()
    (tmp_path / "collection" / name).write_bytes(b"decided")
    with pytest.raises(Invalid, match="another demo"):
        run_demo(tmp_path)
    assert (tmp_path / "collection" / name).read_bytes() == b"decided"


def test_an_impossible_seed_is_a_sentence_before_anything_is_removed(tmp_path: Path) -> None:
    (tmp_path / MARK).write_text("Made by `membra demo` with another seed.\n")
    (tmp_path / "report").mkdir()
    with pytest.raises(Invalid, match="not -1"):
        run_demo(tmp_path, seed=-1)
    assert (tmp_path / "report").exists()
