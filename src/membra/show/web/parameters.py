"""Request parameters with their limits, shared by the modules with routes."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Form, Header, Query, Request

from membra.errors import Forbidden
from membra.show.web.safety import PERSON
from membra.store.verdicts import same_person

Id = Annotated[str, Query(max_length=4096, description="a fragment's id")]
Ids = Annotated[list[str], Query(max_length=60, description="ids of fragments")]
Upload = Annotated[str, Query(max_length=64, description="key of an uploaded image, from POST /api/candidates")]
Page = Annotated[int, Query(description="number of the page or screen, from 1; clipped to the valid range")]
Limit = Annotated[int, Query(ge=1, le=500, description="number of entries per page")]
Sent = Annotated[str, Header(alias="x-membra-token", description="from /api/token")]
Text = Annotated[str, Form(max_length=20_000)]
EntryNumber = Annotated[int, Form()]
SIGNS = "name of the author; left out if the server identifies people (`membra serve --people`)"


async def _token_in_header(request: Request, token: Sent = "") -> None:
    request.app.state.guard.check(token)


async def _token_in_form(request: Request, token: Text = "") -> None:
    request.app.state.guard.check(token)


# Dependencies of every route that changes something, checked first: for programs and for forms.
WITH_TOKEN, WITH_FORM_TOKEN = Depends(_token_in_header), Depends(_token_in_form)


def person_of(request: Request) -> str:
    """Return the signed-in person, if the server identifies people by links; else ""."""
    return str(request.scope.get(PERSON, ""))


Person = Annotated[str, Depends(person_of)]


def signed(person: str, by: str) -> str:
    """Return the name to store: that of the signed-in person, or, if the server identifies no people, the typed one."""
    if person and by.strip() and not same_person(person, by):
        raise Forbidden("you are signed in as {person} and cannot sign as {by}", person=person, by=by.strip())
    return person or by


def check_own(person: str, by: str) -> None:
    """Raise `Forbidden` if a signed-in person takes back another person's entry."""
    if person and not same_person(person, by):
        raise Forbidden("only {by} can undo this entry; add your own entry instead", by=by)


async def _signature(person: Person, by: Text = "") -> str:
    return signed(person, by)


Signature = Annotated[str, Depends(_signature)]  # `signed`, for forms


@dataclass(frozen=True)
class Opinion:
    """A form's verdict on two fragments."""

    a: Text = ""
    b: Text = ""
    says: Text = ""
    note: Text = ""


Said = Annotated[Opinion, Depends()]
