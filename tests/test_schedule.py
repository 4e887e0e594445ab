"""Jobs for cron and for systemd: put in place beside the user's own, looked after, and taken out whole."""
from __future__ import annotations

import contextlib
import io
import json
import shlex
import subprocess
import sys
import tempfile
import unittest
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import agent_memory as am
from agent_memory_extras import schedule

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
CRONTAB = """#!/bin/sh
[ -e "$HOME/broken" ] && { echo "you may not use crontab" >&2; exit 1; }
case $1 in
    -l) /bin/cat "$HOME/tab" 2>/dev/null || { echo "no crontab for user" >&2; exit 1; } ;;
    -r) /bin/rm "$HOME/tab" ;;
    -)  [ -e "$HOME/full" ] && { echo "disk is full" >&2; exit 1; }; /bin/cat >"$HOME/tab" ;;
esac
"""
SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$HOME/asked"
[ -e "$HOME/nobus" ] && { echo "Failed to connect to bus" >&2; exit 1; }
[ "$2" = is-active ] && [ -e "$HOME/stopped" ] && exit 3
exit 0
"""


class Spec(unittest.TestCase):
    """A home, a memory whose path is awkward, and such schedulers as a test wishes for."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        self.home, self.root, self.bin = self.folder / "home", self.folder / "my 100% memory", self.folder / "bin"
        self.home.mkdir()
        self.bin.mkdir()
        self.memory = am.AgentMemory(self.root)
        self.memory.init()
        self.tab, self.units = self.home / "tab", self.home / ".config/systemd/user"
        self.env = {"HOME": str(self.home), "PATH": str(self.bin), "LC_ALL": "C.UTF-8"}

    def have(self, **programs: str) -> None:
        for name, text in programs.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    def run_main(self, *words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = am.main(["--root", str(self.root), "schedule", *words], environment=self.env, now=lambda: NOW)
        return code, out.getvalue(), err.getvalue()

    def data(self, *words: str, code: int = 0) -> dict[str, Any]:
        done, out, err = self.run_main(*words, "--json")
        self.assertEqual((done, err), (code, ""))
        found: dict[str, Any] = json.loads(out)["data"]
        return found

    def troubles(self) -> list[str]:
        """What status finds wrong; its exit code says whether that is anything."""
        code, out, _ = self.run_main("status", "--json")
        found = [one["what"] for one in json.loads(out)["data"]["findings"] if one["trouble"]]
        self.assertEqual(code, int(bool(found)))
        return found

    def ran(self, **more: Any) -> None:
        self.memory.slot("sediment").write({"last": {"time": NOW.isoformat(), "added": 2, "sessions": 1, "error": None, **more}})


class Times(unittest.TestCase):
    """How often is said as cron and systemd say it, where a clock can keep it."""

    def test_what_comes_out_even(self) -> None:
        for every, cron, calendar in (("15m", "*/15 * * * *", "*:0/15"), ("5", "*/5 * * * *", "*:0/5"),
                                      ("60m", "7 * * * *", "*:07"), ("6h", "7 */6 * * *", "0/6:07"), ("24h", "7 4 * * *", "04:07")):
            with self.subTest(every):
                self.assertEqual(schedule.times(every), (cron, calendar))

    def test_what_does_not(self) -> None:
        for every in ("7m", "0m", "5h", "90m", "1d", "often", "", "-5m"):
            with self.subTest(every), self.assertRaisesRegex(am.UsageError, "cannot be kept"):
                schedule.times(every)


class Cron(Spec):
    """Our lines stand between markers; the user's lines stay as they are."""

    USERS = ("", "MAILTO=me\n# mine\n0 5 * * * backup\n", "0 5 * * * backup")

    def setUp(self) -> None:
        super().setUp()
        self.have(crontab=CRONTAB)

    def test_a_memory_whose_path_would_end_a_line_is_refused(self) -> None:
        self.root = self.folder / "a\n* * * * * touch owned"
        am.AgentMemory(self.root).init()

        self.assertEqual(self.run_main("install")[0], 2)
        self.assertFalse(self.tab.exists())

    def test_lines_come_once_and_go_again(self) -> None:
        for text in self.USERS:
            with self.subTest(text):
                if text:
                    self.tab.write_text(text)
                self.assertEqual(self.data("install")["kind"], "cron")
                first = self.tab.read_text()
                self.assertTrue(first.startswith(text))
                self.assertEqual(len(first.splitlines()), len(text.splitlines()) + 4 + bool(text))
                self.data("install")
                self.assertEqual(self.tab.read_text(), first)
                self.data("install", "--every", "6h")
                self.assertEqual(self.tab.read_text(), first.replace("*/15 * * * *", "7 */6 * * *"))
                self.assertEqual(self.data("remove")["kind"], "cron")
                self.assertEqual(self.tab.read_text().rstrip("\n") if text else self.tab.exists(), text.rstrip("\n") or False)

    def test_a_line_runs_what_it_says_with_its_errors_in_the_log(self) -> None:
        self.env["CODEX_HOME"] = str(self.folder / "of codex")
        self.data("install")
        line, daily = self.tab.read_text().splitlines()[1:3]
        self.assertNotIn("%", line.replace(r"\%", ""))
        shell = line.split(" ", 5)[5].replace(r"\%", "%")
        self.assertIn(f"CODEX_HOME={shlex.quote(self.env['CODEX_HOME'])} ", shell)
        self.assertIn(f"--all --apply --quiet --root {shlex.quote(str(self.root))} >>", shell)
        self.assertIn("prune --yes --root", daily)
        home = {"HOME": str(self.home), "DSH_HOME": str(self.home)}
        subprocess.run(["/bin/sh", "-c", shell], env=home, check=True, timeout=60)
        self.assertEqual((self.root / "sediment.log").read_text(), "")
        self.assertEqual(self.memory.slot("sediment").read()["last"]["error"], None)
        subprocess.run(["/bin/sh", "-c", daily.split(" ", 5)[5].replace(r"\%", "%")], env=home, check=True, timeout=60)
        self.assertEqual(sorted(path.name for path in self.root.glob("sediment.log*")), ["sediment.log", "sediment.log.1"])
        self.assertEqual((self.root / "sediment.log").stat().st_mode & 0o77, 0)

    def test_a_crontab_that_fails_changes_nothing(self) -> None:
        self.tab.write_text("0 5 * * * backup\n")
        for name, said in (("broken", "you may not use crontab"), ("full", "disk is full")):
            with self.subTest(name):
                (self.home / name).touch()
                code, out, err = self.run_main("install", "--kind", "cron")
                self.assertEqual((code, out), (1, ""))
                self.assertIn(said, err)
                self.assertIn("nothing was changed", err)
                self.assertEqual(self.tab.read_text(), "0 5 * * * backup\n")
                (self.home / name).unlink()

    def test_half_a_block_is_refused(self) -> None:
        self.tab.write_text("# agent-memory:begin\n0 5 * * * backup\n")

        self.assertNotEqual(self.run_main("install")[0], 0)
        self.assertEqual(self.tab.read_text(), "# agent-memory:begin\n0 5 * * * backup\n")


class Systemd(Spec):
    """Two services, two timers, all ours; systemd is told, and where it does not answer the user is."""

    def setUp(self) -> None:
        super().setUp()
        self.have(systemctl=SYSTEMCTL)

    def asked(self) -> str:
        return (self.home / "asked").read_text()

    def test_units_come_and_go(self) -> None:
        self.assertEqual(self.data("install")["kind"], "systemd")
        names = {path.name for path in self.units.iterdir()}
        self.assertEqual(names, {f"{name}.{kind}" for name in schedule.NAMES for kind in ("service", "timer")})
        self.assertIn("--user daemon-reload\n--user enable --now agent-memory.timer agent-memory-prune.timer\n", self.asked())
        timer, service = ((self.units / f"agent-memory.{kind}").read_text() for kind in ("timer", "service"))
        self.assertIn("\nOnCalendar=*:0/15\nPersistent=true\n", timer)
        self.assertIn('"--all" "--apply" "--quiet" "--root" "' + str(self.root).replace("%", "%%") + '"\n', service)
        self.assertIn('\nEnvironment="PATH=', service)
        self.assertEqual(self.data("remove")["kind"], "systemd")
        self.assertEqual(list(self.units.iterdir()), [])
        self.assertIn("--user disable --now agent-memory.timer", self.asked())

    def test_where_it_does_not_answer_the_units_are_written_and_the_user_told(self) -> None:
        (self.home / "nobus").touch()
        code, out, _ = self.run_main("install", "--kind", "systemd")

        self.assertEqual(code, 1)
        self.assertIn("systemctl --user enable --now agent-memory.timer", out)
        self.assertIn("Failed to connect to bus", out)
        self.assertTrue((self.units / "agent-memory.timer").exists())

    def test_a_unit_of_somebody_else_stays(self) -> None:
        self.units.mkdir(parents=True)
        (self.units / "agent-memory.timer").write_text("[Timer]\n")

        self.assertEqual(self.run_main("install")[0], 1)
        self.assertEqual([path.name for path in self.units.iterdir()], ["agent-memory.timer"])
        self.data("remove")
        self.assertTrue((self.units / "agent-memory.timer").exists())

    def test_one_kind_only(self) -> None:
        self.have(crontab=CRONTAB)
        self.data("install", "--kind", "cron")
        self.data("install", "--kind", "systemd")
        self.assertFalse(self.tab.exists())
        self.data("install", "--kind", "cron")
        self.assertEqual(list(self.units.iterdir()), [])


class Neither(Spec):
    """Where no scheduler answers, the lines are printed."""

    def test_the_lines_to_be_put_elsewhere(self) -> None:
        code, out, _ = self.run_main("install")

        self.assertEqual(code, 1)
        self.assertIn("# agent-memory:begin\n*/15 * * * * umask 077; ", out)
        self.assertEqual([path.name for path in self.home.iterdir()], [])
        self.assertIn("请把下面几行放进 crontab", self.run_main("install", "--lang", "zh")[1])

    def test_words_that_mean_nothing(self) -> None:
        for words in (("instal",), (), ("install", "--every", "7m"), ("install", "--kind", "at")):
            with self.subTest(words):
                self.assertEqual(self.run_main(*words)[0], 2)


class Status(Spec):
    """What is installed, how it went, and what is wrong with it, which is the exit code."""

    def setUp(self) -> None:
        super().setUp()
        self.have(crontab=CRONTAB)

    def test_a_job_that_does_its_work(self) -> None:
        self.data("install")
        self.assertEqual(self.troubles(), [])
        self.assertIn("it has not run yet", self.run_main("status")[1])
        self.ran()

        self.assertEqual(self.troubles(), [])
        self.assertIn("last run: 2026-11-30T08:00:00+00:00, 1 sessions, 2 memories added", self.run_main("status")[1])

    def test_no_job(self) -> None:
        self.assertEqual(self.troubles(), ["no job is installed: schedule install"])

    def test_an_interpreter_that_is_gone_and_another_memory(self) -> None:
        self.data("install")
        text = self.tab.read_text()
        self.tab.write_text(text.replace(shlex.quote(schedule.program()[0]), "/gone/python3"))
        self.assertEqual(self.troubles(), ["/gone/python3 is gone: schedule install names the one of today"])
        self.tab.write_text(text.replace("100\\% memory", "other"))
        self.assertEqual(self.troubles(), [f"it serves another memory: {self.folder / 'my other'}"])

    def test_a_run_that_failed_or_was_long_ago(self) -> None:
        self.data("install")
        self.ran(error="the log is torn")
        self.assertEqual(self.troubles(), ["the last run failed: the log is torn"])
        self.ran(time="2026-11-20T08:00:00+00:00")
        self.assertEqual(self.troubles(), ["the last run was long ago: 2026-11-20T08:00:00+00:00"])
        self.ran(time="yesterday")
        self.assertEqual(self.troubles(), ["the last run was long ago: yesterday"])

    def test_a_timer_that_stands_still(self) -> None:
        self.have(systemctl=SYSTEMCTL)
        self.data("install")
        self.ran()
        self.assertEqual(self.troubles(), [])
        (self.home / "stopped").touch()

        self.assertEqual(self.troubles(), ["a timer does not run: schedule install starts it"])

    def test_a_crontab_that_cannot_be_read(self) -> None:
        (self.home / "broken").touch()

        self.assertEqual(self.run_main("status")[0], 1)


if __name__ == "__main__":
    unittest.main()
