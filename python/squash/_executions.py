"""What a cell did."""

from __future__ import annotations

import base64
from typing import Optional

from . import types
from ._record import read
from .errors import CommandFailed


class Execution(types.Execution):
    """What a cell did. One that raised is a result; ``check()`` makes an error of it."""

    def check(self) -> Execution:
        """Itself where ``status`` is ``ok``. Raises CommandFailed where it is not."""
        if self.status == "ok":
            return self
        why = f"{self.error.name}: {self.error.message}" if self.error is not None else self.status
        raise CommandFailed(f"the cell ended with {why[:300]}", self)

    @property
    def text(self) -> Optional[str]:
        """The value of its last expression as text; None where it has none."""
        return next((result.text for result in self.results if result.is_main), None)

    @property
    def png(self) -> Optional[bytes]:
        """The first picture that it showed; None where it showed none."""
        shown = next((result.png for result in self.results if result.png is not None), None)
        return None if shown is None else base64.b64decode(shown)


def execution(answer: object) -> Execution:
    done = read(Execution, answer)
    # A stranger's empty object would look like a success to whoever does not look.
    _ = done.status, done.results
    return done
