"""What goes wrong, as exceptions. Each has a ``code`` that does not change; the daemon's codes are those of docs/errors.md."""

from __future__ import annotations

from typing import Any, Literal, Optional, Tuple, Type


class SquashError(Exception):
    """Every error of this package.

    code     a word that programs can compare: the daemon's, or ``unreachable``, ``timed_out``, ``daemon_outdated`` … of the SDK
    status   of the daemon's answer; None where it gave none
    message  what failed, in a sentence
    remedy   what would mend it; empty where nobody knows
    request  the method and path that was asked for; None where none was
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: Optional[int] = None,
        remedy: str = "",
        request: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.remedy = remedy
        self.request = request

    def __str__(self) -> str:
        text = f"{self.message} ({self.code})"
        return f"{text}. {self.remedy}." if self.remedy else text

    def __reduce__(self) -> Tuple[Any, ...]:
        return _restored, (type(self), self.message, self.__dict__)


def _restored(cls: Type[SquashError], message: str, fields: dict[str, object]) -> SquashError:
    error = cls.__new__(cls)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


class NotFound(SquashError):
    """404: what was named is not there."""


class Unauthorized(SquashError):
    """401, 403: no token, a wrong one, or one that may not do this."""


class Conflict(SquashError):
    """409, 412: what is there stands against it."""


class LimitReached(SquashError):
    """429, 507, and 503 for want of room: a bound is reached. Later, or with less, it may be done."""


class BadRequest(SquashError):
    """400 and its like: the request is not what the operation takes."""


class Unreachable(SquashError):
    """No daemon answers at the address, or it went away, or was silent for too long: then nobody knows whether it was carried out.

    ``code`` is ``unreachable``; ``how`` says which of them.
    """

    def __init__(
        self,
        message: str,
        *,
        how: Literal["not_there", "broken_off", "silent"] = "broken_off",
        status: Optional[int] = None,
        remedy: str = "",
        request: Optional[str] = None,
    ) -> None:
        super().__init__(message, code="unreachable", status=status, remedy=remedy, request=request)
        self.how = how


class TimedOut(SquashError):
    """408, 504: what was waited for did not happen in time."""


class ProtocolError(SquashError):
    """What answers is no Squash daemon, or another than this SDK is for, or does not do what it promised."""


class CommandFailed(SquashError):
    """``result.check()``: the command ended with another exit code than 0. ``result`` is how it ended."""

    def __init__(self, message: str, result: object) -> None:
        super().__init__(message, code="command_failed")
        self.result = result


_OF_STATUS = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    408: TimedOut,
    409: Conflict,
    412: Conflict,
    429: LimitReached,
    504: TimedOut,
    507: LimitReached,
}
#: Lack of room that has another status in HTTP.
_FULL = {"host_full", "sandbox_limit", "connection_limit", "mount_limit"}


def class_of(status: int, code: str) -> Type[SquashError]:
    """The exception for an answer of the daemon."""
    if code in _FULL:
        return LimitReached
    return _OF_STATUS.get(status, BadRequest if 400 <= status < 500 else SquashError)
