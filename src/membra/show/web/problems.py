"""Error answers: a page in the user's language, or JSON with code and values for programs."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from membra.errors import Invalid, MembraError, NotFound, Unavailable, system_says
from membra.messages import Message, gettext_noop
from membra.show.web.models import Problem
from membra.show.web.render import Render, plain_text
from membra.show.web.translations import say

# Messages of the server itself, by status.
_HTTP = {404: Message("Not Found"), 405: Message("Method Not Allowed")}

# Pydantic's validation errors, by its codes and in its wording.
WRONG = {
    "bool_parsing": gettext_noop("Input should be a valid boolean, unable to interpret input"),
    "bool_type": gettext_noop("Input should be a valid boolean"),
    "int_from_float": gettext_noop("Input should be a valid integer, got a number with a fractional part"),
    "int_parsing": gettext_noop("Input should be a valid integer, unable to parse string as an integer"),
    "int_parsing_size": gettext_noop("Unable to parse input string as an integer, exceeded maximum size"),
    "int_type": gettext_noop("Input should be a valid integer"),
    "json_invalid": gettext_noop("JSON decode error"),
    "list_type": gettext_noop("Input should be a valid list"),
    "literal_error": gettext_noop("Input should be {expected}"),
    "missing": gettext_noop("Field required"),
    "model_attributes_type": gettext_noop("Input should be a valid dictionary or object to extract fields from"),
    "string_pattern_mismatch": gettext_noop("String should match pattern '{pattern}'"),
    "string_too_long": gettext_noop("String should have at most {max_length} characters"),
    "string_type": gettext_noop("Input should be a valid string"),
    "too_long": gettext_noop("List should have at most {max_length} items after validation, not {actual_length}"),
}


def answer_problems(app: FastAPI, render: Render) -> None:
    """Answer every error of `app` with the status of its class."""

    def answer(request: Request, message: Message, status: int, code: str) -> Response:
        values = {
            name: plain_text(value) if isinstance(value, str) else value for name, value in message.shown().items()
        }
        if request.url.path.startswith("/api/"):
            problem = Problem(error=plain_text(say(message, "en")), code=code, values=values)
            return JSONResponse(problem.model_dump(), status)
        return render(request, "error.html", Problem(error=message, code=code, values=values), status=status)

    @app.exception_handler(MembraError)
    def failed(request: Request, error: MembraError) -> Response:
        return answer(request, error.message, error.status, error.code)

    @app.exception_handler(OSError)
    def disk(request: Request, error: OSError) -> Response:
        return failed(request, Unavailable("{why}; free disk space or try again", why=system_says(error)))

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> Response:
        message = _HTTP.get(error.status_code) or Message("{detail}", detail=error.detail)
        code = HTTPStatus(error.status_code).name.lower().replace("_", "-")
        return answer(request, message, error.status_code, code)

    @app.exception_handler(RequestValidationError)
    def odd(request: Request, error: RequestValidationError) -> Response:
        first: dict[str, Any] = dict(error.errors()[0]) if error.errors() else {}
        where: Sequence[Any] = first.get("loc", ("",))
        if where[0] == "path":
            return failed(request, NotFound(_HTTP[404]))
        return failed(request, Invalid("{where}: {why}", where=str(where[-1]), why=_wrong(first)))


def _wrong(found: dict[str, Any]) -> str:
    """Return pydantic's error as a translatable message if it is a known one, else its text."""
    template = WRONG.get(found.get("type", ""))
    if template:
        return Message(template, **found.get("ctx", {}))
    return found.get("msg") or Message("the value is not valid")
