"""For `./squash bench`: for each line of standard input an exec of `true` or a cell that way, answered by its milliseconds."""

import asyncio
import http.client
import json
import sys
import time

from squash import AsyncSquash, Squash

port, box_id, code = sys.argv[1:]
url = f"http://127.0.0.1:{port}"
squash, waiting = Squash(url=url), AsyncSquash(url=url)
box = squash.sandboxes.get(box_id)
loop = asyncio.new_event_loop()
async_box = loop.run_until_complete(waiting.sandboxes.get(box_id))
connection = http.client.HTTPConnection("127.0.0.1", int(port))


def by_http_client() -> int:
    path, body = f"/v1/sandboxes/{box_id}/exec", json.dumps({"argv": ["true"]})
    connection.request("POST", path, body, {"content-type": "application/json"})
    return int(json.loads(connection.getresponse().read())["exit_code"])


ways = {
    "http.client": by_http_client,
    "sdk": lambda: box.exec(["true"]).exit_code,
    "async": lambda: loop.run_until_complete(async_box.exec(["true"])).exit_code,
    "cell": lambda: 0 if box.run_code(code).status == "ok" else 1,
    "async cell": lambda: 0 if loop.run_until_complete(async_box.run_code(code)).status == "ok" else 1,
}
for line in sys.stdin:
    began = time.perf_counter()
    if ways[line.strip()]() != 0:
        sys.exit(f"{line.strip()} failed")
    print((time.perf_counter() - began) * 1_000, flush=True)
