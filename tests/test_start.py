"""What the installed commands run: the same as `main`, and an end that loses nothing."""
from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent.parent
RUN = "from agent_memory_extras.start import {name}; import sys; sys.exit({name}())"


class Starting(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name + "/root"

    def ran(self, code: str, *words: str, out: int | IO[str] = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
        code = f"import sys; sys.path.insert(0, {str(HERE)!r}); {code}"
        return subprocess.run([sys.executable, "-S", "-c", code, "--root", self.root, *words], text=True, check=False,
                              stdout=out, stderr=subprocess.PIPE)

    def test_all_that_was_said_arrives_in_pipes_with_the_exit_code(self) -> None:
        run = RUN.format(name="memory")
        self.assertEqual(self.ran(run, "remember", "The port is 5432").returncode, 0)
        found = self.ran(run, "recall", "port")
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        self.assertIn("The port is 5432", found.stdout)
        wrong = self.ran(run, "recal", "port")
        self.assertEqual((wrong.returncode, wrong.stdout), (2, ""))
        self.assertIn("recall", wrong.stderr)
        self.assertIn("usage", self.ran(run, "--help").stdout)
        self.assertEqual(self.ran(RUN.format(name="sediment"), "--file", "/no/such").returncode, 1)

    def test_what_waits_for_the_end_of_the_process_has_its_turn(self) -> None:
        code = f"import atexit; atexit.register(print, 'the end'); {RUN.format(name='memory')}"
        self.assertTrue(self.ran(code, "init").stdout.endswith("the end\n"))
        code = ("import threading; threading.Thread(target=lambda: (threading.main_thread().join(), print('the end'))).start(); "
                + RUN.format(name="memory"))
        self.assertTrue(self.ran(code, "init").stdout.endswith("the end\n"))

    def test_a_stream_that_is_full_is_still_told_of(self) -> None:
        if not Path("/dev/full").exists():
            self.skipTest("needs /dev/full")
        run = RUN.format(name="memory")
        self.ran(run, "init")
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = self.ran(run, "rooms", out=full)
        self.assertEqual(done.returncode, 1)
        self.assertIn("error:", done.stderr)

    def test_the_launcher_of_a_checkout_runs_it(self) -> None:
        done = subprocess.run([sys.executable, str(HERE / "agent_memory_extras" / "agent-memory"), "--root", self.root, "init"],
                              text=True, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
