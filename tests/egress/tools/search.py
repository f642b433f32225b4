# search.py HEAD TAIL: names every file that was written inside and every process that holds HEAD and TAIL as one word.
# It never builds the word, so that it does not find itself.
import os
import re
import sys

head, tail = sys.argv[1].encode(), sys.argv[2].encode()


def holds(text):
    at = text.find(head)
    while at >= 0:
        if text[at + len(head) : at + len(head) + len(tail)] == tail:
            return True
        at = text.find(head, at + 1)
    return False


def memory(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as file:
        for line in maps:
            found = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
            if found is None or "[v" in line:
                continue
            first, last = (int(part, 16) for part in found.groups())
            try:
                file.seek(first)
                if holds(file.read(last - first)):
                    return True
            except OSError:
                continue
    return False


def content(path):
    with open(path, "rb") as file:
        return holds(file.read(64 << 20))


for root in ("/etc", "/home", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/usr/local", "/var"):
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and not os.path.islink(path) and content(path):
                    print(path)
            except OSError:
                continue
for pid in filter(str.isdigit, os.listdir("/proc")):
    # This one's own words hold the halves, and its environment what every command's does.
    own = int(pid) == os.getpid()
    for what, look in (("environ", content), ("cmdline", content), ("mem", memory)):
        try:
            found = look(pid) if look is memory else look(f"/proc/{pid}/{what}")
            if found and not (own and what == "mem"):
                print(f"/proc/{pid}/{what}")
        except OSError:
            continue
