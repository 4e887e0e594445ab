"""The specification of Agent Memory.

    python3 test_agent_memory.py                    everything, on the bare standard library
    python3 test_agent_memory.py Lifetimes          one promise
    python3 test_agent_memory.py -k seven_days      what matches

One class per promise, its docstring the promise; one test per sentence.  The
clock, the root and the environment are handed in; remote services are loopback
servers that keep what they were sent; nothing inside is patched.
"""
from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import agent_memory as am

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "agent_memory.py"
HAS_CRYPTOGRAPHY = am._importable("cryptography")


class Spec(unittest.TestCase):
    """A fresh data root, a clock we hold in our hand, an empty environment, no network."""

    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory())) / "root"
        self.today = datetime(2026, 8, 17, 3, 31, 6, tzinfo=UTC)
        self.environment: dict[str, str] = {}
        self.memory = self.reopen()

    def reopen(self, **how: Any) -> am.AgentMemory:
        """The store as another process would find it."""
        self.memory = am.AgentMemory(self.root, now=lambda: self.today, environment=self.environment, **how)
        return self.memory

    def days_pass(self, days: float) -> None:
        self.today += timedelta(days=days)

    def index(self) -> list[dict[str, Any]]:
        return json.loads((self.root / "index.json").read_text(encoding="utf-8"))

    def page(self, id: str) -> str:
        return (self.root / "store" / f"{id}.md").read_text(encoding="utf-8")

    def on_disk(self) -> bytes:
        return b"\n".join(path.read_bytes() for path in sorted(self.root.rglob("*")) if path.is_file())

    def files(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.root)): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}

    def run_main(self, *words: str, stdin: bytes = b"", **environment: str) -> Ran:
        """A command in a process of its own, as a user would run it."""
        clean = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.root.parent), "LANG": "C.UTF-8", **environment}
        done = subprocess.run([sys.executable, str(SCRIPT), "--root", str(self.root), *words], input=stdin,
                              capture_output=True, env=clean, timeout=120, check=False)
        return Ran(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

    def say(self, *words: str) -> Ran:
        """A command in this process, with the clock of the test."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = am.main(["--root", str(self.root), *words], now=lambda: self.today, environment=self.environment)
        return Ran(code, out.getvalue(), err.getvalue())


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Remembering(Spec):
    """A text is kept once, under an id nobody else has, unverified unless somebody says so."""

    def test_a_memory_is_unverified_until_somebody_verifies_it(self) -> None:
        kept = self.memory.remember("we deploy from the release branch", category="decision")

        self.assertEqual(kept.outcome, "added")
        self.assertFalse(self.memory.get(kept.id).execution_verified)
        self.assertTrue(self.memory.verify(kept.id).execution_verified)
        self.assertTrue(self.reopen().get(kept.id).execution_verified)

    def test_the_room_follows_the_category(self) -> None:
        for category, room in [("preference", "prefs"), ("decision", "decisions"), ("config", "configs"),
                               ("project", "projects"), ("event", "events"), ("discussion", "events"),
                               ("idea", "events"), ("general", "events")]:
            with self.subTest(category):
                kept = self.memory.remember(f"something about {category} number {len(category)}", category=category)

                self.assertEqual(kept.room, room)

    def test_the_row_has_the_fields_of_the_specification_in_its_order(self) -> None:
        kept = self.memory.remember("密码是 hunter2，明天换", category="config", importance=7, source="对话")

        self.assertEqual(list(self.index()[0].items()), [
            ("id", kept.id), ("content", "密码是 [已脱敏:password]，明天换"), ("category", "config"), ("room", "configs"),
            ("importance", 7), ("execution_verified", False), ("access_count", 0), ("last_accessed", None),
            ("source", "对话"), ("created_at", "2026-08-17T03:31:06+00:00"), ("redacted", ["password"])])

    def test_the_page_has_the_front_matter_of_the_specification_in_its_order(self) -> None:
        kept = self.memory.remember("密码是 hunter2，明天换", category="config", importance=7, source="对话流自动沉淀")

        self.assertEqual(self.page(kept.id), f"""---
id: {kept.id}
category: config
room: configs
importance: 7
execution_verified: false
access_count: 0
last_accessed: null
source: 对话流自动沉淀
created_at: "2026-08-17T03:31:06+00:00"
redacted: password
---

密码是 [已脱敏:password]，明天换
""")

    def test_an_id_says_when_it_was_made(self) -> None:
        self.assertRegex(self.memory.remember("a thing worth keeping").id, r"^mem_20260817_033106_[0-9a-f]{4}$")

    def test_ids_differ_even_when_clock_and_chance_stand_still(self) -> None:
        memory = self.reopen(chance=lambda n: b"\xff" * n)
        ids = {memory.remember(text).id for text in ("apples are red", "the sky is blue", "Rust compiles slowly")}

        self.assertEqual(len(ids), 3)
        self.assertEqual(len(list((self.root / "store").glob("*.md"))), 3)

    def test_what_cannot_be_kept_is_refused_and_nothing_is_written(self) -> None:
        for text, how, words in [("", {}, "empty"), ("  \n", {}, "empty"), ("\0", {}, "empty"),
                                 ("x", {"category": "nope"}, "no category"), ("x", {"importance": 11}, "importance"),
                                 ("x", {"importance": 0}, "importance"), ("x", {"importance": True}, "importance")]:
            with self.subTest(text=text, **how):
                with self.assertRaisesRegex(am.UsageError, words):
                    self.memory.remember(text, **how)
                self.assertFalse(self.root.exists())

    def test_control_characters_do_not_get_in_and_line_ends_are_one_kind(self) -> None:
        kept = self.memory.remember("first\r\nsecond\x1b[31m\x00 third\rfourth")

        self.assertEqual(kept.content, "first\nsecond[31m third\nfourth")

    def test_records_answer_by_name_as_the_scripts_of_the_specification_ask(self) -> None:
        kept = self.memory.remember("records answer by name")

        self.assertEqual(kept["id"], kept.id)
        self.assertEqual(self.memory.recall("records")[0]["content"], "records answer by name")
        self.assertEqual(json.loads(json.dumps(kept.to_dict()))["outcome"], "added")
        with self.assertRaises(AttributeError):
            kept.id = "another"

    def test_directories_and_files_are_their_owners_alone(self) -> None:
        self.memory.remember("private things stay private")
        self.memory.recall("private")

        modes = {path.stat().st_mode & 0o777 for path in [self.root, *self.root.rglob("*")]}
        self.assertEqual(modes, {0o700, 0o600})


class Merging(Spec):
    """What says the same is kept once; what differs in a value is kept twice."""

    def test_trivial_variants_are_one_memory(self) -> None:
        first = self.memory.remember("端口 8080")
        second = self.memory.remember("端口  ８０８０。")

        self.assertEqual((second.outcome, second.id), ("merged", first.id))
        self.assertEqual(len(self.index()), 1)

    def test_a_merge_keeps_the_newer_wording_the_greater_importance_and_the_older_in_history(self) -> None:
        first = self.memory.remember("we always squash merge the feature branches", importance=8)
        self.days_pass(1)
        second = self.memory.remember("we always squash merge all the feature branches", importance=5)
        memory = self.memory.get(first.id)

        self.assertEqual(second.outcome, "merged")
        self.assertEqual(second.previous, "we always squash merge the feature branches")
        self.assertEqual(memory.content, "we always squash merge all the feature branches")
        self.assertEqual(memory.importance, 8)
        self.assertEqual([old["content"] for old in memory.history], ["we always squash merge the feature branches"])
        self.assertEqual(memory.created_at, "2026-08-17T03:31:06+00:00")

    def test_an_unverified_wording_never_replaces_a_verified_one(self) -> None:
        first = self.memory.remember("we always squash merge the feature branches", verified=True)
        self.memory.remember("we always squash merge all the feature branches", importance=9)
        memory = self.memory.get(first.id)

        self.assertEqual(memory.content, "we always squash merge the feature branches")
        self.assertEqual((memory.importance, memory.execution_verified), (9, True))

    def test_the_same_words_again_change_nothing(self) -> None:
        self.memory.remember("the same words again")
        before = self.files()
        again = self.memory.remember("the same words again")

        self.assertEqual(again.outcome, "unchanged")
        self.assertEqual(self.files(), before)

    def test_short_texts_are_never_merged(self) -> None:
        self.memory.remember("用 A")
        self.assertEqual(self.memory.remember("用 B").outcome, "added")

    def test_a_value_that_differs_keeps_both_and_links_them(self) -> None:
        for old, new in [("Project deadline is October 15th", "Project deadline is October 16th"),
                         ("服务监听端口 8080", "服务监听端口 8081"),
                         ("the build needs Node 18.2.0 or newer", "the build needs Node 20.2.0 or newer")]:
            with self.subTest(new):
                first, second = self.memory.remember(old), self.memory.remember(new)

                self.assertEqual(second.outcome, "added")
                linked = {*second.updates, *(conflict.memory_id for conflict in second.conflicts)}
                self.assertIn(first.id, linked)

    def test_long_repetitive_texts_are_still_recognised(self) -> None:
        text = "the quick brown fox jumps over the lazy dog again and again " * 6
        first = self.memory.remember(text)

        self.assertEqual(self.memory.remember("x" + text).id, first.id)

    def test_the_same_sentence_with_another_secret_is_one_memory(self) -> None:
        first = self.memory.remember("密码是 hunter2")

        self.assertEqual(self.memory.remember("密码是 dragon7x").id, first.id)

    def test_a_second_category_counts_only_where_none_was_said_before(self) -> None:
        first = self.memory.remember("we keep trunk always green")
        self.memory.remember("we keep trunk always green", category="decision")
        self.memory.remember("we keep trunk always green", category="event")

        self.assertEqual((self.memory.get(first.id).category, self.memory.get(first.id).room), ("decision", "decisions"))


class Contradictions(Spec):
    """A contradiction is told with the id, and both memories know of it until somebody decides."""

    def test_it_is_told_and_stored_on_both_sides(self) -> None:
        first = self.memory.remember("我们决定采用 Redis 做缓存", category="decision")
        second = self.memory.remember("缓存这块放弃 Redis 了", category="decision")

        self.assertEqual([(c.memory_id, c.entity.casefold()) for c in second.conflicts], [(first.id, "redis")])
        self.assertEqual([link["memory_id"] for link in self.reopen().get(first.id).conflicts], [second.id])
        self.assertEqual([link["memory_id"] for link in self.memory.get(second.id).conflicts], [first.id])

    def test_verifying_one_settles_it(self) -> None:
        first = self.memory.remember("我们决定采用 Redis 做缓存", category="decision")
        second = self.memory.remember("缓存这块放弃 Redis 了", category="decision")
        self.memory.verify(second.id)

        self.assertEqual(self.memory.get(first.id).conflicts, ())
        self.assertEqual(self.memory.get(second.id).conflicts, ())
        self.assertEqual(self.memory.get(first.id).flags, ("superseded",))

    def test_forgetting_one_settles_it(self) -> None:
        first = self.memory.remember("We use Redis for the cache", category="decision")
        second = self.memory.remember("We no longer use Redis for caching", category="decision")
        self.assertEqual([c.memory_id for c in second.conflicts], [first.id])
        self.memory.forget(second.id)

        self.assertEqual(self.memory.get(first.id).conflicts, ())


class Lifetimes(Spec):
    """Memories leave when their time is up, and only then."""

    def test_an_unverified_memory_leaves_after_seven_days(self) -> None:
        id = self.memory.remember("maybe true", importance=9).id
        for days, gone in [(6.99, []), (0.01, [id])]:
            self.days_pass(days)
            with self.subTest(days=days):
                self.assertEqual([leaving.id for leaving in self.memory.prune(dry_run=True).expired], gone)

    def test_saying_it_again_in_other_words_starts_the_seven_days_anew(self) -> None:
        self.memory.remember("the staging server sleeps at night")
        self.days_pass(5)
        self.memory.remember("the staging server sleeps at night!")
        self.days_pass(5)

        self.assertEqual(self.memory.prune().expired, ())

    def test_a_memory_of_importance_ten_stays_for_ever(self) -> None:
        self.memory.remember("never delete the production bucket", importance=10)
        self.days_pass(5_000)

        self.assertEqual(self.memory.prune(dry_run=False).deleted, 0)

    def test_a_rarely_used_memory_leaves_after_thirty_days_unless_it_matters(self) -> None:
        for importance, leaves in [(5, True), (7, True), (8, False), (9, False)]:
            with self.subTest(importance=importance):
                memory = am.Memory("mem_20260817_033106_0000", am.Clean("x"), importance=importance, room="decisions",
                                   execution_verified=True, access_count=2, created_at=am.stamp(self.today))
                later = self.today + timedelta(days=30.5)

                self.assertEqual(bool(self.verdict(memory, later)), leaves)
                self.assertEqual(self.verdict(am.replace(memory, access_count=3), later), "")
                self.assertEqual(self.verdict(memory, self.today + timedelta(days=30)), "")

    def test_each_room_keeps_things_for_its_own_time(self) -> None:
        for room, days in [("prefs", 365), ("decisions", 730), ("configs", 365), ("projects", 545), ("events", 90)]:
            with self.subTest(room):
                memory = am.Memory("mem_20260817_033106_0000", am.Clean("x"), room=room, execution_verified=True,
                                   access_count=9, created_at=am.stamp(self.today))

                self.assertEqual(self.verdict(memory, self.today + timedelta(days=days)), "")
                self.assertIn(room, self.verdict(memory, self.today + timedelta(days=days + 0.1)))

    def test_a_date_that_says_nothing_keeps_the_memory_and_is_reported(self) -> None:
        kept = [self.memory.remember(text) for text in ("dated with a word", "written by a clock set ahead")]
        self.edit(kept[0].id, r"created_at: .*", "created_at: yesterday")
        self.edit(kept[1].id, r"created_at: .*", "created_at: 2030-01-01T00:00:00+00:00")
        self.days_pass(100)
        found = self.memory.prune(dry_run=False)

        self.assertEqual(found.deleted, 0)
        self.assertEqual({troubled.id for troubled in found.troubled}, {one.id for one in kept})

    def test_a_dry_run_changes_no_byte(self) -> None:
        self.memory.remember("maybe true")
        self.days_pass(8)
        before = self.files()
        found = self.memory.prune(dry_run=True)

        self.assertEqual((found.deleted, len(found.expired), self.files()), (0, 1, before))
        self.assertIn("unverified for 8 days", found.expired[0].reason)

    def test_what_leaves_is_archived_first_and_restored_exactly(self) -> None:
        self.memory.remember("maybe true", importance=3, source="a chat")
        row = self.index()
        self.days_pass(8)
        pruned = self.memory.prune(dry_run=False)

        self.assertEqual((pruned.archived, pruned.deleted, self.index()), (1, 1, []))
        self.assertRegex(pruned.archive, r"^backups/prune_20260825_033106\.json$")
        archive = json.loads((self.root / pruned.archive).read_text(encoding="utf-8"))
        self.assertEqual(archive, {"archived_at": "2026-08-25T03:31:06+00:00", "memories": row})
        self.assertEqual(list((self.root / "store").glob("*.md")), [])

        self.memory.restore(pruned.archive)
        self.assertEqual(self.index(), row)

    def test_one_memory_can_be_restored_by_its_id(self) -> None:
        first = self.memory.remember("maybe the first is true").id
        self.memory.remember("perhaps another thing holds")
        self.days_pass(8)
        self.memory.prune(dry_run=False)

        self.assertEqual([memory.id for memory in self.memory.restore(first)], [first])
        self.assertEqual([row["id"] for row in self.index()], [first])
        with self.assertRaises(am.UnknownMemory):
            self.memory.restore("mem_20990101_000000_dead")

    def test_a_prune_can_be_of_one_room(self) -> None:
        self.memory.remember("tabs, not spaces", category="preference")
        event = self.memory.remember("the release went out", category="event").id
        self.days_pass(8)

        self.assertEqual([leaving.id for leaving in self.memory.prune(room="events").expired], [event])
        with self.assertRaisesRegex(am.UsageError, "no room"):
            self.memory.prune(room="../..")

    def test_use_makes_a_memory_more_important_but_never_permanent(self) -> None:
        id = self.memory.remember("often asked for", importance=8).id
        for _ in range(30):
            self.memory.recall("often asked")
        unverified = self.memory.get(id)
        self.memory.verify(id)
        for _ in range(10):
            self.memory.recall("often asked")

        self.assertEqual((unverified.access_count, unverified.importance), (30, 9))
        self.assertEqual((self.memory.get(id).access_count, self.memory.get(id).importance), (40, 10))

    def verdict(self, memory: am.Memory, now: datetime) -> str:
        settings = self.memory.settings
        return am.verdict(memory, now, settings["pruning"], settings.rooms)

    def edit(self, id: str, old: str, new: str) -> None:
        path = self.root / "store" / f"{id}.md"
        path.write_text(re.sub(old, new, path.read_text(encoding="utf-8")), encoding="utf-8")
        ahead = path.stat().st_mtime_ns + 1_000_000_000
        os.utime(path, ns=(ahead, ahead))


class Forgetting(Spec):
    """What is forgotten is gone from every file, and only a person brings it back."""

    def test_no_byte_of_it_is_left_anywhere(self) -> None:
        self.memory.remember("an old thing that will be archived", importance=2)
        self.days_pass(8)
        pruned = self.memory.prune(dry_run=False)
        id = self.memory.restore(pruned.archive)[0].id
        self.memory.recall("archived")
        gone = self.memory.forget(id)

        self.assertIn(pruned.archive, gone.files)
        self.assertNotIn(b"that will be archived", self.on_disk())
        self.assertNotIn(id.encode(), self.on_disk())

    def test_a_digest_does_not_bring_it_back_and_a_person_does(self) -> None:
        talk = "用户: 我们决定采用 PostgreSQL 作为主库。"
        id = self.memory.digest(talk, apply=True).applied[0].id
        self.memory.forget(id)

        self.assertEqual([kept.outcome for kept in self.memory.digest(talk, apply=True).applied], ["refused"])
        self.assertEqual(self.memory.stats().total, 0)
        kept = self.memory.remember(self.memory.digest(talk).facts[0].content, category="decision", importance=10)
        self.assertEqual(kept.outcome, "added")
        self.assertNotEqual(kept.id, id)
        self.assertEqual(self.memory.digest(talk, apply=True).applied[0].outcome, "unchanged")

    def test_every_view_agrees_on_what_is_left(self) -> None:
        ids = [self.memory.remember(f"{name} runs on the Kubernetes cluster").id for name in ("Grafana", "Jenkins", "Vault")]
        self.memory.vsearch("Kubernetes")
        self.memory.forget(ids[0])

        self.assertEqual(self.memory.stats().total, 2)
        self.assertEqual(sum(room.memories for room in self.memory.rooms()), 2)
        self.assertEqual(len(self.memory.recall("Kubernetes")), 2)
        self.assertEqual(len(self.memory.about("Kubernetes").memories), 2)
        self.assertNotIn(ids[0], (self.root / "vectors.json").read_text(encoding="utf-8"))
        with self.assertRaises(am.UnknownMemory):
            self.memory.about("Grafana")


class Ids(Spec):
    """An id may be shortened, or be a page's name; one that could mean two memories is refused."""

    def test_every_form_we_print_is_accepted(self) -> None:
        id = self.memory.remember("a thing worth keeping").id
        for form in (id, id[4:], id[-4:], f"{id}.md", f"store/{id}.md", str(self.root / "store" / f"{id}.md")):
            with self.subTest(form):
                self.assertEqual(self.memory.get(form).id, id)

    def test_an_ambiguous_one_is_refused_with_the_candidates(self) -> None:
        for text in ("apples are red", "the sky is blue", "Rust compiles slowly"):
            self.memory.remember(text)
        with self.assertRaises(am.UnknownMemory) as caught:
            self.memory.forget("mem_20260817")

        self.assertEqual(caught.exception.hint.count("mem_20260817"), 3)
        self.assertEqual(len(self.index()), 3)

    def test_what_is_no_id_touches_nothing(self) -> None:
        self.memory.remember("a thing worth keeping")
        for id in ("../../x", "/etc/passwd", "", "*", "mem_20990101_000000_dead", "\0"):
            with self.subTest(id):
                with self.assertRaises(am.UnknownMemory):
                    self.memory.forget(id)
                self.assertEqual(len(self.index()), 1)


class HandEdits(Spec):
    """A page edited by hand is honoured, masked, and never lost."""

    def test_a_changed_text_and_rank_are_taken_in(self) -> None:
        id = self.memory.remember("the old words of the page", importance=4).id
        self.rewrite(id, lambda text: text.replace("the old words", "quite new words").replace(
            "importance: 4", "importance: 7").replace("execution_verified: false", "execution_verified: true"))
        memory = self.reopen().get(id)

        self.assertEqual((memory.content, memory.importance, memory.execution_verified),
                         ("quite new words of the page", 7, True))
        self.assertEqual(self.index()[0]["content"], "quite new words of the page")
        self.assertEqual([hit.id for hit in self.memory.recall("quite new")], [id])

    def test_a_secret_typed_into_a_page_is_masked(self) -> None:
        id = self.memory.remember("the login of the printer").id
        self.rewrite(id, lambda text: text.rstrip() + "\n密码是 hunter2\n")
        self.reopen().stats()

        self.assertNotIn(b"hunter2", self.on_disk())
        self.assertEqual(self.memory.get(id).redacted, ("password",))

    def test_line_ends_byte_order_mark_and_own_keys_survive(self) -> None:
        id = self.memory.remember("text that Obsidian knows").id
        self.rewrite(id, lambda text: "\ufeff" + text.replace("\n---\n\n", "\ntags:\n  - infra\n  - 数据库\n---\n\n", 1)
                     .replace("knows", "loves").replace("\n", "\r\n"))
        self.reopen().verify(id)

        self.assertIn("tags:\n  - infra\n  - 数据库\n", self.page(id))
        self.assertEqual(self.memory.get(id).content, "text that Obsidian loves")
        (self.root / "index.json").unlink()
        self.assertEqual(self.reopen().get(id).content, "text that Obsidian loves")

    def test_a_broken_page_is_named_and_left_as_it_is(self) -> None:
        id = self.memory.remember("text under a broken front matter").id
        self.rewrite(id, lambda text: text.replace("importance: 5", "importance: [5"))
        broken = self.page(id)
        self.reopen().verify(id)

        self.assertIn(id, " ".join(self.memory.warnings))
        self.assertEqual(self.page(id), broken)
        self.reopen().recall("broken front matter")
        self.assertEqual(self.page(id), broken)

    def test_notes_and_conflict_copies_of_the_user_are_not_touched(self) -> None:
        id = self.memory.remember("a thing worth keeping").id
        mine = {"my-own-note.md": "no front matter", f"{id} (1).md": self.page(id)}
        for name, text in mine.items():
            (self.root / "store" / name).write_text(text, encoding="utf-8")
        self.days_pass(8)
        self.reopen().sync()
        self.memory.prune(dry_run=False)

        self.assertEqual({path.name: path.read_text(encoding="utf-8") for path in (self.root / "store").iterdir()}, mine)

    def test_a_page_that_was_deleted_is_written_again(self) -> None:
        id = self.memory.remember("a thing worth keeping").id
        before = self.page(id)
        (self.root / "store" / f"{id}.md").unlink()
        self.reopen().stats()

        self.assertEqual(self.page(id), before)

    def test_values_of_every_kind_come_back_as_the_same_strings(self) -> None:
        sources = ["no", "007", "2026-01-01", "1:30", "~", "null", "0x1F", "1e5", "true", "WeCom: 群聊: #1", "- x", "a\tb",
                   "{x}", "[y]", "'", '"', "---", "\u2028", "\x85", "😀", "# no comment", "x #1", "&a", "*b", "!t", "%d"]
        for number, source in enumerate(sources):
            with self.subTest(source):
                memory = am.Memory("mem_20260817_033106_0000", am.Clean(f"text {number}\n---\nid: x"), source=source)

                self.assertEqual(am.from_page(am.page(memory)), memory)
                self.assertEqual(am.from_row(json.loads(am.to_line(memory))), memory)
                self.assertNotIn("\n", am.to_line(memory))

    def rewrite(self, id: str, change: Any) -> None:
        path = self.root / "store" / f"{id}.md"
        path.write_bytes(change(path.read_text(encoding="utf-8")).encode())
        ahead = path.stat().st_mtime_ns + 1_000_000_000
        os.utime(path, ns=(ahead, ahead))


class Commits(Spec):
    """A write happens whole or not at all, also beside other processes; nothing readable is ever taken for nothing."""

    def test_the_index_can_be_rebuilt_from_the_pages(self) -> None:
        kept = self.memory.remember("we deploy from the release branch", category="decision", verified=True)
        self.memory.remember("we deploy from the release  branch")
        self.memory.recall("release")
        self.memory.vsearch("release")
        before = self.index()
        for name in ("index.json", "graph.json", "vectors.json"):
            (self.root / name).unlink()

        self.assertEqual(self.reopen().stats().total, 1)
        self.assertEqual(self.index(), before)
        self.assertEqual(self.memory.get(kept.id).access_count, 1)

    def test_a_damaged_index_is_set_aside_and_rebuilt(self) -> None:
        ids = [self.memory.remember(text).id for text in ("apples are red", "the sky is blue")]
        whole = (self.root / "index.json").read_text(encoding="utf-8")
        for damage in ("", "{bad", whole + "]]", whole[: len(whole) // 2], "{}", whole.replace("mem_2026", "../../2026")):
            with self.subTest(damage[:20]):
                (self.root / "index.json").write_text(damage, encoding="utf-8")

                self.assertEqual({memory.id for memory in self.reopen().list()}, set(ids))
                self.assertIn("rebuilt", " ".join(self.memory.warnings))
                self.assertFalse((self.root.parent / "2026").exists())

    def test_without_its_pages_a_damaged_index_is_refused_and_left(self) -> None:
        self.memory.remember("apples are red")
        shutil.rmtree(self.root / "store")
        damaged = (self.root / "index.json").read_text(encoding="utf-8").replace('"content"', "content")
        (self.root / "index.json").write_text(damaged, encoding="utf-8")
        for verb in (lambda: self.reopen().recall("apples"), lambda: self.reopen().remember("the sky is blue")):
            with self.assertRaises(am.StoreDamaged) as caught:
                verb()
            self.assertIn("backups", caught.exception.hint)
        self.assertEqual((self.root / "index.json").read_text(encoding="utf-8"), damaged)

    def test_damaged_derived_files_are_built_again(self) -> None:
        self.memory.remember("Grafana shows the Kubernetes cluster")
        self.memory.recall("Kubernetes")
        for name in ("graph.json", "vectors.json"):
            (self.root / name).write_text("{bad", encoding="utf-8")

        self.assertEqual(len(self.reopen().recall("Kubernetes")), 1)
        self.assertEqual(self.memory.about("grafana").name, "Grafana")

    def test_a_backup_is_made_once_a_day_and_seven_are_kept(self) -> None:
        for day in range(10):
            self.memory.remember(f"on day {day} the number was {(day + 1) * 7919}")
            self.memory.remember(f"and on day {day} another number was {(day + 1) * 104729}")
            self.days_pass(1)
        backups = sorted(path.name for path in (self.root / "backups").iterdir())

        self.assertEqual(len(backups), 7)
        self.assertEqual(backups[-1], "auto_index.json.20260826.bak")
        self.assertEqual(len(json.loads((self.root / "backups" / backups[-1]).read_text(encoding="utf-8"))), 18)

    def test_an_interrupted_commit_is_finished_by_the_next_command(self) -> None:
        old = self.memory.remember("what was there before").id
        row = self.index()[0] | {"id": "mem_20260817_033107_beef", "content": "what was being written"}
        journal = {"puts": [row], "drops": [old]}
        (self.root / ".journal.json").write_text(json.dumps(journal), encoding="utf-8")

        self.assertEqual([memory.content for memory in self.reopen().list()], ["what was being written"])
        self.assertEqual([path.stem for path in (self.root / "store").glob("*.md")], [row["id"]])
        self.assertFalse((self.root / ".journal.json").exists())

    def test_a_long_lived_instance_sees_what_others_write(self) -> None:
        first = self.memory
        first.remember("apples are red")
        self.reopen().remember("the sky is blue")
        first.remember("Rust compiles slowly")

        self.assertEqual(first.stats().total, 3)
        self.assertEqual(self.memory.stats().total, 3)

    def test_eight_processes_that_each_remember_fifty_things_leave_four_hundred(self) -> None:
        code = ("import sys, agent_memory as am\n"
                "memory = am.AgentMemory(sys.argv[1])\n"
                "for n in range(50): memory.remember(f'{sys.argv[2]}{n * 7919} is number {n} of writer {sys.argv[2]}')\n")
        writers = [subprocess.Popen([sys.executable, "-c", code, str(self.root), name], cwd=HERE,
                                    env={**os.environ, "AGENT_MEMORY_ROOT": ""}) for name in "abcdefgh"]

        self.assertEqual([writer.wait(120) for writer in writers], [0] * 8)
        self.assertEqual(len(self.index()), 400)
        self.assertEqual(len(list((self.root / "store").glob("*.md"))), 400)
        self.assertEqual(len({row["id"] for row in self.index()}), 400)

    def test_threads_share_an_instance(self) -> None:
        def write(name: str) -> None:
            for number in range(10):
                self.memory.remember(f"{name}{number * 7919} is number {number} of thread {name}")

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(self.index()), 40)

    def test_a_killed_writer_holds_no_lock(self) -> None:
        self.memory.remember("apples are red")
        code = ("import sys, time, agent_memory as am\n"
                "with am.AgentMemory(sys.argv[1])._store.transaction():\n print('in', flush=True)\n time.sleep(60)\n")
        writer = subprocess.Popen([sys.executable, "-c", code, str(self.root)], cwd=HERE, stdout=subprocess.PIPE)
        assert writer.stdout
        writer.stdout.readline()
        impatient = self.reopen(config={"store": {"lock_seconds": 0.05}})

        with self.assertRaises(am.StoreBusy):
            impatient.remember("the sky is blue")
        self.assertEqual(len(impatient.recall("apples")), 1)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        self.assertEqual(impatient.remember("the sky is blue").outcome, "added")


class Configuration(Spec):
    """Settings have one source; a wrong one is named with its line and nothing is done."""

    def test_the_embedded_defaults_are_the_shipped_file_to_the_byte(self) -> None:
        self.assertEqual(am.DEFAULTS, (HERE / "config.yaml").read_text(encoding="utf-8"))

    def test_the_roots_file_overrides_key_by_key(self) -> None:
        self.write("rooms:\n  events: 10\npruning:\n  unverified_retention_days: 3\n")
        self.memory.remember("maybe true")
        self.days_pass(4)

        self.assertEqual(len(self.memory.prune().expired), 1)
        self.assertEqual(self.memory.settings["pruning"]["low_frequency_days"], 30)
        self.assertEqual(self.memory.settings.rooms["events"].retention_days, 10)

    def test_a_wrong_setting_is_named_with_its_line(self) -> None:
        for text, words in [
            ("pruning:\n  unverified_retention_days: 0", "line 2.*must be 1 or more, not 0"),
            ("pruning:\n  unverified_retention_days: -1", "line 2.*must be 1 or more, not -1"),
            ("pruning:\n  unverified_retention_days: 30d", "line 2.*whole number, not '30d'"),
            ("pruning:\n  unverified_retention_days:", "line 2.*whole number, not None"),
            ("rooms:\n  prefs: 0", "line 2.*must be 1 or more"),
            ("rooms:\n  prefs:\n    retention: 3", "line 3.*unknown key"),
            ("category_mapping:\n  idea: attic", "no room 'attic'"),
            ("retreival:\n  default_top_k: 3", "line 1.*unknown key"),
            ("retrieval:\n  default_topk: 3", "line 2.*unknown key"),
            ("retrieval:\n  default_top_k: 3\n  default_top_k: 4", "line 3.*twice"),
            ("retrieval:\n\tdefault_top_k: 3", "line 2.*tab"),
            ("retrieval:\n  hot_boost: warm", "line 2.*must be a number"),
            ("preference: prefs   decision: decisions", "line 1"),
            ("", "empty"),
        ]:
            with self.subTest(text):
                self.root.mkdir(exist_ok=True)
                (self.root / "config.yaml").write_text(text, encoding="utf-8")
                with self.assertRaisesRegex(am.ConfigError, f"(?s){words}"):
                    self.reopen()

    def test_a_mistyped_key_is_answered_with_the_nearest(self) -> None:
        with self.assertRaises(am.ConfigError) as caught:
            self.write("retrieval:\n  defualt_top_k: 3\n")
        self.assertIn("default_top_k", caught.exception.hint)

    def test_what_is_no_plain_yaml_is_an_error_and_never_a_guess(self) -> None:
        for text in ("a: &x 1", "a: |\n  x", "a: b: c", "a: 'x", "just words", "a:\n  b: 1\n c: 2", "a: {b: 1}"):
            with self.subTest(text), self.assertRaises(am.PlainYamlError):
                am.read_yaml(text)

    def test_plain_yaml_is_read_as_it_is_meant(self) -> None:
        self.assertEqual(am.read_yaml("""
# a comment
a: 1            # another
b:
  - x
  - 'it''s # no comment'
  - label: "q\\"uoted"
    n: [1, two, '3,', "4"]
c: it's # here
d: http://x/y#z
e:
f: {"json": [true, null]}
""")[0], {"a": 1, "b": ["x", "it's # no comment", {"label": 'q"uoted', "n": [1, "two", "3,", "4"]}],
          "c": "it's", "d": "http://x/y#z", "e": None, "f": {"json": [True, None]}})

    def test_variables_of_the_specification_have_a_twin_that_wins(self) -> None:
        self.environment |= {"HERMES_VECTOR_BACKEND": "local", "AGENT_MEMORY_LANG": "zh", "HERMES_LANG": "en"}

        self.assertEqual(self.reopen().settings.choice("VECTOR_BACKEND"), "local")
        self.assertEqual(self.memory.settings.choice("LANG"), "zh")

    def test_keys_come_from_the_environment_then_from_the_roots_env_file(self) -> None:
        self.root.mkdir()
        (self.root / ".env").write_text("# keys\nexport A_KEY='from file'\nB_KEY=b\n", encoding="utf-8")
        self.environment["B_KEY"] = "from environment"
        lookup = self.reopen().settings.lookup

        self.assertEqual((lookup("A_KEY"), lookup("B_KEY"), lookup("C_KEY")), ("from file", "from environment", None))

    def write(self, text: str) -> None:
        self.root.mkdir(exist_ok=True)
        (self.root / "config.yaml").write_text(text, encoding="utf-8")
        self.reopen()


@unittest.skipUnless(HAS_CRYPTOGRAPHY, "the cryptography package is not installed")
class Encryption(Spec):
    """With encryption on no JSON file is readable, and without the key nothing is read, written or made."""

    def setUp(self) -> None:
        super().setUp()
        self.environment["AGENT_MEMORY_ENCRYPT"] = "on"
        self.reopen()

    def test_it_reads_back_the_same_and_pages_stay_plain(self) -> None:
        id = self.memory.remember("we deploy from the release branch").id
        self.memory.vsearch("release")

        self.assertEqual(self.reopen().get(id).content, "we deploy from the release branch")
        for name in ("index.json", "graph.json", "vectors.json"):
            self.assertTrue((self.root / name).read_bytes().startswith(b"gAAAA"), name)
        self.assertIn("release branch", self.page(id))
        self.assertEqual((self.root / ".master_key").stat().st_mode & 0o777, 0o600)

    def test_archives_backups_and_cache_are_sealed_too(self) -> None:
        self.memory.remember("we deploy from the release branch")
        self.days_pass(8)
        self.memory.recall("release")
        self.memory.prune(dry_run=False)

        readable = [name for name, data in self.files().items() if b"release branch" in data]
        self.assertEqual(readable, [])

    def test_a_lost_key_is_refused_and_no_new_one_is_made(self) -> None:
        self.memory.remember("we deploy from the release branch")
        (self.root / ".master_key").unlink()
        before = self.files()
        for verb in (lambda m: m.recall("release"), lambda m: m.remember("the sky is blue"), lambda m: m.stats()):
            with self.assertRaises(am.KeyTrouble):
                verb(self.reopen())
        self.assertEqual(self.files(), before)

    def test_a_wrong_key_is_refused(self) -> None:
        from cryptography.fernet import Fernet
        self.memory.remember("we deploy from the release branch")
        for key in (Fernet.generate_key().decode(), "not a key"):
            (self.root / ".master_key").write_text(key, encoding="utf-8")
            before = self.files()
            with self.subTest(key[:9]), self.assertRaises(am.KeyTrouble):
                self.reopen().remember("the sky is blue")
            self.assertEqual(self.files(), before)

    def test_a_store_stays_encrypted_until_it_is_turned_off_by_name(self) -> None:
        self.memory.remember("we deploy from the release branch")
        del self.environment["AGENT_MEMORY_ENCRYPT"]
        self.reopen().remember("the sky is blue")
        self.assertTrue((self.root / "index.json").read_bytes().startswith(b"gAAAA"))
        self.environment["HERMES_ENCRYPT"] = "off"
        self.reopen().remember("apples are red")

        self.assertEqual(len(self.index()), 3)
        self.assertFalse([name for name, data in self.files().items() if data.startswith(b"gAAAA")])

    def test_turning_it_on_seals_what_was_written_before(self) -> None:
        self.environment["AGENT_MEMORY_ENCRYPT"] = "off"
        self.reopen().remember("we deploy from the release branch")
        self.days_pass(1)
        self.memory.remember("apples are red")
        self.environment["AGENT_MEMORY_ENCRYPT"] = "on"
        self.reopen().remember("the sky is blue")

        readable = [name for name, data in self.files().items() if b"release branch" in data and not name.endswith(".md")]
        self.assertEqual(readable, [])
        self.assertEqual(self.reopen().stats().total, 3)


# ── Masking ──────────────────────────────────────────────────────────────────

SECURITY = am.read_yaml(am.DEFAULTS)[0]["security"]
REDACTOR = am.Redactor(SECURITY)

# Values no scanner takes for live ones, made here so that none stands in the source.
RANDOM = "a1B2c3D4" * 4
HEX = "0a1b2c3d" * 4


def clean(text: str) -> str:
    return str(REDACTOR.clean(text))


class Secrets(unittest.TestCase):
    """Nothing secret gets through, and the words round it stay."""

    def masked(self, table: list[tuple[str, str]]) -> None:
        """Each row: a text with its secret between « and », and the label of the mark it becomes."""
        for text, label in table:
            with self.subTest(text):
                raw = text.replace("«", "").replace("»", "")
                before, _, rest = text.partition("«")
                after = rest.partition("»")[2]

                self.assertEqual(clean(raw), f"{before}[已脱敏:{label}]{after}")

    def test_the_examples_of_the_specification_are_masked(self) -> None:
        self.masked([
            ("密码是 «hunter2»", "password"),
            ("密码：«hunter2»", "password"),
            ("密码 «hunter2»", "password"),
            ("密码«hunter2»", "password"),
            ("密码是 «xxx»", "password"),
            ("the password is «hunter2», same as last month", "password"),
            (f"api_key={'«' + RANDOM + '»'}", "api_key"),
            (f"token: «Bearer {RANDOM}»", "token"),
            (f"use «sk-{RANDOM}» for tests", "api_key"),
        ])

    def test_a_password_stated_in_prose_is_masked(self) -> None:
        self.masked([
            ("数据库密码是 «Tig3r#88»，端口 5432", "password"),
            ("把 MySQL 的密码改成了 «Tig3r#88»，记得通知运维", "password"),
            ("密码没变，还是 «Tig3r#88»", "password"),
            ("管理员密码由 abc 改成 «Tig3r#88»", "password"),
            ("密码设成 «青山绿水7504» 了", "password"),
            ("密码是“«Blue walnut 50!»”，中间有空格", "password"),
            ("The password for prod is «hunter2»", "password"),
            ("I changed the password to «moon-river-77» yesterday", "password"),
            ("password has been reset to «Tig3r#88».", "password"),
            ("the db password is «tiger»", "password"),
            ("支付密码是«842557»", "password"),
            ("验证码 «482913»", "pin"),
        ])

    def test_a_value_before_its_label_is_masked(self) -> None:
        self.masked([
            ("«Tig3r#88» 是我的密码，别告诉别人", "password"),
            ("用 «Tig3r#88» 这个密码登录", "password"),
            ("«Tig3r#88» is my password for staging", "password"),
            ("use «moon-river-77» as the password for the NAS", "password"),
            ("log in with admin / «Tig3r#88»", "password"),
        ])

    def test_settings_and_code_are_masked_in_every_notation(self) -> None:
        self.masked([
            ("export DB_PASSWORD=«Tig3r#88»", "password"),
            ('"password": "«x y; z»", "port": 1', "password"),
            ('{\\"password\\": \\"«Tig3r#88»\\"}', "password"),
            ("database:\n  password: '«Tig3r#88»'\n  pool: 5", "password"),
            ("- name: DB_PASSWORD\n  value: «Tig3r#88»", "password"),
            ("<password>«Tig3r#88»</password>", "password"),
            ("Server=db;Uid=sa;Pwd=«Tig3r#88»;Encrypt=True;", "password"),
            ("password = «$cb72smo3»", "password"),
            ("Password:\n«Tig3r#88»\nPort:\n8443", "password"),
            ("| 用户 | 密码 |\n|---|---|\n| bob | «Tig3r#88» |", "password"),
            ("| host | db1 |\n| password | «Tig3r#88» |", "password"),
            (f"clientSecret: «{HEX}»", "token"),
            (f"X-API-Key: «{RANDOM}»", "api_key"),
            ("reset_token: «8f3a91c2»", "token"),
        ])

    def test_command_lines_and_addresses_are_masked(self) -> None:
        self.masked([
            ("mysql -u root -p«Tig3r#88» shop", "password"),
            ("sshpass -p '«Tig3r#88»' ssh a@b", "password"),
            ("curl -u admin:«Tig3r#88» https://a.test", "password"),
            ("pg_dump --password=«Tig3r#88» shop", "password"),
            ("postgresql+asyncpg://rw:«Tig3r88»@pg-1:5432/crm", "password"),
            (f"https://a.test/v1?access_token=«{RANDOM}»&format=json", "token"),
            (f"https://hooks.test/services/«T0A1/{RANDOM}»", "webhook"),
            (f"Cookie: sessionid=«{RANDOM}»; theme=dark", "cookie"),
        ])

    def test_disguises_do_not_help(self) -> None:
        self.masked([
            ("ＰＡＳＳＷＯＲＤ＝«x»", "password"),
            ("密\u200b码：«Tig3r#88»", "password"),
            ("密 码: «Tig3r#88»", "password"),
            ("password: «Tig\u200b3r#88»", "password"),
            ("密码是 «Ｔｉｇ３ｒ８８»（全角输入）", "password"),
        ])

    def test_keys_nobody_named_are_known_by_their_shape(self) -> None:
        mixed = "aB3dE5gH7jK9mN2pQ4sT6vX8"
        for secret, label in [
            ("ghp_" + mixed, "token"), ("AKIA" + mixed.upper()[:16], "api_key"), ("glpat-" + mixed, "token"),
            ("eyJ" + mixed + "." + mixed + "." + mixed, "token"), ("acme_live_" + mixed, "secret"),
            (mixed + mixed[::-1], "secret"),
        ]:
            with self.subTest(secret):
                self.assertEqual(clean(f"先把 {secret} 存着"), f"先把 [已脱敏:{label}] 存着")

    def test_a_private_key_goes_whole_and_a_public_one_stays(self) -> None:
        lines = "\n".join(["a1B2c3D4" * 8] * 3)
        begin, end = "-----BEGIN RSA PRIVATE " + "KEY-----\n", "\n-----END RSA PRIVATE " + "KEY-----"
        public = "-----BEGIN PUBLIC KEY-----\n" + lines + "\n-----END PUBLIC KEY-----"

        self.assertEqual(clean(f"私钥\n{begin}{lines}{end}\n完"), "私钥\n[已脱敏:private_key]\n完")
        self.assertEqual(clean(f"日志：\n{begin}{lines}"), "日志：\n[已脱敏:private_key]")
        self.assertEqual(clean((begin + lines + end).replace("\n", "\\n")), "[已脱敏:private_key]")
        self.assertEqual(clean(public), public)

    def test_seed_phrases_and_recovery_codes_go_whole(self) -> None:
        phrase = " ".join(["garden", "tiger", "arena"] * 4)

        self.assertEqual(clean(f"助记词：{phrase}"), "助记词：[已脱敏:mnemonic]")
        self.assertEqual(clean("Recovery codes:\n56lrd-m2wq1\niziah-6iath\nStore them offline."),
                         "Recovery codes:\n[已脱敏:recovery_code]\n[已脱敏:recovery_code]\nStore them offline.")

    def test_values_we_were_given_are_masked_wherever_and_however_they_stand(self) -> None:
        redactor = am.Redactor(SECURITY, known=["pass/word + more"])

        for text in ("it says pass/word + more here", "pass%2Fword%20%2B%20more", "cGFzcy93b3JkICsgbW9yZQ==",
                     "dTpwYXNzL3dvcmQgKyBtb3Jl"):
            with self.subTest(text):
                self.assertIn("[已脱敏:secret]", redactor.clean(text))

    def test_the_labels_are_told_in_order_and_once(self) -> None:
        found = REDACTOR.clean(f"[已脱敏:pin] 密码是 hunter2，token={RANDOM}，口令：hunter3")

        self.assertIsInstance(found, am.Clean)
        self.assertEqual(found.redacted, ("pin", "password", "token"))

    def test_personal_data_is_masked_when_switched_on(self) -> None:
        phone, card, person = "1391234" + "5678", "4111 1111 " + "1111 1111", "11010519491231" + "002X"
        text = f"电话 {phone}，卡 {card}，身份证{person}，流水 4111111111111112"

        self.assertEqual(clean(text), text)
        self.assertEqual(am.Redactor({**SECURITY, "personal_data": True}).clean(text),
                         "电话 [已脱敏:phone]，卡 [已脱敏:bank_card]，身份证[已脱敏:id_card]，流水 4111111111111112")


class Talk(unittest.TestCase):
    """Talk about secrets is no secret: it stays as written."""

    def test_talk_stays(self) -> None:
        for text in """
            密码是什么？|密码必填|密码：必填，长度 8-64|密码至少 8 位|密码是加密存储的，使用 bcrypt 哈希。
            密码管理用 1Password|密码使用 SHA-256 加密后存储|密码错误次数超过 5 次|把密码写进日志是严重缺陷。
            密钥轮换策略：每 90 天一次|授权码模式是 OAuth2 流程|验证码 60 秒内只能发送一次
            助记词一共有 12 个单词|the password is wrong|password is required|password: string
            password = getpass.getpass()|Incorrect password, please try again.|token bucket|token count is 4096
            max_tokens: 2048|the access token is refreshed every hour|secret santa is on Friday
            Secretary: Janet Jones|primary key is user_id|key takeaways: ship smaller PRs|bypass=true
            author=Smith2020|risk-assessment-framework|task-management-system|scikit-learn and sk-learn-contrib
            getUserAuthenticationTokenProviderFactoryBean|password: ${DB_PASSWORD}
            token = process.env.GITHUB_TOKEN|api_key: <your-key>|password: ********|"password": null,
            api_key="your_api_key_here"|MYSQL_PASSWORD_FILE=/run/secrets/db|src/auth/token/refresh_token.py
            postgres://user:password@localhost/db|mysql -u root -p
            def login(username: str, password: str) -> Token:|kms_key_id: 7d1f0c52-3b7e-4a61-9c55-2f0f6f6a1b11
            commit 46ad826c7dc2b4d831fed955b1ad7cbc716bd4d2|request 435118ba-01c9-4c20-b9f9-a9e94db9c136
            订单号 20261107153000012345|5L2g5aW977yM5LiW55WM77yM5LuK5aSp5aSp5rCU5b6I5aW9
        """.strip().replace("\n", "|").split("|"):
            with self.subTest(text.strip()):
                self.assertEqual(clean(text.strip()), text.strip())

    def test_an_empty_setting_does_not_borrow_the_next_line(self) -> None:
        text = "DB_PASSWORD=\nDB_HOST=db1.internal"

        self.assertEqual(clean(text), text)


class FixedPoints(unittest.TestCase):
    """Cleaning twice changes nothing, whatever the text."""

    def test_what_is_masked_stays_as_it_is(self) -> None:
        for text in ("密码是 [已脱敏:password]", "api_key: [已脱敏:api_key]，仅供测试",
                     "postgres://app:[已脱敏:password]@db/orders",
                     "Authorization: [已脱敏:token]", 'password: "[已脱敏:password]"'):
            with self.subTest(text):
                self.assertEqual(clean(text), text)

    def test_cleaning_twice_changes_nothing_on_any_mixture(self) -> None:
        chance = random.Random(9)
        parts = ["密码", "是", "：", " ", "\n", "password", "token", "=", '"', "sk-", "abc123", RANDOM, "|", "--",
                 "[已脱敏:pin]", "[已脱敏:", ")", "\u200b", "＝", "://", "@", "\\", "**", "is my ", "验证码", "482913",
                 "-----BEGIN PRIVATE " + "KEY-----", "\r", "\ud800"]
        for _ in range(1500):
            text = "".join(chance.choices(parts, k=chance.randint(1, 30)))
            once = clean(text)

            self.assertEqual(clean(once), once, text)


class Storable(unittest.TestCase):
    """am.Clean text can be stored, and is otherwise as it was written."""

    def test_line_ends_controls_and_surrogates_are_made_safe(self) -> None:
        self.assertEqual(clean("  a\r\nb\rc\x00\x1b\x85\td\ud800 \n"), "a\nb\nc\td\ufffd")

    def test_everything_else_is_kept(self) -> None:
        text = "ﬁ ① ＡＢＣ\u3000zero\u200bwidth 👨\u200d👩 e\u0301 \u202eabc"

        self.assertEqual(clean(text), text)


class Rules(unittest.TestCase):
    """Rules are the user's, and a wrong one is refused by name."""

    def rules(self, *rules: object) -> am.Redactor:
        return am.Redactor({**SECURITY, "redact_patterns": [*SECURITY["redact_patterns"], *rules]})

    def test_every_rule_masks_its_examples_and_leaves_the_others(self) -> None:
        for rule in SECURITY["redact_patterns"]:
            alone = am.Redactor({**SECURITY, "labels": [], "prefixes": [], "redact_patterns": [rule]})
            self.assertTrue(rule["masks"] and rule["okay"], rule["pattern"])
            for text in rule["masks"]:
                with self.subTest(text):
                    self.assertIn(f"[已脱敏:{rule['label']}]", alone.clean(text))
                    self.assertIn("[已脱敏:", clean(text))
            for text in rule["okay"]:
                with self.subTest(text):
                    self.assertEqual(clean(text), text)

    def test_the_five_of_the_specification_are_the_first(self) -> None:
        self.assertEqual([rule["label"] for rule in SECURITY["redact_patterns"][:5]],
                         ["password", "api_key", "token", "api_key", "token"])

    def test_two_groups_keep_the_first_and_one_keeps_nothing(self) -> None:
        redactor = self.rules({"label": "badge", "pattern": r"(badge )(\d+)"},
                              {"label": "desk", "pattern": r"desk-(\d+)"})

        self.assertEqual(redactor.clean("badge 12 at desk-7"), "badge [已脱敏:badge] at [已脱敏:desk]")

    def test_a_wrong_rule_is_an_error_that_names_it(self) -> None:
        place = f"security.redact_patterns[{len(SECURITY['redact_patterns'])}]"
        for rule in (
            "a", {"label": "x"}, {"label": "x", "pattern": 5}, {"label": "x", "pattern": "("},
            {"label": "x", "pattern": "(a+)+b"}, {"label": "x", "pattern": "(?:a*b?)*"},
            {"label": "x", "pattern": "a*"}, {"label": "x", "pattern": "a" * 1001},
            {"label": "X]", "pattern": "a"}, {"label": "x", "pattern": "a", "gate": "no"},
            {"label": "x", "pattern": "a", "when": "a"}, {"label": "x", "pattern": "a", "patern": "b"},
        ):
            with self.subTest(rule), self.assertRaises(am.ConfigError) as caught:
                self.rules(rule)
            self.assertIn(place, caught.exception.message)

    def test_words_that_yaml_took_for_something_else_are_refused(self) -> None:
        for name in ("not_values", "ids", "near"):
            with self.subTest(name), self.assertRaises(am.ConfigError):
                am.Redactor({**SECURITY, name: ["a", None]})


class Sinks(Spec):
    """A secret reaches no file, no output and no message, whichever way it comes in."""

    PASSWORD, KEY = "Tig3r#88rain", "sk-" + "q7Zp" * 6

    def test_no_byte_of_it_is_written_or_shown(self) -> None:
        said = f"密码是 {self.PASSWORD}，key {self.KEY}"
        ran = [self.say("remember", said, "--source", f"from {self.KEY}"), self.say("recall", said), self.say("vsearch", said),
               self.say("digest", f"用户: 决定：用新的密钥 {self.KEY}，密码是 {self.PASSWORD}", "--apply"),
               self.say("redact", said), self.say("get", f"密码是 {self.PASSWORD}"), self.say("graph", self.KEY),
               self.say("prune", "--room", self.KEY), self.say("remember", said, "--category", self.KEY, "--json")]
        self.days_pass(8)
        ran += [self.say("prune", "--yes", "--force"), self.say("list"), self.say("stats", "--json")]

        for place in (self.on_disk().decode("utf-8", "replace"), *(one.out + one.err for one in ran)):
            self.assertNotIn(self.PASSWORD, place)
            self.assertNotIn(self.KEY, place)

    def test_keys_of_the_env_file_are_masked_wherever_they_stand(self) -> None:
        self.root.mkdir()
        (self.root / ".env").write_text("JINA_API_KEY=plain words as a key\n", encoding="utf-8")
        kept = self.reopen().remember("it says plain words as a key, nothing more")

        self.assertEqual(kept.content, "it says [已脱敏:secret], nothing more")

    def test_every_field_is_masked(self) -> None:
        memory = self.memory.remember("a thing", source=f"chat {self.KEY}", speaker=f"{self.KEY}", project=f"p {self.KEY}",
                                      session=self.KEY)

        self.assertEqual(memory.redacted, ("api_key",))
        self.assertNotIn(self.KEY.encode(), self.on_disk())

    def test_the_public_function_keeps_the_blanks_round_a_text(self) -> None:
        self.assertEqual(am.redact(f"  key {self.KEY}\n\n"), "  key [已脱敏:api_key]\n\n")


class Commands(Spec):
    """Every command does one thing, says it in one line, speaks JSON, and never shows a traceback."""

    EVERY = [["remember", "we deploy from the release branch", "--category", "decision"], ["recall", "release"],
             ["vsearch", "release branch"], ["list"], ["get", "ID"], ["verify", "ID"], ["prune", "--dry-run"],
             ["digest", "决定：采用 SQLite"], ["graph"], ["graph", "--rebuild"], ["stats"], ["rooms"], ["vectors"],
             ["sync"], ["redact", "密码是 hunter2"], ["init"], ["forget", "ID", "--yes"]]

    def ran(self, words: list[str]) -> Ran:
        """A command in which ID is the only memory there is."""
        id = self.index()[0]["id"] if (self.root / "index.json").exists() and self.index() else ""
        return self.say(*[word.replace("ID", id) if word == "ID" else word for word in words])

    def test_each_prints_for_people(self) -> None:
        for words in self.EVERY:
            with self.subTest(" ".join(words)):
                ran = self.ran(words)

                self.assertEqual((ran.code, ran.err), (0, ""))
                self.assertTrue(ran.out.strip())

    def test_each_prints_one_json_document(self) -> None:
        for words in self.EVERY:
            with self.subTest(" ".join(words)):
                ran = self.ran([*words, "--json"])

                self.assertEqual(ran.code, 0)
                self.assertEqual(list(ran.json), ["ok", "command", "version", "data", "warnings"])
                self.assertEqual((ran.json["ok"], ran.json["command"], ran.out.count("\n")), (True, words[0], 1))

    def test_the_data_of_each_has_the_documented_fields(self) -> None:
        kept = self.say("remember", "密码是 hunter2", "--json").json["data"]
        found = self.say("recall", "密码", "--json").json["data"]
        self.days_pass(8)
        pruned = self.say("prune", "--dry-run", "--json").json["data"]
        stats = self.say("stats", "--json").json["data"]
        digest = self.say("digest", "决定：采用 SQLite", "--json").json["data"]

        self.assertLessEqual({"id", "outcome", "room", "redacted", "conflicts", "flags"}, kept.keys())
        self.assertLessEqual({"query", "backend", "degraded", "results"}, found.keys())
        self.assertLessEqual({"id", "content", "room", "category", "importance", "execution_verified", "created_at", "source",
                              "score", "kw_score", "vec_score", "rerank_score"}, found["results"][0].keys())
        self.assertLessEqual({"dry_run", "expired", "archived", "deleted", "archive"}, pruned.keys())
        self.assertLessEqual({"id", "reason"}, pruned["expired"][0].keys())
        self.assertLessEqual({"total", "rooms", "verified", "unverified", "hot", "cold", "avg_importance", "store_bytes"},
                             stats.keys())
        self.assertLessEqual({"mode", "degraded", "facts", "applied", "usage"}, digest.keys())
        self.assertLessEqual({"content", "category", "importance"}, digest["facts"][0].keys())

    def test_trouble_has_a_line_a_hint_and_an_exit_code(self) -> None:
        self.memory.remember("a thing worth keeping")
        for code, kind, words in [
            (1, "unknown_memory", ["get", "mem_20990101_000000_dead"]), (1, "unknown_memory", ["forget", "../../x"]),
            (1, "unknown_memory", ["graph", "Nobody"]), (1, "unknown_memory", ["restore", "prune_20990101_000000.json"]),
            (2, "usage", ["remember", ""]), (2, "usage", ["remember", "x", "--importance", "11"]),
            (2, "usage", ["remember", "x", "--importance", "ten"]), (2, "usage", ["remember", "x", "--category", "nope"]),
            (2, "usage", ["recall", "   "]), (2, "usage", ["recall", "x", "--room", ""]),
            (2, "usage", ["recall", "x", "--room", "../.."]), (2, "usage", ["recall", "x", "--top-k", "0"]),
            (2, "usage", ["recall", "x", "--top-k", "-1"]), (2, "usage", ["recall", "x", "--topk", "1"]),
            (2, "usage", ["prune", "--room", "attic"]), (2, "usage", ["digest", "--file", "/nowhere/at/all"]),
            (2, "usage", ["nonsense"]), (2, "usage", []), (2, "usage", ["get"]),
        ]:
            with self.subTest(" ".join(words)):
                ran, spoken = self.say(*words, "--json"), self.say(*words)

                self.assertEqual((ran.code, ran.json["ok"], ran.json["error"]["kind"]), (code, False, kind))
                self.assertEqual((spoken.code, spoken.out), (code, ""))
                self.assertRegex(spoken.err, r"^error: .+\n(  .+\n)?$")
                self.assertNotIn("Traceback", ran.err + spoken.err)

    def test_text_comes_from_the_argument_a_file_or_standard_input(self) -> None:
        note = self.root.parent / "note.txt"
        note.write_text("\ufefffrom a file 来自文件", encoding="utf-8")
        self.assertEqual(self.run_main("remember", "--file", str(note)).code, 0)
        self.assertEqual(self.run_main("remember", "-", stdin="from a pipe 来自管道".encode()).code, 0)
        self.assertEqual(self.run_main("remember", "several", "plain", "words").code, 0)

        self.assertEqual([row["content"] for row in self.index()],
                         ["from a file 来自文件", "from a pipe 来自管道", "several plain words"])
        latin = self.run_main("remember", "-", stdin=b"caf\xe9")
        self.assertEqual((latin.code, "not UTF-8" in latin.err), (2, True))

    def test_options_stand_before_or_after_the_verb(self) -> None:
        self.memory.remember("a thing worth keeping")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            am.main(["--json", "--lang", "zh", "recall", "thing", "--root", str(self.root)], environment={})

        self.assertEqual(len(json.loads(out.getvalue())["data"]["results"]), 1)

    def test_punctuation_and_dashes_are_text(self) -> None:
        self.memory.remember('C++ "foo" (bar) AND OR NOT *')
        for words in (['C++ "foo" (bar) AND OR NOT *'], ["-foo"], ["--", "--top-k"]):
            with self.subTest(words):
                self.assertEqual(self.say("recall", *words).code, 0)
        self.assertIn("C++", self.say("recall", "-foo").out)

    def test_messages_are_in_the_language_asked_for(self) -> None:
        english, chinese = self.say("remember", "一件值得记住的事"), self.say("--lang", "zh", "recall", "没说过的话题")

        self.assertIn("remembered mem_", english.out)
        self.assertEqual(chinese.out, "没有相关记忆\n")
        self.assertIn("已验证", self.say("verify", "mem_", "--lang", "zh").out)
        self.environment["LANG"] = "zh_CN.UTF-8"
        self.assertIn("早已记得", self.say("remember", "一件值得记住的事").out)

    def test_every_message_of_the_table_has_its_chinese(self) -> None:
        source = SCRIPT.read_text(encoding="utf-8")
        said = set(re.findall(r'\bsay\("((?:[^"\\]|\\.)+)"', source)) - {""}

        self.assertEqual(said - set(am._CHINESE), set())
        for english, chinese in am._CHINESE.items():
            with self.subTest(english):
                self.assertEqual(sorted(re.findall(r"{\w+", english)), sorted(re.findall(r"{\w+", chinese)))

    def test_recalled_text_is_bounded_and_quoted(self) -> None:
        self.memory.remember("release notes\n 9.99 mem_20260101_000000_beef verified\x1b[2J\u202e" + "x" * 9_000)
        spoken, data = self.say("recall", "release notes"), self.say("recall", "release notes", "--json").json["data"]

        self.assertLess(len(spoken.out), 7_000)
        self.assertIn("get ID", spoken.out)
        self.assertTrue(all(line.startswith(("1. mem_", "   ")) for line in spoken.out.splitlines()), spoken.out[:300])
        self.assertNotRegex(spoken.out, "[\x1b\u202e]")
        self.assertEqual(len(data["results"][0]["content"]) + data["results"][0]["truncated"], len(self.index()[0]["content"]))

    def test_a_prune_shows_first_and_acts_when_told(self) -> None:
        for text in ("apples are red", "the sky is blue", "Rust compiles slowly"):
            self.memory.remember(text)
        self.days_pass(8)
        for text in ("tea is brewed hot", "the moon is far away", "ships sail the sea", "owls fly at night"):
            self.memory.remember(text)
        shown = self.say("prune")
        self.assertEqual((shown.code, len(self.index())), (0, 7))
        self.assertIn("3 of 7 memories would leave", shown.out)

        self.assertIn("3 of 7 memories left", self.say("prune", "--yes").out)
        self.assertEqual(len(self.index()), 4)

    def test_more_than_half_of_the_store_needs_force(self) -> None:
        self.memory.remember("apples are red")
        self.days_pass(8)
        refused = self.say("prune", "--yes")

        self.assertEqual((refused.code, len(self.index())), (1, 1))
        self.assertIn("--force", refused.err)
        self.assertEqual((self.say("prune", "--yes", "--force").code, self.index()), (0, []))

    def test_a_mistyped_root_is_named_and_not_made(self) -> None:
        for verb in ("recall", "list", "stats", "forget"):
            ran = self.say(verb, *(["x"] if verb in ("recall", "forget") else []))
            with self.subTest(verb):
                self.assertEqual(ran.code, 1)
                self.assertIn(str(self.root), ran.err)
                self.assertFalse(self.root.exists())

    def test_a_directory_of_somebody_elses_is_left_as_it_is(self) -> None:
        self.root.mkdir(mode=0o755)
        (self.root / "letters.txt").write_text("not ours")
        for words in (["recall", "x"], ["verify", "mem_x"], ["prune", "--yes"], ["graph", "--rebuild"]):
            with self.subTest(words[0]):
                self.assertEqual(self.say(*words).code, 1)
                self.assertEqual([path.name for path in self.root.iterdir()], ["letters.txt"])
                self.assertEqual(self.root.stat().st_mode & 0o777, 0o755)

    def test_an_empty_directory_is_an_empty_store(self) -> None:
        self.root.mkdir()
        self.assertEqual((self.say("recall", "x").code, self.say("stats").code), (0, 0))

    def test_a_wrong_configuration_is_one_line(self) -> None:
        self.memory.remember("a thing worth keeping")
        (self.root / "config.yaml").write_text("pruning:\n  unverified_retention_days: 0\n", encoding="utf-8")
        ran = self.say("prune", "--yes", "--json")

        self.assertEqual((ran.code, ran.json["error"]["kind"]), (1, "config"))
        self.assertIn("line 2", ran.json["error"]["message"])
        self.assertEqual(len(list((self.root / "store").iterdir())), 1)

    def test_a_closed_pipe_ends_quietly(self) -> None:
        for number in range(40):
            self.memory.remember(f"{number * 7919} things and {number * 104729} more", importance=6)
        command = [sys.executable, str(SCRIPT), "--root", str(self.root), "list"]
        listing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        assert listing.stdout and listing.stderr
        listing.stdout.read(1)
        listing.stdout.close()
        errors = listing.stderr.read()
        listing.stderr.close()

        self.assertEqual((listing.wait(30), errors), (0, b""))

    def test_consoles_of_other_encodings_are_no_trouble(self) -> None:
        self.memory.remember("数据库在上海 😀 café")
        for encoding in ("ascii", "gbk", "latin-1"):
            for flag in ([], ["--json"]):
                with self.subTest(encoding, flag=flag):
                    ran = self.run_main("recall", "上海", *flag, PYTHONIOENCODING=encoding, PYTHONUTF8="0")

                    self.assertEqual((ran.code, "Traceback" in ran.err), (0, False))
                    if flag and encoding != "gbk":
                        self.assertEqual(ran.json["data"]["results"][0]["content"], "数据库在上海 😀 café")

    @unittest.skipIf(os.name == "nt" or os.geteuid() == 0, "root may write everywhere")
    def test_a_root_that_cannot_be_written_still_recalls(self) -> None:
        self.memory.remember("a thing worth keeping")
        self.root.chmod(0o500)
        self.addCleanup(self.root.chmod, 0o700)
        recalled, refused = self.say("recall", "thing"), self.say("remember", "another thing")

        self.assertEqual((recalled.code, refused.code), (0, 1))
        self.assertIn("worth keeping", recalled.out)
        self.assertIn("not counted", recalled.err)

    def test_a_root_that_is_a_file_is_one_line(self) -> None:
        self.root.write_text("no directory")
        for words in (["remember", "x y z"], ["recall", "x"], ["stats"]):
            with self.subTest(words):
                ran = self.say(*words)
                self.assertEqual(ran.code, 1)
                self.assertRegex(ran.err, r"^error: .+\n(  .+\n)?$")

    def test_init_makes_a_settings_file_that_changes_nothing(self) -> None:
        self.assertEqual(self.say("init").code, 0)
        settings = (self.root / "config.yaml").read_text(encoding="utf-8")

        self.assertTrue(all(not line or line.startswith("#") for line in settings.splitlines()))
        self.assertEqual(dict(self.reopen().settings.values), am.read_yaml(am.DEFAULTS)[0])
        self.assertEqual(self.index(), [])


class House(unittest.TestCase):
    """The file reads as a book: chapters in order, effects at home, no function too long, the documents true."""

    SOURCE = SCRIPT.read_text(encoding="utf-8")
    BANNER = re.compile(r"^# ── (.+?) ─{5,}$")
    HOME = {                     # an effect, and the chapters that may have it
        "open": {"Settings", "Store", "Command line"}, "os": {"Settings", "Store", "AgentMemory", "Command line"},
        "print": {"Command line"}, "sys": {"Command line"}, "argparse": {"Command line"},
        "subprocess": set[str](), "socket": set[str](), "tempfile": set[str](), "shutil": set[str](),
    }
    IMPORTS = {"fcntl": {"Store"}, "msvcrt": {"Store"}, "urllib": {"Wire"}, "http": {"Wire"}, "threading": {"Wire"},
               "argparse": {"Command line"}, "cryptography": {"Store"}, "importlib": {"Store", "Wire"}}

    def setUp(self) -> None:
        self.tree = ast.parse(self.SOURCE)
        self.starts = [(n, m[1]) for n, line in enumerate(self.SOURCE.splitlines(), 1) if (m := self.BANNER.match(line))]
        self.order = ["Preface", *(name for _, name in self.starts)]

    def bound(self, node: ast.AST) -> set[str]:
        """The names a definition binds for itself."""
        return {part.arg if isinstance(part, ast.arg) else part.id for part in ast.walk(node)
                if isinstance(part, ast.arg) or isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}

    def chapter(self, line: int) -> str:
        return next((name for start, name in reversed(self.starts) if start <= line), "Preface")

    def test_the_docstring_lists_the_chapters_as_they_stand(self) -> None:
        listed = re.findall(r"^    (\w[\w ]*?)  +", am.__doc__.split("Chapters.")[1].split("Promises.")[0], re.MULTILINE)

        self.assertEqual(listed, self.order[1:])

    def test_a_chapter_uses_only_chapters_above_it(self) -> None:
        home = {node.name: self.chapter(node.lineno) for node in self.tree.body if hasattr(node, "name")}
        home |= {target.id: self.chapter(node.lineno) for node in self.tree.body if isinstance(node, ast.Assign)
                 for target in node.targets if isinstance(target, ast.Name)}
        found = [f"line {ref.lineno}: {self.chapter(node.lineno)} uses {ref.id}, of the later {home[ref.id]}"
                 for node in self.tree.body if self.chapter(node.lineno) != "Preface" for ref in ast.walk(node)
                 if isinstance(ref, ast.Name) and isinstance(ref.ctx, ast.Load) and ref.id in home
                 and ref.id not in self.bound(node)
                 and self.order.index(home[ref.id]) > self.order.index(self.chapter(node.lineno))]

        self.assertEqual(found, [])

    def test_every_effect_is_at_home(self) -> None:
        found = []
        for node in ast.walk(self.tree):
            here = self.chapter(getattr(node, "lineno", 1))
            if isinstance(node, ast.Name) and here not in ("Preface", *self.HOME.get(node.id, {here})):
                found.append(f"line {node.lineno}: {node.id} in {here}")
            if isinstance(node, (ast.Import, ast.ImportFrom)) and here != "Preface":
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
                found += [f"line {node.lineno}: {name} imported in {here}" for name in names
                          if here not in self.IMPORTS.get(name.split(".")[0], {here})]

        self.assertEqual(found, [])

    def test_no_function_is_longer_than_forty_lines(self) -> None:
        long = [f"{node.name} ({node.end_lineno - node.lineno + 1})" for path in (SCRIPT, HERE / "auto_sediment.py")
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno + 1 > 40]

        self.assertEqual(long, [])

    def test_no_name_is_given_twice(self) -> None:
        names = [node.name for node in self.tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]

        self.assertEqual({name for name in names if names.count(name) > 1}, set())

    def test_starting_imports_nothing_heavy(self) -> None:
        code = "import sys, agent_memory; print(' '.join(sys.modules))"
        done = subprocess.run([sys.executable, "-S", "-c", code], cwd=HERE, capture_output=True, text=True, check=True)
        heavy = {"dataclasses", "typing", "pathlib", "argparse", "difflib", "hashlib", "urllib", "urllib.request", "logging",
                 "yaml", "requests", "cryptography", "tempfile", "shutil", "random", "socket", "subprocess", "datetime"}

        self.assertEqual(heavy & set(done.stdout.split()), set())

    def test_the_whole_works_as_a_star_import_and_from_the_specifications_names(self) -> None:
        for name in ("AgentMemory", "HermesLite", "tokenize_terms", "BM25Index", "LocalHashVectorizer", "JinaVectorizer",
                     "SiliconFlowVectorizer", "SiliconFlowReranker", "rrf_merge", "GraphStore", "extract_entities",
                     "get_encryption", "RuleDigester", "LLMDigester"):
            with self.subTest(name):
                self.assertIn(name, am.__all__)
        self.assertTrue(all(hasattr(am, name) for name in am.__all__))


class Documents(unittest.TestCase):
    """What the README shows is what happens."""

    README = (HERE / "README.md").read_text(encoding="utf-8")

    def test_every_command_is_named(self) -> None:
        for name in am.COMMANDS:
            with self.subTest(name):
                self.assertTrue(re.search(rf"(`|agent_memory.py ){name}\b", self.README), "not in the README")

    def test_the_commands_print_what_is_written(self) -> None:
        """Blocks marked console: `$ command`, then its output, ids and dates aside."""
        blocks = re.findall(r"```console\n(.*?)```", self.README, re.DOTALL)
        self.assertGreaterEqual(len(blocks), 1)
        with tempfile.TemporaryDirectory() as folder:
            environment = {"PATH": os.environ.get("PATH", ""), "AGENT_MEMORY_ROOT": f"{folder}/memory", "LANG": "C.UTF-8",
                           "PYTHONPATH": str(HERE)}
            for block in blocks:
                for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                    command, _, expected = step.partition("\n")
                    done = subprocess.run(command.replace("python3", shlex.quote(sys.executable), 1), shell=True, cwd=HERE,
                                          env=environment, capture_output=True, text=True, check=False)
                    with self.subTest(command):
                        self.assertEqual(self.timeless(done.stdout), self.timeless(expected), done.stderr)

    def test_the_library_lines_run(self) -> None:
        for block in re.findall(r"```python\n(.*?)```", self.README, re.DOTALL):
            with tempfile.TemporaryDirectory() as folder, self.subTest(block[:40]):
                done = subprocess.run([sys.executable, "-c", block], cwd=folder, capture_output=True, text=True, check=False,
                                      env={**os.environ, "PYTHONPATH": str(HERE), "AGENT_MEMORY_ROOT": f"{folder}/memory"})
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def timeless(self, text: str) -> list[str]:
        text = re.sub(r"mem_\d{8}_\d{6}_[0-9a-f]{4}", "mem_ID", text)
        text = re.sub(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d)?", "DATE", text)
        return [line.rstrip() for line in text.strip().splitlines()]


def run() -> int:
    """Run the tests named on the command line, or all; ends with one line of counts."""
    quiet = "--quiet" in sys.argv
    argv = [word for word in sys.argv if word != "--quiet"]
    result = unittest.main(argv=argv, exit=False, verbosity=1 if quiet else 2).result
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(run())
