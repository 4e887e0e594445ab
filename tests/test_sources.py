"""Where a digested memory comes from, and the turns it came from.

    python3 -m unittest tests.test_sources
"""
from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

import agent_memory as am  # noqa: E402  the module beside this folder, installed or not
import auto_sediment as sediment  # noqa: E402
from agent_memory_extras import sources  # noqa: E402

TALK = (("user", "We decided to use Postgres 16 for orders. My password is hunter2, by the way."),
        ("assistant", "Noted. 建议把缓存放在 Redis。"),
        ("user", "好的。我偏好用中文回答"))


class Learned(unittest.TestCase):
    """A folder that is the home, with a session of Claude Code in it that was digested."""

    ARCHIVE = "off"

    def setUp(self) -> None:
        self.home = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.dict(os.environ, {"HOME": str(self.home), "LC_ALL": "C.UTF-8"}, clear=True))
        self.shop = self.home / "work" / "shop" / "backend"
        self.shop.mkdir(parents=True)
        (self.shop.parent / ".git").mkdir()
        self.log = self.home / ".claude" / "projects" / "-work-shop" / "5e55.jsonl"
        self.log.parent.mkdir(parents=True)
        self.log.write_text("".join(json.dumps(
            {"type": role, "uuid": f"u{at}", "sessionId": "5e55", "cwd": str(self.shop), "timestamp": f"2026-11-30T08:0{at}:00.5Z",
             "message": {"role": role, "content": text}}) + "\n" for at, (role, text) in enumerate(TALK)), encoding="utf-8")
        self.run_it(sediment.main, "--all", "--apply", "--archive", self.ARCHIVE)
        self.memory = self.enterContext(am.AgentMemory(self.home / "memory"))

    def run_it(self, main: Any, *words: str) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            main(["--root", str(self.home / "memory"), *words])
        return out.getvalue()

    def memory_of(self, word: str) -> am.Memory:
        [found] = [memory for memory in self.memory.list() if word in memory.content]
        return found


class Provenance(Learned):
    """A digested memory knows its turn, who said it and when, its session, and its project unless it is of the person."""

    def test_each_fact_is_traced_to_its_own_turn(self) -> None:
        for word, turn, speaker, minute, project in (
                ("Postgres", 0, "user", 0, "shop"), ("Redis", 1, "assistant", 1, "shop"), ("偏好", 2, "user", 2, None)):
            with self.subTest(word):
                memory = self.memory_of(word)
                self.assertEqual(
                    (memory.source, memory.session, memory.seq, memory.speaker, memory.said_at, memory.project),
                    (f"claude-code:5e55#{turn}", "5e55", turn, speaker, f"2026-11-30T08:0{minute}:00+00:00", project))

    def test_a_person_outranks_the_assistant_who_said_the_same(self) -> None:
        turns = [sediment.Turn("assistant", "we use Postgres", 1), sediment.Turn("user", "yes: we  use\npostgres", 2)]

        self.assertEqual(sediment.origin("we use Postgres", turns).seq, 2)

    def test_other_words_are_traced_by_their_terms_or_not_at_all(self) -> None:
        turns = [sediment.Turn("user", "the orders live in Postgres sixteen since May", 4), sediment.Turn("user", "fine", 5)]

        self.assertEqual(sediment.origin("orders live in Postgres", turns).seq, 4)
        self.assertIsNone(sediment.origin("something else entirely", turns))

    def test_the_project_is_the_repository(self) -> None:
        for cwd, project in ((str(self.shop), "shop"), (str(self.home / "work"), "work"), (str(self.home), None), ("/", None),
                             ("", None), ("/gone/away", "away")):
            with self.subTest(cwd):
                self.assertEqual(am.project_of(cwd), project)


