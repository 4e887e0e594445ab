"""The main job on a real session log, start to end: a log is written, sedimented, and asked about.

    python3 bench/demo.py

Needs nothing: no key, no network, no package.  Everything happens in a throw-away folder.
"""
from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import dsh_log  # noqa: E402  it stands beside this file

STEPS = [
    ("A cron job reads the newest session and keeps what is worth keeping:", "auto_sediment.py --latest --apply"),
    ("A second run finds nothing new:", "auto_sediment.py --latest --apply"),
    ("Ask in Chinese:", "agent_memory.py recall 数据库用的是什么"),
    ("Ask in English:", "agent_memory.py recall 'do we prefer pytest or unittest'"),
    ("The default knows words, not meaning; in other words the same question finds nothing:",
     "agent_memory.py recall 'which test framework do we prefer'"),
    ("What was never said is not made up:", "agent_memory.py recall 'who won the chess tournament'"),
    ("Counted:", "agent_memory.py stats"),
]


def main() -> int:
    """Write the log, run each step as a user would, show what it prints; 1 when one fails or the secret leaks."""
    with tempfile.TemporaryDirectory() as folder:
        log = dsh_log.write_session(folder, torn=True)
        print(f"A DeepSeek Harness session, format 4, its last frame torn off by a crash:\n    {log}\n")
        environment = {**os.environ, "HOME": folder, "DSH_HOME": folder, "AGENT_MEMORY_ROOT": os.path.join(folder, "memory")}
        for title, words in STEPS:
            print(f"{title}\n$ python3 {words}", flush=True)
            program, *arguments = shlex.split(words)
            done = subprocess.run([sys.executable, str(HERE.parent / program), *arguments], env=environment,
                                  stderr=subprocess.STDOUT, check=False)
            print(flush=True)
            if done.returncode:
                return 1
        secrets = [secret.encode() for secret in dsh_log.secrets()]
        files = [path for path in Path(folder, "memory").rglob("*") if path.is_file()]
        leaks = [str(path) for path in files if any(secret in path.read_bytes() for secret in secrets)]
        print(f"{len(files)} files searched for the {len(secrets)} secrets that were said: found in {len(leaks)}")
        return bool(leaks)


if __name__ == "__main__":
    sys.exit(main())
