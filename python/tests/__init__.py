"""Tests at a daemon, which SQUASH_API names; tests/e2e/python-sdk.test.ts starts one and calls them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from squash.options import SandboxCreateFromLayers

LAYERS: SandboxCreateFromLayers = {"layers": ["000-base-test"]}
#: What `squash quickstart` brings has these names, beside the one that tests use.
MODULES = ["000-base-debian", "000-base-test", "100-python311"]
#: A sandbox that asks for no backend is a microVM: its mounts come and go while it is stopped, and it starts from a module of its own.
ON_VMS = os.environ.get("TEST_BACKEND") == "vm"
if ON_VMS:
    MODULES.append("900-vmm")
