"""What the installed commands run: the modules, loaded and left with the least ado.

    memory      agent-memory
    sediment    auto-sediment

Loading makes 100,000 objects that stay.  To search them for cycles while they are made costs a recall 2 of its 40 ms, and to
take them apart one by one at its end as much again; the system takes the whole process back at once.
"""
import atexit
import gc
import os
import sys

gc.set_threshold(50_000)                     # the usual 700 would search again and again through what was just loaded


def memory() -> int:
    """`agent_memory.main`; returns its exit code, or ends the process with it."""
    from agent_memory import main
    return _ended(main())


def sediment() -> int:
    """`auto_sediment.main`; returns its exit code, or ends the process with it."""
    from auto_sediment import main
    return _ended(main())


def _ended(code: int) -> int:
    """End the process, unless something waits for its end: threads, what is to be called at exit, a stream that is full."""
    if "threading" in sys.modules or getattr(atexit, "_ncallbacks", lambda: 1)():
        return code
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):
        return code
    os._exit(code)
