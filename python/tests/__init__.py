"""Tests at a daemon, which SQUASH_API names; tests/e2e/python-sdk.test.ts starts one and calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from squash.options import SandboxCreateFromLayers

LAYERS: SandboxCreateFromLayers = {"layers": ["000-base-test"]}
#: What `squash quickstart` brings has these names, beside the one that tests use.
MODULES = ["000-base-debian", "000-base-test", "100-python311"]
