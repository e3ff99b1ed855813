"""What requests may bring, with their limits: shared by the files that have routes."""

from typing import Annotated

from fastapi import Depends, Form, Header, Query, Request

Id = Annotated[str, Query(max_length=4096, description="a fragment's id")]
Ids = Annotated[list[str], Query(max_length=60, description="ids of fragments")]
Upload = Annotated[str, Query(max_length=64, description="a dropped image")]
Page = Annotated[int, Query(description="from 1; brought within what there is")]
Limit = Annotated[int, Query(ge=1, le=500, description="how many on a page")]
Sent = Annotated[str, Header(alias="x-membra-token", description="from /api/token")]
Text = Annotated[str, Form(max_length=20_000)]


async def _token_in_header(request: Request, token: Sent = "") -> None:
    request.app.state.guard.check(token)


async def _token_in_form(request: Request, token: Text = "") -> None:
    request.app.state.guard.check(token)


# What every route that changes something depends on, asked before anything else: that of programs, that of forms.
WITH_TOKEN, WITH_FORM_TOKEN = Depends(_token_in_header), Depends(_token_in_form)
