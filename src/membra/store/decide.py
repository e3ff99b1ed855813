"""Decide on two fragments: what the workbench's buttons and `membra decide` write."""

from membra.errors import NotFound
from membra.store.collection import Collection
from membra.store.naming import find_id
from membra.store.verdicts import UNDO, Verdict, Verdicts, in_order


def decide(collection: Collection, a: str, b: str, says: str, *, by: str, note: str = "") -> Verdict:
    """Give a verdict on two fragments of a collection, or take one back.

    Nothing is deleted, and each person has a verdict of her own on a pair, her newest. Where one says `join` and
    another `no` or `same hand`, the pair is disputed, and nothing holds for it. The history keeps all of them, and an
    undo is an entry of its own, after which the verdict before holds again.

    Parameters
    ----------
    collection : Collection
    a, b : str
        Ids or shelfmarks of two fragments of the collection, in either order.
    says : str
        `join`, `same hand`, `unsure`, `no`; or `undo`, which takes back one's own verdict on this pair, or the newest
        where one gave none.
    by : str
        Who says so; kept with the verdict.
    note : str
        Why, in the scholar's own words.

    Returns
    -------
    Verdict
        The entry that was written; it is on the disk. Of an undo, `undoes` is the number of the verdict taken back.

    Raises
    ------
    MembraError
        Where a fragment is not in the collection, both are the same, or there is no verdict to take back.
    """
    a, b = find_id(collection, a), find_id(collection, b)
    known = {entry.fragment.id for entry in collection.entries()}
    for id in (a, b):
        if id not in known:  # a verdict on a fragment that is not there would be a slip of the pen
            raise NotFound(
                "{id} is not in {collection}; `membra list` shows what is", id=id, collection=collection.path.name
            )
    verdicts = Verdicts.open(collection.path)
    if says != UNDO:
        return verdicts.give(a, b, says, by=by, note=note)
    pair = verdicts.pairs().get(in_order(a, b))
    if pair is None:
        raise NotFound("there is no verdict on {a} and {b} to take back", a=a, b=b)
    return verdicts.undo((pair.of(by) or pair.each[-1]).number, by=by, note=note)
