# memory.py HEAD TAIL: names every process here whose memory holds HEAD and TAIL as one word; it never builds the word.
import os
import re
import sys

head, tail = sys.argv[1].encode(), sys.argv[2].encode()
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == os.getpid():
        continue
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in maps:
                found = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
                if found is None or "[v" in line:
                    continue
                first, last = (int(part, 16) for part in found.groups())
                memory.seek(first)
                text = memory.read(last - first)
                at = text.find(head)
                while at >= 0:
                    if text[at + len(head) : at + len(head) + len(tail)] == tail:
                        print(f"/proc/{pid}/mem")
                        break
                    at = text.find(head, at + 1)
    except OSError:
        continue
