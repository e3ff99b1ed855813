"""The table of faults is whole and current."""

import rows


def test_every_row_has_a_test() -> None:
    assert set(rows.ROWS) - {proof.row for proof in rows.proofs()} == set()


def test_every_test_of_a_row_says_how_it_was_seen_to_fail() -> None:
    for proof in rows.proofs():
        assert proof.times > 0, proof.test
        assert len(proof.tried) > 10, proof.test
        assert len(proof.without) > 20, proof.test


def test_the_page_says_what_the_tests_say() -> None:
    """Made again by `MEMBRA_LENGTH=long pytest tests/reliability --write-table`."""
    found, stands = rows.proofs(), rows.written()
    assert list(stands) == list(rows.ROWS)
    for number in rows.ROWS:
        assert tuple(stands[number][:4] + stands[number][5:]) == rows.cells(number, found)
        assert not {"failed", "skipped", "not run"} & set(stands[number][4].replace("<br>", " ").split())
