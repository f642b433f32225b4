"""Requests to one daemon: connections that are kept, repeats, errors. Everything above it says only which operation it wants."""

from __future__ import annotations

import os
import time
from typing import Any, AsyncIterable, AsyncIterator, List, Mapping, Optional, Tuple, Type, TypeVar

from .._address import Address
from .._http import ANSWER_BYTES_MAX, PROBLEM_BYTES_MAX, Call, head_of, make_call
from .._operations import VERSION
from .._problems import problem_of, read_json
from .._record import Record, read
from ..errors import NotFound, ProtocolError, SquashError, Unreachable
from .exchange import AsyncResponse, send_body
from .wire import AsyncWire, sleep

_R = TypeVar("_R", bound=Record)

#: The daemon keeps an idle connection for 65 s, common proxies for 60.
_IDLE_S = 30.0
_KEPT_MAX = 16
#: What the daemon may need for a large upload when all of it is there.
_UPLOADED_S = 600.0
#: One after the other: a list that leads to itself would never end.
_EMPTY_PAGES_MAX = 1_000
#: Before each repeat: a daemon that starts again takes some seconds.
_PAUSES_S = (0.2, 1.0, 6.0)


class AsyncClient:
    """``limit_s`` is how long the daemon may do nothing: connect, take bytes, send bytes."""

    def __init__(self, address: Address, token: Optional[str], limit_s: float) -> None:
        self.address = address
        self.limit_s = limit_s
        #: No program made it: it is that of all who name none.
        self.is_shared = False
        self._token = token
        self._kept: List[Tuple[float, AsyncWire]] = []

    async def ask(
        self,
        name: str,
        places: Mapping[str, object],
        options: Mapping[str, Any],
        *,
        extra_s: float = 0.0,
        content: bytes = b"",
    ) -> Any:
        """The operation's answer as JSON; None where it has none. ``extra_s``: so much longer it may say nothing."""
        call = make_call(name, places, options, body=content)
        if call.operation.takes_key:
            call.headers.setdefault("idempotency-key", os.urandom(16).hex())
        repeats = 0
        while True:
            try:
                return await self._answer(call, self.limit_s + extra_s)
            except Unreachable as error:
                error.request = call.name
                is_safe = call.operation.method in ("GET", "DELETE") or call.operation.takes_key
                if not is_safe or error.how == "silent" or repeats == len(_PAUSES_S):
                    raise
                # Where nobody listens at first nobody is waited for.
                if repeats == 0 and error.how == "not_there":
                    raise
                await sleep(_PAUSES_S[repeats])
                repeats += 1
            except NotFound:
                if call.operation.method == "DELETE" and repeats > 0:
                    # The one before it was carried out, and its answer was lost.
                    return None
                raise

    async def record(
        self,
        cls: Type[_R],
        name: str,
        places: Mapping[str, object],
        options: Mapping[str, Any],
        *,
        extra_s: float = 0.0,
        content: bytes = b"",
    ) -> _R:
        return self._read(cls, name, places, await self.ask(name, places, options, extra_s=extra_s, content=content))

    async def records(
        self, cls: Type[_R], name: str, places: Mapping[str, object], options: Mapping[str, Any]
    ) -> AsyncIterator[_R]:
        """All pages, each asked for when it is needed."""
        cursor: Optional[str] = None
        empty = 0
        while empty < _EMPTY_PAGES_MAX:
            answer = await self.ask(name, places, {**options, "cursor": cursor} if cursor else options)
            items, following = page_of(answer)
            for item in items:
                yield self._read(cls, name, places, item)
            if following is None:
                return
            empty = 0 if items and following != cursor else empty + 1
            cursor = following
        raise ProtocolError("the daemon's list goes on and on with nothing in it", code="wrong_shape")

    async def upload(
        self,
        name: str,
        places: Mapping[str, object],
        options: Mapping[str, Any],
        body: Tuple[AsyncIterable[bytes], Optional[int]],
        *,
        headers: Mapping[str, str],
    ) -> Any:
        """The operation's answer as JSON, after this body. It is not repeated: what was sent is gone."""
        pieces, length = body
        response = await self.open(
            name, places, options, headers=headers, body=pieces, length=length, extra_s=_UPLOADED_S
        )
        return read_json(await response.read(ANSWER_BYTES_MAX), response.head)

    async def open(
        self,
        name: str,
        places: Mapping[str, object],
        options: Mapping[str, Any],
        *,
        headers: Optional[Mapping[str, str]] = None,
        body: Optional[AsyncIterable[bytes]] = None,
        length: Optional[int] = 0,
        extra_s: float = 0.0,
    ) -> AsyncResponse:
        """An answer to be read piece by piece."""
        call = make_call(name, places, options, headers)
        try:
            return await self._checked(call, await self._send(call, body, length, self.limit_s + extra_s))
        except SquashError as error:
            error.request = error.request or call.name
            raise

    async def aclose(self) -> None:
        """Closes what is kept. A client may be used again after it."""
        kept, self._kept = self._kept, []
        for _, wire in kept:
            wire.close()
        # The loop takes a turn for it.
        await sleep(0)

    async def _answer(self, call: Call, limit_s: float) -> Any:
        try:
            response = await self._checked(call, await self._send(call, None, 0, limit_s))
            data = await response.read(ANSWER_BYTES_MAX)
            return read_json(data, response.head) if data else None
        except SquashError as error:
            error.request = error.request or call.name
            raise

    async def _send(
        self, call: Call, body: Optional[AsyncIterable[bytes]], length: Optional[int], limit_s: float
    ) -> AsyncResponse:
        head = head_of(call, self.address, self._token, len(call.body) if body is None else length)
        wire = self._take() or await AsyncWire.connect(self.address, min(limit_s, self.limit_s))
        response = AsyncResponse(wire, limit_s, self._keep)
        response.request = call.name
        try:
            is_sent = await wire.write(head + call.body, self.limit_s)
            if is_sent and body is not None:
                is_sent = await send_body(wire, body, length, self.limit_s)
            if not is_sent:
                response.forbid_reuse()
            await response.read_head()
            return response
        except BaseException:
            wire.close()
            raise

    async def _checked(self, call: Call, response: AsyncResponse) -> AsyncResponse:
        if 200 <= response.status < 300:
            return response
        async with response:
            data = await response.read(PROBLEM_BYTES_MAX)
        error = problem_of(response.head, data, call.name)
        raise await self._outdated(call, error) if error.code == "daemon_outdated" else error

    async def _outdated(self, call: Call, error: SquashError) -> SquashError:
        """The address is not served: by an older daemon, or by something else?"""
        try:
            info = await self.ask("daemon.info", {}, {}) if call.operation.id != "daemon.info" else None
            version = info["version"]
        except (SquashError, TypeError, KeyError, IndexError):
            return ProtocolError(
                f"what answers at {self.address} is no Squash daemon, or one too old for this SDK ({VERSION})",
                code="not_squash",
                status=error.status,
                remedy="Look at the address",
                request=call.name,
            )
        return ProtocolError(
            f"the daemon ({version}) has no operation {call.operation.id}, which this SDK ({VERSION}) asks for",
            code="daemon_outdated",
            status=error.status,
            remedy="Upgrade the daemon",
            request=call.name,
        )

    def _read(self, cls: Type[_R], name: str, places: Mapping[str, object], answer: object) -> _R:
        try:
            return read(cls, answer)
        except ProtocolError as error:
            error.request = make_call(name, places, {}).name
            raise

    def _take(self) -> Optional[AsyncWire]:
        now = time.monotonic()
        while True:
            try:
                since, wire = self._kept.pop()
            except IndexError:
                # None is left, or another thread took it.
                return None
            if now - since < _IDLE_S and wire.is_usable():
                return wire
            wire.close()

    def _keep(self, wire: AsyncWire) -> None:
        if len(self._kept) < _KEPT_MAX:
            self._kept.append((time.monotonic(), wire))
        else:
            wire.close()


def page_of(answer: Any) -> Tuple[List[Any], Optional[str]]:
    """Items and the next page's cursor. Some lists have no pages and are an array."""
    if isinstance(answer, list):
        return answer, None
    following: Any = None
    items: Any = None
    if isinstance(answer, dict):
        items, following = answer.get("items"), answer.get("next")
    if not isinstance(items, list) or not (following is None or isinstance(following, (str, int))):
        raise ProtocolError("the daemon's answer is no page of a list", code="wrong_shape")
    return items, None if following is None else str(following)
