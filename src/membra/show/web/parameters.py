"""What requests may bring, with their limits: shared by the files that have routes."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Form, Header, Query, Request

from membra.errors import Forbidden
from membra.show.web.safety import PERSON
from membra.store.verdicts import same_person

Id = Annotated[str, Query(max_length=4096, description="a fragment's id")]
Ids = Annotated[list[str], Query(max_length=60, description="ids of fragments")]
Upload = Annotated[str, Query(max_length=64, description="a dropped image")]
Page = Annotated[int, Query(description="from 1; brought within what there is")]
Limit = Annotated[int, Query(ge=1, le=500, description="how many on a page")]
Sent = Annotated[str, Header(alias="x-membra-token", description="from /api/token")]
Text = Annotated[str, Form(max_length=20_000)]
Check = Callable[[str], None]  # refuses a token that is not this server's
SIGNS = "who says so; left out where the server knows it (`membra serve --people`)"


def person_of(request: Request) -> str:
    """Who asks, where the server knows people by their links; empty elsewhere."""
    return str(request.scope.get(PERSON, ""))


Person = Annotated[str, Depends(person_of)]


def signed(person: str, by: str) -> str:
    """The name that is kept: that of whoever asks; where the server does not know people, what was typed."""
    if person and by.strip() and not same_person(person, by):
        raise Forbidden("you are {person} here, and cannot sign as {by}", person=person, by=by.strip())
    return person or by


def check_own(person: str, by: str) -> None:
    """That what is taken back is one's own, where the server knows people."""
    if person and not same_person(person, by):
        raise Forbidden("this is by {by}, who alone can take it back; say what you think instead", by=by)
