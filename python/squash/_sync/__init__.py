"""The SDK as most programs use it. All but `wire.py` is made by tools/python-sdk.ts from the form that waits."""
