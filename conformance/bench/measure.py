"""Runs a command and prints what it cost as JSON: seconds by the clock and of the processor, and at most how many KiB.

measure.py SAID COMMAND...: what the command says goes to the file SAID, its input is ours. Memory is that of all its
processes together, shared pages counted once, as seen fifty times a second; at least what the largest process ever had.
The system's own count of that (ru_maxrss) is no use: a program takes over the peak of the one that started it, which is
this.
"""

import glob
import json
import resource
import subprocess
import sys
import threading
import time


def children(task):
    try:
        with open(f"{task}/children") as words:
            return words.read().split()
    except OSError:
        return []


def tree(pid):
    # Any thread may have started a process, not only the first: programs in Go start theirs from where they happen to run.
    below = [child for task in glob.glob(f"/proc/{pid}/task/*") for child in children(task)]
    return [pid] + [process for child in below for process in tree(int(child))]


def memory(pid, file, word):
    try:
        with open(f"/proc/{pid}/{file}") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith(word))
    except (OSError, StopIteration):
        return 0


def watch(pid, over, seen):
    while not over.wait(0.02):
        processes = tree(pid)
        seen.append(sum(memory(process, "smaps_rollup", "Pss:") for process in processes))
        seen.append(max(memory(process, "status", "VmHWM:") for process in processes))


seen, over = [0], threading.Event()
with open(sys.argv[1], "wb") as said:
    begin = time.monotonic()
    child = subprocess.Popen(sys.argv[2:], stdout=said, stderr=said)
    watcher = threading.Thread(target=watch, args=(child.pid, over, seen))
    watcher.start()
    code = child.wait()
    wall = time.monotonic() - begin
over.set()
watcher.join()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
cost = {"code": code, "wall": wall, "cpu": used.ru_utime + used.ru_stime, "peak": max(seen)}
print(json.dumps(cost))
