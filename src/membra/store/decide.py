"""Record a verdict on two fragments, for the workbench's buttons and `membra decide`."""

from membra.errors import NotFound
from membra.store.collection import Collection
from membra.store.naming import find_id
from membra.store.verdicts import UNDO, Verdict, Verdicts, in_order


def decide(collection: Collection, a: str, b: str, says: str, *, by: str, note: str = "") -> Verdict:
    """Give a verdict on two fragments of a collection, or undo one.

    Nothing is deleted. Each person's newest verdict on a pair counts. If one person's is `join` and another's `no` or
    `same hand`, the pair is disputed, and no verdict holds for it. The history keeps all entries; an undo is an entry
    too, after which the previous verdict holds again.

    Parameters
    ----------
    collection : Collection
    a, b : str
        Ids or shelfmarks of two fragments of the collection, in either order.
    says : str
        `join`, `same hand`, `unsure`, `no`; or `undo`, which undoes the verdict of `by` on this pair, or the newest
        verdict if `by` gave none.
    by : str
        Name of the author, stored with the verdict.
    note : str
        The reason, as free text.

    Returns
    -------
    Verdict
        The entry written; it is on disk. For an undo, `undoes` is the number of the verdict undone.

    Raises
    ------
    MembraError
        If a fragment is not in the collection, both are the same, or there is no verdict to undo.
    """
    a, b = find_id(collection, a), find_id(collection, b)
    known = {entry.fragment.id for entry in collection.entries()}
    for id in (a, b):
        if id not in known:  # most likely a typing error
            raise NotFound(
                "{id} is not in {collection}; run `membra list` to see its fragments",
                id=id,
                collection=collection.path.name,
            )
    verdicts = Verdicts.open(collection.path)
    if says != UNDO:
        return verdicts.give(a, b, says, by=by, note=note)
    pair = verdicts.pairs().get(in_order(a, b))
    if pair is None:
        raise NotFound("there is no verdict on {a} and {b} to undo", a=a, b=b)
    return verdicts.undo((pair.of(by) or pair.each[-1]).number, by=by, note=note)
