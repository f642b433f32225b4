"""A terminal for tests: runs a program on a pty of its own, under orders from standard input.

Orders are JSON lines: {"type": text}, {"resize": [rows, columns]}, {"hangup": true}. What the program
writes goes to standard output as it comes. At the end one JSON line on descriptor 3: the program's wait status, and
whether the terminal's settings are what they were before it started.
"""
import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios


def resize(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def main():
    rows, columns = int(sys.argv[1]), int(sys.argv[2])
    master, slave = pty.openpty()
    resize(master, rows, columns)
    before = termios.tcgetattr(slave)
    child = os.fork()
    if child == 0:
        os.close(master)
        os.close(3)
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for fd in (0, 1, 2):
            os.dup2(slave, fd)
        os.execvp(sys.argv[3], sys.argv[3:])
    # The slave stays open here, so that its settings can still be read at the end.
    orders = b""
    sources = [master, 0]
    status = None
    while status is None:
        ready, _, _ = select.select(sources, [], [], 0.05)
        if master in ready:
            os.write(1, os.read(master, 65536))
        if 0 in ready:
            part = os.read(0, 65536)
            if not part:
                sources.remove(0)
            orders += part
            while b"\n" in orders:
                line, orders = orders.split(b"\n", 1)
                order = json.loads(line)
                if "type" in order:
                    os.write(master, order["type"].encode())
                if "resize" in order:
                    resize(master, *order["resize"])
                if "hangup" in order:
                    os.kill(child, 1)
        ended, waited = os.waitpid(child, os.WNOHANG)
        if ended == child:
            status = waited
    while select.select([master], [], [], 0.05)[0]:
        os.write(1, os.read(master, 65536))
    after = termios.tcgetattr(slave)
    os.write(3, json.dumps({"status": status, "restored": before == after}).encode())


main()
