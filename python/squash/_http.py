"""HTTP/1.1 without sockets: heads written and read, requests put together. Bounded: what answers is not trusted with our memory.

Own code because it is small, and what it replaces is not: httpx of Debian 12 takes 200 ms to import and 40 ms for each request
with a body over TCP (it sends head and body apart, and Nagle's algorithm waits); http.client takes 120 ms to import.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple
from urllib.parse import quote, urlencode

from ._address import Address
from ._operations import OPERATIONS, VERSION, Operation
from .errors import BadRequest, ProtocolError

HEAD_BYTES_MAX = 65_536
#: A JSON answer: 4 MiB of output, each byte of it escaped, and room.
ANSWER_BYTES_MAX = 64 * 1_048_576
#: What is read of an answer that only says what went wrong.
PROBLEM_BYTES_MAX = 262_144


class Head(NamedTuple):
    status: int
    headers: Dict[str, str]

    @property
    def length(self) -> Optional[int]:
        """Bytes of the body; None where it is chunked or ends with the connection."""
        if self.status < 200 or self.status in (204, 304):
            return 0
        if "transfer-encoding" in self.headers:
            return None
        text = self.headers.get("content-length")
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise ProtocolError(f'the answer has a length of "{text[:40]}"', code="no_http")
        return int(text)

    @property
    def is_chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower().endswith("chunked")

    @property
    def keeps_open(self) -> bool:
        return "close" not in self.headers.get("connection", "").lower()


def parse_head(data: bytes) -> Head:
    lines = data.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    if len(words) < 2 or words[0] not in ("HTTP/1.1", "HTTP/1.0") or not (len(words[1]) == 3 and words[1].isdigit()):
        raise ProtocolError("what answers there speaks no HTTP", code="no_http", remedy="Look at the address")
    headers: Dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers.setdefault(name.lower(), value.strip())
    if words[0] == "HTTP/1.0":
        headers.setdefault("connection", "close")
    return Head(int(words[1]), headers)


def chunk_size(line: bytes) -> int:
    text = line.partition(b";")[0].strip()
    try:
        if 0 < len(text) <= 15 and text.isalnum():
            return int(text, 16)
    except ValueError:
        # Then it is no number.
        pass
    raise ProtocolError("the answer has a broken chunk", code="no_http")


class Call(NamedTuple):
    """One request, put together."""

    operation: Operation
    target: str
    headers: Dict[str, str]
    body: bytes = b""

    @property
    def name(self) -> str:
        return f"{self.operation.method} {self.target.partition('?')[0]}"


def make_call(
    name: str,
    places: Mapping[str, object],
    options: Mapping[str, Any],
    headers: Optional[Mapping[str, str]] = None,
    body: bytes = b"",
) -> Call:
    """The operation's options go where it takes them: into the query, else into a JSON body. None is sent in bodies only."""
    operation = OPERATIONS[name]
    target = operation.path
    for place, value in places.items():
        target = target.replace("{" + place + "}", _segment(place, value))
    query: List[Tuple[str, str]] = []
    fields: Dict[str, Any] = {}
    for option, value in options.items():
        option = option[:-1] if option.endswith("_") else option
        if option in operation.query or not operation.takes_json:
            if value is not None:
                query.append((option, _word(value)))
        else:
            fields[option] = value
    if query:
        target += "?" + urlencode(query, quote_via=quote, safe="")
    sent = dict(headers or {})
    if operation.takes_json:
        sent["content-type"] = "application/json"
        body = _json(name, fields)
    elif body:
        sent.setdefault("content-type", "application/octet-stream")
    return Call(operation, target, sent, body)


def head_of(call: Call, address: Address, token: Optional[str], length: Optional[int]) -> bytes:
    """The request's first lines. Without a length its body is sent in chunks."""
    lines = [
        f"{call.operation.method} {address.prefix}{call.target} HTTP/1.1",
        f"host: {address.authority}",
        f"user-agent: squash-python/{VERSION}",
    ]
    if token is not None:
        lines.append(f"authorization: Bearer {token}")
    for name, value in call.headers.items():
        if "\r" in value or "\n" in value or "\0" in value:
            raise BadRequest(f"the header {name} holds a line break", code="invalid_request")
        lines.append(f"{name}: {value}")
    if length is None:
        lines.append("transfer-encoding: chunked")
    elif length > 0 or call.operation.method != "GET":
        lines.append(f"content-length: {length}")
    try:
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    except UnicodeEncodeError:
        raise BadRequest("a header holds characters that no header has", code="invalid_request") from None


def _segment(place: str, value: object) -> str:
    text = str(value)
    # Servers and proxies take dots for a way up, and an empty name for another address.
    if text in ("", ".", ".."):
        raise BadRequest(f'"{text}" names no {place}', code="invalid_request")
    return quote(text, safe=":")


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(_word(item) for item in value)
    return str(value)


def _json(name: str, fields: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(fields, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise BadRequest(f"the options of {name} can not be sent as JSON: {error}", code="invalid_request") from None
