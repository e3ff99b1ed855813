"""Every route that the schema names, with what fits it and what does not: a sentence perhaps, never a failure."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from lengths import LENGTH, length
from shelves import ODD, PARAMETERS

EXAMPLES = length(4, 12, 120)  # requests of each kind to each route


@pytest.mark.row(times=672)
@pytest.mark.long
def test_r27_no_route_of_the_schema_fails(own_server: str, drawn_shelf: Path) -> None:
    """Tried: every operation of the OpenAPI schema by Schemathesis against a real server, with values that fit the
    schema and values that do not, half of the names those of real fragments and dropped images, the page's token sent:
    no answer of 500 or more, no connection cut, and the server lives (a third of them in `make test`)

    Seen to fail: without the handler that makes sentences of errors, /export/manifest of a fragment with itself was a
    500
    """
    url = own_server
    with requests.Session() as session:
        session.headers["x-membra-token"] = session.get(f"{url}/api/token").json()["token"]
        image = {"image": ("leaf.jpg", (drawn_shelf.parent / "images" / "0001.jpg").read_bytes())}
        upload = session.post(f"{url}/api/candidates", files=image).json()["upload"]
        known = ["images/0001.jpg", "images/0002.jpg", "images/broken.jpg", "images/few.jpg", f"images/{ODD}", upload]
        schemas = [schemathesis.openapi.from_url(f"{url}/api/{name}.json") for name in ("openapi", "pages")]
        operations = [each.ok() for one in schemas for each in one.get_all_operations() if isinstance(each, Ok)]
        assert len(operations) >= 27
        for operation in operations:
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                fuzz(operation, mode, known, url, session)
        assert session.get(f"{url}/").status_code == 200


def fuzz(operation: Any, mode: GenerationMode, known: list[str], url: str, session: requests.Session) -> None:
    try:
        strategy = operation.as_strategy(generation_mode=mode)
    except schemathesis.errors.InvalidSchema:
        return

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=LENGTH != "full",
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy, names=st.lists(st.sampled_from([*known, None]), min_size=5, max_size=5))
    def sends(case: Any, names: list[str | None]) -> None:
        for key, name in zip(PARAMETERS, names, strict=True):
            for part in (case.query, case.body):
                if name and isinstance(part, dict) and key in part:
                    part[key] = name
        answer = case.call(base_url=url, session=session, timeout=60)
        assert answer.status_code < 500, (answer.status_code, case.as_curl_command(), answer.text[:400])

    with suppress(Unsatisfiable):  # some routes take nothing that could not fit
        sends()
