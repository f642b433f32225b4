"""For `./squash bench`, in a sandbox: for each line of standard input a hundred cells that way, answered by their milliseconds."""

import io
import json
import sys
import time

from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import KernelManager
from traitlets.config import Config

code, answers = sys.argv[1], sys.stdout
without_history = Config()
without_history.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=without_history)
# As contexts start it, by Unix sockets.
manager = KernelManager(transport="ipc")
manager.start_kernel(extra_arguments=["--HistoryManager.enabled=False", "--IPKernelApp.log_level=50"])
client = manager.blocking_client()
client.start_channels()
client.wait_for_ready()


def by_ipython(cell: str) -> bool:
    return bool(shell.run_cell(cell, store_history=True).success)


def by_jupyter_client(cell: str) -> bool:
    told: list[object] = []
    reply = client.execute_interactive(cell, allow_stdin=False, output_hook=told.append)
    return reply["content"]["status"] == "ok" and len(told) > 0


ways = {"ipython": by_ipython, "jupyter_client": by_jupyter_client}
for way in ways.values():
    way("n = 0")
for line in sys.stdin:
    way, took = ways[line.strip()], []
    # Where IPython shows values.
    sys.stdout = io.StringIO()
    for _ in range(100):
        began = time.perf_counter()
        if not way(code):
            sys.exit("a cell failed")
        took.append((time.perf_counter() - began) * 1_000)
    sys.stdout = answers
    print(json.dumps(took), flush=True)
client.stop_channels()
manager.shutdown_kernel(now=True)
