"""A command as programs name it, and how it ended."""

from __future__ import annotations

import base64
from typing import Any, Dict, Mapping, Sequence, Union

from . import types
from ._record import read
from .errors import BadRequest, CommandFailed

#: A text is a shell line, a list is words that no shell sees.
Command = Union[str, Sequence[str]]

#: What the daemon takes where nothing is given.
_TIMEOUT_MS_DEFAULT = 300_000
#: Making, restoring and saving sandboxes may take so long.
SLOW_S = 600.0


def command_options(command: Command, options: Mapping[str, Any]) -> Dict[str, Any]:
    if not command:
        raise BadRequest("the command is empty", code="invalid_request")
    fields = dict(options)
    if isinstance(command, str):
        fields["shell"] = command
    else:
        fields["argv"] = list(command)
    return fields


def takes_s(options: Mapping[str, Any]) -> float:
    """How long a command may run before the daemon answers."""
    given = options.get("timeout_ms", _TIMEOUT_MS_DEFAULT)
    return given / 1_000 if isinstance(given, (int, float)) else 0.0


class ExecResult(types.ProcessResult):
    """How a command ended. A command that fails is a result; ``check()`` makes an error of it."""

    def check(self) -> ExecResult:
        """Itself where the command ended with 0. Raises CommandFailed where it did not."""
        if self.exit_code == 0:
            return self
        said = (self.stderr.strip() or self.stdout.strip()).rpartition("\n")[2][-300:]
        why = "ran out of time" if self.timed_out else f"ended with exit code {self.exit_code}"
        if self.reason not in ("exited", "timed_out"):
            why += f", {self.reason}"
        raise CommandFailed(f"`{self.command[:200]}` {why}{': ' + said if said else ''}", self)

    @property
    def stdout_data(self) -> bytes:
        """Standard output as bytes; exactly those that were written where ``encoding`` is ``base64``."""
        return self._data(self.stdout)

    @property
    def stderr_data(self) -> bytes:
        return self._data(self.stderr)

    def _data(self, text: str) -> bytes:
        return base64.b64decode(text) if self.encoding == "base64" else text.encode("utf-8", "surrogatepass")


def exec_result(answer: object) -> ExecResult:
    result = read(ExecResult, answer)
    # A stranger's empty object would look like a success to whoever does not look.
    _ = result.exit_code, result.stdout
    return result
