"""What requests may bring, with their limits: shared by the files that have routes."""

from typing import Annotated

from fastapi import Form, Header, Query

Id = Annotated[str, Query(max_length=4096, description="a fragment's id")]
Ids = Annotated[list[str], Query(max_length=60, description="ids of fragments")]
Upload = Annotated[str, Query(max_length=64, description="a dropped image")]
Page = Annotated[int, Query(description="from 1; brought within what there is")]
Limit = Annotated[int, Query(ge=1, le=500, description="how many on a page")]
Sent = Annotated[str, Header(alias="x-membra-token", description="from /api/token")]
Text = Annotated[str, Form(max_length=20_000)]
