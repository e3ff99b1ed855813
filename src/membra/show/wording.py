"""The agreement of a pair as sentences, which the shell prints in English and pages translate."""

from membra.find.agreement import Agreement
from membra.messages import Message


def agreement_words(agreement: Agreement) -> list[Message]:
    """Return sentences on how many kinds of letter agree and how much nearer the two are than strangers.

    >>> agreement_words(Agreement((3, 1), 40, 4, 0.978, 180))
    ['2 of 40 kinds of letter agree (usual among strangers here: 4)', 'nearer than 97 % of strangers here']
    """
    count, numbers = len(agreement.kinds), {"of": agreement.of, "usual": agreement.usual}
    if not count:
        letters = Message("none of {of} kinds of letter agrees (usual among strangers here: {usual})", **numbers)
    elif count == 1:
        letters = Message("one of {of} kinds of letter agrees (usual among strangers here: {usual})", **numbers)
    else:
        letters = Message("{n} of {of} kinds of letter agree (usual among strangers here: {usual})", n=count, **numbers)
    if agreement.nearer == 1:
        return [letters, Message("nearer than all of {n} strangers here", n=agreement.strangers)]
    return [letters, Message("nearer than {n} % of strangers here", n=int(100 * agreement.nearer))]
