"""The SDK with ``await``. `_sync` is made from it by tools/python-sdk.ts."""
