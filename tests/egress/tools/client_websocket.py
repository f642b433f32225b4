# client_websocket.py URL [AUTHORIZATION]: opens a WebSocket, prints the greeting and the echo of a text and of bytes.
import asyncio
import sys

import websockets


async def main():
    headers = {"Authorization": sys.argv[2]} if len(sys.argv) > 2 else {}
    async with websockets.connect(sys.argv[1], extra_headers=headers, open_timeout=20) as socket:
        print(await socket.recv())
        await socket.send("hello")
        print(await socket.recv())
        await socket.send(bytes(range(256)) * 1024)
        print(len(await socket.recv()))


try:
    asyncio.run(main())
except websockets.exceptions.InvalidStatusCode as error:
    print(error.status_code)
    sys.exit(22)
