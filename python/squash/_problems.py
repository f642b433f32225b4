"""What an answer that is no success says, as an exception."""

from __future__ import annotations

import json
from typing import Any

from ._http import Head
from .errors import ProtocolError, SquashError, Unreachable, class_of

_WORDS_MAX = 4_096


def problem_of(head: Head, data: bytes, request: str) -> SquashError:
    """The daemon's word, which is a problem with a code; else what a stranger's answer means."""
    status = head.status
    try:
        said = json.loads(data)
    except ValueError:
        said = None
    code = said.get("code") if isinstance(said, dict) else None
    if isinstance(code, str) and code not in ("not_found", "method_not_allowed"):
        detail, remedy = said.get("detail"), said.get("remedy")
        return class_of(status, code)(
            detail[:_WORDS_MAX] if isinstance(detail, str) else f"the daemon refused with {code[:100]}",
            code=code[:100],
            status=status,
            remedy=remedy[:_WORDS_MAX].rstrip(".") if isinstance(remedy, str) else "",
            request=request,
        )
    if status in (404, 405):
        return ProtocolError("the daemon has not this operation", code="daemon_outdated", status=status, request=request)
    if status in (502, 503, 504):
        message = f"a proxy before the daemon answered {status}: it can not reach it"
        return Unreachable(message, status=status, request=request)
    message = f"what answers there is no Squash daemon: status {status} without a code"
    return ProtocolError(message, code="not_squash", status=status, remedy="Look at the address", request=request)


def read_json(data: bytes, head: Head) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        message = "what answers there is no Squash daemon: its answer is no JSON"
        raise ProtocolError(message, code="not_squash", status=head.status, remedy="Look at the address") from None


def error_event(said: Any) -> SquashError:
    """An error that comes in a stream, where no status says of what kind it is."""
    code = said.get("code")
    code = code[:100] if isinstance(code, str) else "internal"
    status = 404 if code.endswith("_not_found") else 429 if code.endswith("_limit") else 409
    message, remedy = said.get("message"), said.get("remedy")
    return class_of(status, code)(
        message[:_WORDS_MAX] if isinstance(message, str) else "the daemon ended the stream",
        code=code,
        remedy=remedy[:_WORDS_MAX].rstrip(".") if isinstance(remedy, str) else "",
    )