class SecretNames(Learned):
    """A session whose id looks like a secret is known by a print of it, and still found."""

    ID = "ses_dd75cb0e5ffekD1jMyhnrXuOdR"
    ARCHIVE = "on"

    def setUp(self) -> None:
        super().setUp()
        self.other = self.log.with_name("6e66.jsonl")
        self.other.write_text(json.dumps({"type": "user", "uuid": "v1", "sessionId": self.ID, "message": {
            "role": "user", "content": "We decided to use Kafka for events"}}) + "\n", encoding="utf-8")
        self.run_it(sediment.main, "--all", "--apply", "--archive", "on")

    def test_its_turns_are_found_in_the_log_and_in_the_archive(self) -> None:
        memory = self.memory_of("Kafka")
        self.assertRegex(memory.source, r"^claude-code:~[0-9a-f]{16}#0$")
        self.assertEqual(sources.origin(self.memory, memory.id).path, str(self.other))
        self.other.unlink()
        self.assertEqual(sources.origin(self.memory, memory.id).found, "archive")

    def test_the_id_itself_is_written_nowhere_as_it_is_masked_everywhere(self) -> None:
        self.assertNotEqual(am.redact(self.ID), self.ID)
        for path in (self.home / "memory").rglob("*"):
            if path.is_file():
                self.assertNotIn(self.ID.encode(), path.read_bytes(), path)
        self.assertNotIn(self.ID, json.dumps(self.memory.archived("claude-code", self.memory_of("Kafka").session)))


class Source(Learned):
    """`source` shows the turns a memory comes from, masked, or says that nothing is left of them."""

    def test_the_turn_and_its_neighbours_are_shown_masked(self) -> None:
        told = sources.origin(self.memory, self.memory_of("Redis").id)

        self.assertEqual((told.found, [turn["said"] for turn in told.turns]), ("log", [False, True, False]))
        self.assertIn("[已脱敏:password]", told.turns[0]["text"])
        spoken = self.run_it(am.main, "source", self.memory_of("Postgres").id)
        self.assertIn("   | We decided to use Postgres 16", spoken)
        self.assertNotIn("hunter2", spoken)

    def test_the_turn_alone_is_shown_where_no_neighbours_are_wanted(self) -> None:
        spoken = self.run_it(am.main, "source", self.memory_of("Redis").id, "--around", "0")

        self.assertIn("Redis", spoken)
        self.assertNotIn("Postgres", spoken)

    def test_a_log_that_moved_can_be_named(self) -> None:
        id = self.memory_of("Postgres").id
        moved = self.home / "old.jsonl"
        self.log.rename(moved)

        self.assertEqual(sources.origin(self.memory, id).found, "gone")
        self.assertIn("nothing was kept", self.run_it(am.main, "source", id))
        self.assertEqual(sources.origin(self.memory, id, str(moved)).path, str(moved))

    def test_a_secret_in_the_name_of_a_session_hides_neither_its_log_nor_its_turns(self) -> None:
        secret = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
        log = self.log.with_name(f"{secret}.jsonl")
        log.write_text(self.log.read_text(encoding="utf-8").replace("5e55", secret).replace('"uuid": "u', '"uuid": "v')
                       .replace("Redis", "Kafka"), encoding="utf-8")
        self.run_it(sediment.main, "--all", "--apply", "--archive", "on")
        id = self.memory_of("Kafka").id

        self.assertEqual(sources.origin(self.memory, id).found, "log")
        log.unlink()
        self.assertEqual(sources.origin(self.memory, id).found, "archive")

    def test_what_a_person_typed_in_comes_from_no_conversation(self) -> None:
        id = self.memory.remember("typed in", source="notes").id

        self.assertEqual(sources.origin(self.memory, id).found, "none")
        self.assertEqual(self.run_it(am.main, "source", id), f"{id} comes from no conversation: notes\n")


