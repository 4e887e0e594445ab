"""Runs commands, a process each, and says what every one cost: seconds of CPU, bytes of memory at its peak.

    python3 bench/cold.py < commands.json           [[program, argument, ...], ...] in, [[seconds, bytes], ...] out

`speed.py` starts it.  A child's peak counts from the memory of the process that forked it, so that one has to be small.
"""
import json
import os
import sys

UNIT = 1 if sys.platform == "darwin" else 1024         # of ru_maxrss


def spent(command: list[str]) -> tuple[float, int]:
    """What one command cost; it reads and prints nothing."""
    silent = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    _, status, used = os.wait4(os.posix_spawn(command[0], command, os.environ, file_actions=silent), 0)
    if status:
        sys.exit(f"failed with {os.waitstatus_to_exitcode(status)}: {command}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * UNIT


if __name__ == "__main__":
    print(json.dumps([spent(command) for command in json.load(sys.stdin)]))