class Archived(Learned):
    """With --archive on the digested turns outlive their log."""

    ARCHIVE = "on"

    def test_they_are_shown_when_the_log_is_gone(self) -> None:
        id = self.memory_of("Redis").id
        self.log.unlink()
        told = sources.origin(self.memory, id)

        self.assertEqual((told.found, len(told.turns)), ("archive", 3))
        self.assertNotIn("hunter2", json.dumps(told.to_dict()))
        self.assertEqual(json.loads(self.run_it(am.main, "source", id, "--json"))["data"]["found"], "archive")

    def test_a_turn_that_is_only_the_password_asked_for_is_masked(self) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            for at, (role, text) in enumerate((("assistant", "And what is the wifi password?"), ("user", "Tig3r#88rain"),
                                               ("user", "We decided to keep the printer in room 4."))):
                said = {"type": role, "uuid": f"v{at}", "sessionId": "5e55", "timestamp": f"2026-11-30T09:0{at}:00.5Z"}
                log.write(json.dumps({**said, "cwd": str(self.shop), "message": {"role": role, "content": text}}) + "\n")
        told = self.run_it(sediment.main, "--all", "--json") + self.run_it(sediment.main, "--all", "--apply", "--archive", "on")
        kept = json.dumps(self.memory.archived("claude-code", "5e55"), ensure_ascii=False)

        self.assertIn("printer", kept)
        self.assertIn("[已脱敏:password]", kept)
        self.assertNotIn("Tig3r", told + kept)

    def test_a_turn_that_is_only_the_password_after_an_old_one_is_masked(self) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            for at, (role, text) in enumerate((("user", "That password is old."), ("assistant", "Sommer75ab"),
                                               ("user", "We decided to keep the printer in room 4."))):
                said = {"type": role, "uuid": f"v{at}", "sessionId": "5e55", "timestamp": f"2026-11-30T09:0{at}:00.5Z"}
                log.write(json.dumps({**said, "cwd": str(self.shop), "message": {"role": role, "content": text}}) + "\n")
        told = self.run_it(sediment.main, "--all", "--json") + self.run_it(sediment.main, "--all", "--apply", "--archive", "on")
        kept = json.dumps(self.memory.archived("claude-code", "5e55"), ensure_ascii=False)

        self.assertIn("That password is old.", kept)
        self.assertNotIn("Sommer75ab", told + kept)

    def test_forgetting_the_memory_forgets_its_turn(self) -> None:
        memory = self.memory_of("Redis")
        self.memory.forget(memory.id)

        self.assertNotIn("Redis", json.dumps(self.memory.archived("claude-code", "5e55"), ensure_ascii=False))


class Doctor(Learned):
    """`doctor` tells which agents are here, what of their sessions is new, and who reads them."""

    def findings(self) -> dict[tuple[str, str], tuple[str, bool]]:
        found = json.loads(self.run_it(am.main, "doctor", "--json"))["data"]["findings"]
        return {(one["kind"], one["where"]): (one["what"], one["trouble"]) for one in found}

    def test_sessions_and_new_turns_are_counted(self) -> None:
        self.assertEqual(self.findings()["agent", "claude-code"], ("1 sessions, 0 with something new", False))
        with self.log.open("a", encoding="utf-8") as log:
            more = {"type": "user", "uuid": "u9", "sessionId": "5e55", "message": {"role": "user", "content": "more"}}
            log.write(json.dumps(more) + "\n")
        self.assertEqual(self.findings()["agent", "claude-code"], ("1 sessions, 1 with something new: 1 turns", False))

    def test_logs_that_will_be_deleted_unread_are_trouble(self) -> None:
        self.assertEqual(self.findings()["logs vanish", "claude-code"],
                         ("deletes its logs after 30 days (cleanupPeriodDays)", False))
        (self.home / ".claude" / "settings.json").write_text('{"cleanupPeriodDays": 10}')
        self.log.write_text(self.log.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        week_ago = self.memory.now().timestamp() - 7 * 86_400
        os.utime(self.log, (week_ago, week_ago))
        what, trouble = self.findings()["logs vanish", "claude-code"]

        self.assertTrue(trouble)
        self.assertIn("after 10 days (cleanupPeriodDays); one that was never read is 7 days old", what)

    def test_a_turn_that_was_masked_is_not_new_again(self) -> None:
        chat = self.home / ".codex" / "sessions" / "rollout-1.jsonl"
        chat.parent.mkdir(parents=True)
        said = [{"type": "session_meta", "payload": {"id": "c1"}},
                {"type": "event_msg", "payload": {"type": "user_message", "message": "my password is hunter2"}}]
        chat.write_text("".join(json.dumps(line) + "\n" for line in said))
        self.run_it(sediment.main, "--all", "--apply")
        chat.write_text(chat.read_text() + "\n")

        self.assertEqual(self.findings()["agent", "codex"], ("1 sessions, 1 with something new: 0 turns", False))

    def test_an_agent_that_was_told_of_us_and_has_no_session_is_named(self) -> None:
        (self.home / ".codex").mkdir()
        self.assertNotIn(("agent", "codex"), self.findings())
        self.run_it(am.main, "integrate", "codex", "--write")
        self.assertEqual(self.findings()["agent", "codex"], ("integrated; it has no session yet", False))

    def test_the_timer_and_the_last_run_are_told(self) -> None:
        found = self.findings()

        self.assertEqual(found["timer", "none"], ("nothing reads logs by itself: schedule install", False))
        self.assertEqual([what for (kind, _), what in found.items() if kind == "last run"],
                         [("1 sessions, 3 memories added", False)])


del Learned                                # it is no test itself


if __name__ == "__main__":
    unittest.main()
