"""What an agent's hook answers, what it starts, and that it never stands in the agent's way."""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import agent_memory as am
import auto_sediment
from agent_memory_extras import context, hooks

HERE = Path(__file__).resolve().parent.parent
CAPTURED = HERE.parent / "shared" / "sessions" / "hooks"
START = "import sys, agent_memory; sys.exit(agent_memory.main())"
SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2


class Hooked(unittest.TestCase):
    """A data root, and an agent that calls the hook as a process of its own."""

    code = HERE

    def setUp(self) -> None:
        # A hook that was late has cache/ put in order behind it, and perhaps still does.
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        self.root, self.work = self.folder / "memory", self.folder / "home" / "shop"
        self.work.mkdir(parents=True)
        self.memory = self.enterContext(am.AgentMemory(self.root, environment={}))

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-c", START, "--root", str(self.root), "hook", *words]

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder / "home"), "PYTHONPATH": str(self.code), **more}

    def hook(self, event: dict[str, Any] | bytes, *words: str, **more: str) -> str:
        """What the hook prints, having made sure of what holds for every call: exit code 0, nothing on stderr, one line."""
        sent = event if isinstance(event, bytes) else json.dumps(event).encode()
        done = subprocess.run(self.command(*words), input=sent, capture_output=True, timeout=30, env=self.environment(**more),
                              cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        self.assertLessEqual(done.stdout.count(b"\n"), 1)
        return done.stdout.decode("ascii")

    def event(self, name: str, **more: Any) -> dict[str, Any]:
        return {"session_id": "s1", "transcript_path": "/nowhere/s1.jsonl", "cwd": str(self.work), "hook_event_name": name, **more}

    def prompt(self, prompt: str, session: str = "s1", name: str = "UserPromptSubmit", **more: Any) -> str:
        """The block that a prompt gets, "" for none."""
        return self.block(self.event(name, prompt=prompt, session_id=session, **more))

    def begin(self, source: str = "startup", session: str = "s1", **more: Any) -> str:
        return self.block(self.event("SessionStart", source=source, session_id=session, **more))

    def block(self, event: dict[str, Any], *words: str) -> str:
        said = self.hook(event, *words)
        if not said:
            return ""
        answer = json.loads(said)["hookSpecificOutput"]
        self.assertEqual(list(answer), ["hookEventName", "additionalContext"])
        self.assertEqual(answer["hookEventName"], event["hook_event_name"])
        return str(answer["additionalContext"])

    def log(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.root / "hook.log").read_text("utf-8")
        return ""

    def files(self) -> dict[str, tuple[int, int]]:
        """Every file of the root, and what changes when it does."""
        found = {str(path.relative_to(self.root)): path.stat() for path in self.root.rglob("*") if path.is_file()}
        return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in found.items()}


class Told(Hooked):
    """An event that may be told something is told what matters, fenced, once, in the same bytes."""

    def setUp(self) -> None:
        super().setUp()
        self.style = self.memory.remember("偏好：回答用中文", "preference", 8)
        self.port = self.memory.remember("the cache listens on port 6379", "event")

    def test_a_session_that_begins_is_told_what_matters_always(self) -> None:
        for source in ("startup", "resume", "clear", "compact"):
            with self.subTest(source):
                self.assertEqual(self.begin(source), context.standing(self.memory).text)

    def test_a_prompt_is_told_what_it_brings_up(self) -> None:
        for name in ("UserPromptSubmit", "BeforeAgent"):
            with self.subTest(name):
                text = self.prompt("which port does the cache use?", name, name)
                self.assertEqual(text, context.about(self.memory, "which port does the cache use?").text)
                self.assertIn(self.port.id, text)
        self.assertEqual(self.prompt("who won the cup in 1954?"), "")
        self.assertEqual(am.AgentMemory(self.root).get(self.port.id).access_count, 0)

    def test_a_task_brings_up_what_is_known_by_a_name_in_it(self) -> None:
        vite = self.memory.remember("the frontend is built with Vite", verified=True).id
        for prompt, expected in (("please fix the vite config, it warns about chunk sizes", [vite]),
                                 ("please fix the chunk config, it warns about sizes", []), ("vite 的构建又失败了，看看", [])):
            with self.subTest(prompt):
                self.assertEqual([id for id in (vite,) if id in self.prompt(prompt)], expected)          # the third: it was told
        self.assertEqual(self.memory.recall("please fix the vite config, it warns about chunk sizes").results, ())

    def test_the_same_store_session_and_prompt_give_the_same_bytes(self) -> None:
        event = self.event("UserPromptSubmit", prompt="which port does the cache use?")
        first = self.hook(event)
        (self.root / ".hooks_state.json").unlink()

        self.assertEqual(self.hook(event), first)
        self.assertEqual(self.hook(event | {"session_id": "s2"}), first)

    def test_a_prompt_that_asks_nothing_is_told_nothing(self) -> None:
        for prompt in ("", "  \n", "/compact", "/plugin:port the cache", "<hook_context>the cache port</hook_context>",
                       "<agent-memory>\ncache port\n</agent-memory>\n", None, ["the cache port"], 7):
            with self.subTest(prompt):
                self.assertEqual(self.hook(self.event("UserPromptSubmit", prompt=prompt)), "")
        self.assertEqual(self.log(), "")
        self.assertIn(self.port.id, self.prompt("/var/cache is on which port of the cache?"))

    def test_what_was_injected_before_is_not_asked_for(self) -> None:
        told = "<hook_context>the cache listens on port 6379</hook_context>\n\n"

        self.assertEqual(self.prompt(told + "who won the cup in 1954?"), "")
        self.assertIn(self.port.id, self.prompt(told + "which port does the cache use?"))

    def test_a_long_prompt_costs_no_more_than_its_beginning_and_end(self) -> None:
        began = time.monotonic()
        self.prompt("which port does the cache use?\n" + "<agent-memory> 0123456789abcdef " * 30_000)

        self.assertLess(time.monotonic() - began, 2)
        asked = hooks.asked("first " + "x" * 10_000 + " last")
        self.assertEqual((len(asked), asked[:6], asked[-5:]), (2 * hooks.PROMPT + 1, "first ", " last"))

    def test_it_stays_within_its_budget(self) -> None:
        for n in range(30):
            self.memory.remember(f"decision {n} about the cache port: " + f"word{n} " * 60, "decision", 9)

        self.assertTrue(1000 < len(self.begin()) <= 1500)
        self.assertTrue(1000 < len(self.prompt("which cache port was the decision about?")) <= 1500)

    def test_sessions_that_ask_at_once_are_all_kept_in_mind(self) -> None:
        asked = [json.dumps(self.event("UserPromptSubmit", prompt="which port does the cache use?", session_id=f"s{n}")).encode()
                 for n in range(8)]
        running = [subprocess.Popen(self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment(),
                                    cwd=self.folder) for _ in asked]
        for process, sent in zip(running, asked, strict=True):
            self.assertTrue(process.stdin)
            process.stdin.write(sent)  # type: ignore[union-attr]
            process.stdin.close()  # type: ignore[union-attr]
        for process in running:
            with process:
                self.assertIn(self.port.id, process.stdout.read().decode())  # type: ignore[union-attr]

        self.assertEqual([self.hook(sent) for sent in asked], [""] * len(asked))

    def test_a_session_is_told_a_memory_once(self) -> None:
        asked = "which port does the cache use?"

        self.assertIn(self.port.id, self.prompt(asked))
        self.assertEqual(self.prompt(asked), "")
        self.assertIn(self.port.id, self.prompt(asked, "another session"))
        self.begin("resume")
        self.assertEqual(self.prompt(asked), "")
        for source in ("clear", "compact"):
            with self.subTest(source):
                self.begin(source)
                self.assertIn(self.port.id, self.prompt(asked))

    def test_what_a_session_was_told_when_it_began_is_not_told_again(self) -> None:
        self.begin()

        self.assertEqual(self.prompt("偏好用什么语言回答？"), "")
        self.assertIn(self.style.id, self.prompt("偏好用什么语言回答？", "another session"))

    def test_after_a_compaction_that_nobody_told_of_a_prompt_tells_all_anew(self) -> None:
        for name in ("PreCompact", "PreCompress"):
            with self.subTest(name):
                self.begin()
                self.assertEqual(self.hook(self.event(name)), "")
                text = self.prompt("which port does the cache use?")
                self.assertTrue(self.style.id in text and self.port.id in text, text)
                self.assertEqual((text.count("<agent-memory>"), self.prompt("which port does the cache use?")), (1, ""))
        self.hook(self.event("PreCompact"))
        self.begin("compact")
        self.assertNotIn(self.style.id, self.prompt("which port does the cache use?"))

    def test_hermes_is_told_in_its_own_words(self) -> None:
        event = {"session_id": "h1", "cwd": str(self.work), "hook_event_name": "pre_llm_call",
                 "extra": {"user_message": "which port does the cache use?"}}
        answer = json.loads(self.hook(event))

        self.assertEqual(answer, {"context": context.about(self.memory, "which port does the cache use?").text})
        first = json.loads(self.hook(event | {"session_id": "h2", "extra": event["extra"] | {"is_first_turn": True}}))
        self.assertTrue(self.style.id in first["context"] and self.port.id in first["context"])
        for extra in (None, [], {"user_message": ["which port?"]}):
            with self.subTest(extra):
                self.assertEqual(self.hook(event | {"extra": extra}), "")

    def test_a_project_is_told_its_own(self) -> None:
        (self.work / ".git").mkdir()
        (self.work / "src").mkdir()
        for project in ("shop", "blog"):
            self.memory.remember(f"we chose the database of {project}", "decision", project=project)
        began, asked = self.begin(cwd=str(self.work / "src")), self.prompt("which database was chosen?", "s2")

        for text in (began, asked):
            self.assertTrue("of shop" in text and "of blog" not in text, text)
        self.assertIn("of blog", self.begin(cwd=str(self.folder / "home")))

    def test_other_events_and_those_of_other_agents_do_nothing(self) -> None:
        before = self.files()
        for name in ("PreToolUse", "PostToolUse", "Notification", "SubagentStop", "BeforeTool", "on_session_start", "",
                     "sessionstart"):
            with self.subTest(name):
                self.assertEqual(self.hook(self.event(name, prompt="the cache port", source="startup")), "")
        self.assertEqual(self.hook(self.event("BeforeAgent", prompt="the cache port"), "--agent", "claude-code"), "")
        self.assertEqual(self.hook({"type": "x"}), "")
        self.assertEqual(self.files(), before)
        for agent in ("claude-code", "codex", "dsh"):
            with self.subTest(agent):
                self.assertIn(self.style.id, self.block(self.event("SessionStart", session_id=agent), "--agent", agent))

    def test_what_was_captured_from_real_agents_is_answered(self) -> None:
        if not CAPTURED.is_dir():
            self.skipTest("no captured events here")
        self.memory.remember("决定：使用 PostgreSQL 16 作为数据库", "decision", 8)
        told = set()
        for line in (CAPTURED / "captured-hook-payloads.jsonl").read_text("utf-8").splitlines():
            call = json.loads(line)
            for agent in ("auto", call["agent"]):
                with self.subTest(event=call["ev"], agent=agent):
                    said = self.hook(call["stdin"].encode(), "--agent", agent)
                    self.assertTrue(not said or "PostgreSQL" in said)
                    told |= {(call["agent"], call["ev"])} if said else set()
        self.assertEqual(told, {("codex", "SessionStart"), ("gemini", "SessionStart"), ("hermes", "pre_llm_call")})
        self.assertEqual(self.log(), "")


class KeptInMind(Hooked):
    """What hooks know of a session is small, says nothing, and may be lost."""

    def setUp(self) -> None:
        super().setUp()
        self.port = self.memory.remember("the cache listens on port 6379", "event")

    def state(self) -> Any:
        return json.loads((self.root / ".hooks_state.json").read_text("utf-8"))

    def test_the_latest_sessions_and_memories_are_kept_and_their_names_are_not(self) -> None:
        mind = hooks.Mind(self.memory)
        for n in range(200):
            mind.tell(f"session {n}", [f"mem_{number}" for number in range(n, n + 600)])
            mind.begin(f"/log/{n}", n)
        mind.keep()
        kept = hooks.Mind(self.memory)

        self.assertEqual((len(self.state()["sessions"]), len(self.state()["logs"])), (64, 64))
        last = kept.told("session 199")
        self.assertEqual((len(last), last[-1], kept.told("session 1")), (512, "mem_798", []))
        self.assertNotRegex((self.root / ".hooks_state.json").read_text("utf-8"), "session 1|/log/")
        self.assertEqual(stat.S_IMODE((self.root / ".hooks_state.json").stat().st_mode), 0o600)

    def test_a_damaged_state_is_begun_anew(self) -> None:
        for damaged in ("", "[]", "{", '{"key": 1}', '{"key": "zz", "sessions": {"a": 1}}', '{"sessions": [], "logs": []}'):
            with self.subTest(damaged):
                (self.root / ".hooks_state.json").write_text(damaged, "utf-8")
                self.assertIn(self.port.id, self.prompt("which port does the cache use?"))
                self.assertEqual(len(self.state()["sessions"]), 1)
        state = self.state()
        state["sessions"] = {key: {"told": 7, "due": "yes"} for key in state["sessions"]}
        (self.root / ".hooks_state.json").write_text(json.dumps(state), "utf-8")
        self.assertIn(self.port.id, self.prompt("which port does the cache use?"))

    def test_hooks_at_the_same_time_leave_it_whole(self) -> None:
        sent = [json.dumps(self.event("UserPromptSubmit", prompt="the cache port?", session_id=f"p{n}")).encode() for n in range(6)]
        running = [subprocess.Popen(self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment(),
                                    cwd=self.folder) for _ in sent]
        said = [process.communicate(data, timeout=30)[0] for process, data in zip(running, sent)]

        self.assertEqual(len(set(said)), 1)
        self.assertIn(self.port.id, said[0].decode())
        self.assertTrue(1 <= len(self.state()["sessions"]) <= 6)
        self.assertEqual([name for name in os.listdir(self.root) if name.endswith(".new")], [])


class NeverInTheWay(Hooked):
    """Whatever is wrong, the agent goes on: exit code 0, nothing printed, the reason in hook.log and no word of a prompt."""

    def setUp(self) -> None:
        super().setUp()
        self.port = self.memory.remember("the cache listens on port 6379", "preference")

    def ask(self, **more: Any) -> dict[str, Any]:
        return self.event("UserPromptSubmit", prompt=f"which port does the cache use? {SECRET}", **more)

    def test_garbage(self) -> None:
        whole = json.dumps(self.ask()).encode()
        for sent in (b"", b"\n", b"null", b"[]", b"[" + whole + b"]", b"\x00\xff\xfe" * 100, whole[:-1], whole + b"x",
                     b'"' + b"x" * 99, b"[" * 200_000, b'{"a":' * 100_000,
                     b'{"a": 1e999999, "hook_event_name": {}}', b"x" * 5_000_000):
            with self.subTest(sent[:20]):
                self.assertEqual(self.hook(sent), "")
        self.assertEqual(set(os.listdir(self.root)) & {".hooks_state.json"}, set())
        self.assertIn("no event", self.log())
        self.assertNotIn(SECRET, self.log())

    def test_an_event_of_five_megabytes_is_left_alone(self) -> None:
        self.assertEqual(self.hook(self.ask(more="x" * 5_000_000)), "")
        self.assertIn("more than 1 MB", self.log())

    def test_lone_surrogates_and_nul_are_answered(self) -> None:
        sent = json.dumps(self.ask(cwd="/\ud800/\0", session_id="\udfff")).replace("which", "\\ud83d \\u0000 which")

        self.assertIn(self.port.id, self.hook(sent.encode()))
        self.assertEqual(self.hook(sent.replace("UserPromptSubmit", "SessionEnd").encode()), "")
        self.assertIn(self.port.id, self.hook(json.dumps(self.ask(), ensure_ascii=False).encode("utf-8") + b" \n"))

    def test_wrong_words(self) -> None:
        for words in (("--bogus",), ("--agent", "nobody"), ("more",), ("--codex-notify",)):
            with self.subTest(words):
                self.assertEqual(self.hook(self.ask(), *words), "")

    def test_broken_settings(self) -> None:
        (self.root / "config.yaml").write_text(f"context:\n  chars: many {SECRET}\n", "utf-8")

        self.assertEqual(self.hook(self.ask()), "")
        self.assertIn("context.chars", self.log())
        self.assertNotIn(SECRET, self.log())

    def test_a_damaged_store_is_told_in_one_masked_line_that_only_its_owner_reads(self) -> None:
        (self.root / "index.json").write_text("{", "utf-8")
        shutil.rmtree(self.root / "store")
        (self.root / "store").write_text("")
        self.hook(self.ask())

        self.assertEqual(len(self.log().splitlines()), 1)
        self.assertNotIn(SECRET, self.log())
        self.assertEqual(stat.S_IMODE((self.root / "hook.log").stat().st_mode), 0o600)

    def test_the_log_is_bounded(self) -> None:
        (self.root / "hook.log").write_text("an older line\n" * 10_000, "utf-8")
        self.hook(b"")

        self.assertLess((self.root / "hook.log").stat().st_size, hooks.LOG)
        self.assertIn("no event", self.log().splitlines()[-1])
        self.assertEqual(self.log().splitlines()[0], "an older line")

    def test_a_root_that_cannot_be_written(self) -> None:
        for name in (".hooks.lock", ".hooks_state.json", "hook.log"):
            (self.root / name).mkdir()
        self.root.chmod(0o500)
        self.addCleanup(self.root.chmod, 0o700)

        self.assertIn(self.port.id, self.hook(self.ask()))
        self.assertIn(self.port.id, self.begin())
        self.assertEqual(self.hook(b"garbage"), "")

    def test_a_root_that_is_not_there_is_not_made(self) -> None:
        for root in (self.folder / "none", self.folder / "none" / "deeper"):
            self.root = root
            for event in (self.ask(), self.event("SessionStart", source="startup")):
                with self.subTest(root):
                    self.assertEqual(self.hook(event), "")
            self.assertEqual(self.hook(b"garbage"), "")
        self.assertFalse((self.folder / "none").exists())

    def test_an_empty_root_stays_empty(self) -> None:
        self.root = self.folder / "empty"
        self.root.mkdir()

        self.assertEqual((self.hook(self.ask()), self.begin()), ("", ""))
        self.assertEqual(os.listdir(self.root), [])
        self.hook(b"")
        self.assertTrue(am.AgentMemory(self.root).exists())    # hook.log makes it nobody else's

    def test_a_store_that_somebody_is_writing_to_is_answered_from(self) -> None:
        with open(self.root / ".lock", "a") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            began = time.monotonic()

            self.assertIn(self.port.id, self.hook(self.ask()))
            self.assertLess(time.monotonic() - began, 2)

    def test_what_waits_for_another_process_is_given_up_in_time(self) -> None:
        (self.root / "config.yaml").write_text("context:\n  seconds: 0.5\n", "utf-8")
        page = next((self.root / "store").glob("*.md"))
        page.write_text(page.read_text("utf-8").replace("6379", "6380"), "utf-8")
        with open(self.root / ".lock", "a") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            began = time.monotonic()

            self.assertIn("6379", self.hook(self.ask()))       # the edit is not taken in, and all else goes on
            self.assertLess(time.monotonic() - began, 3)

    def test_an_answer_that_came_too_late_has_the_cache_made_anew(self) -> None:
        self.memory.import_rows([json.dumps({"text": f"service {n} listens on port {8000 + n}"}) for n in range(300)], merge=False)
        shutil.rmtree(self.root / "cache")
        (self.root / "config.yaml").write_text("context:\n  seconds: 0.001\n", "utf-8")
        self.hook(self.ask())
        end = time.monotonic() + 60
        while not (self.root / "cache" / "segments.json").exists() and time.monotonic() < end:
            time.sleep(0.1)

        self.assertTrue((self.root / "cache" / "segments.json").exists())

    def test_files_that_hang_one_after_the_other(self) -> None:
        (self.root / "config.yaml").write_text("context:\n  seconds: 0.5\n", "utf-8")
        os.mkfifo(self.root / ".hooks_state.json")             # each read of it waits, and one that is stopped goes on without it
        began = time.monotonic()

        self.hook(self.ask())

        self.assertLess(time.monotonic() - began, 4)

    def test_a_python_that_leaves_the_folder_of_a_script_out(self) -> None:
        for options, more in ((["-I"], {}), ([], {"PYTHONSAFEPATH": "1"})):
            with self.subTest(options):
                done = subprocess.run([sys.executable, *options, str(HERE / "agent_memory.py"), "hook", "--root", str(self.root)],
                                      input=json.dumps(self.ask()).encode(), capture_output=True, timeout=30,
                                      env=self.environment(**more) | {"PYTHONPATH": ""}, cwd=self.folder)
                self.assertIn(self.port.id, done.stdout.decode())
                (self.root / ".hooks_state.json").unlink()

    def test_standard_input_that_hangs(self) -> None:
        (self.root / "config.yaml").write_text("context:\n  seconds: 0.5\n", "utf-8")
        for sent, told in ((b"", False), (b'{"hook_event_name": "User', False), (json.dumps(self.ask()).encode(), True)):
            with self.subTest(sent[:20]), subprocess.Popen(self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                           env=self.environment(), cwd=self.folder) as process:
                assert process.stdin and process.stdout
                process.stdin.write(sent)
                process.stdin.flush()                          # and never closed
                self.assertEqual((process.wait(10), bool(process.stdout.read())), (0, told))
        self.assertIn("longer than 0.5 s", self.log())

    def test_standard_input_that_is_closed(self) -> None:
        done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *self.command()], capture_output=True, cwd=self.folder,
                              env=self.environment(), timeout=30)

        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))

    def test_while_a_digest_runs_a_hook_does_nothing_at_all(self) -> None:
        before = self.files()
        for sent in (self.ask(), self.event("SessionStart"), b"garbage"):
            self.assertEqual(self.hook(sent, **{auto_sediment.GUARD: "1"}), "")

        self.assertEqual((self.files(), hooks.GUARD), (before, auto_sediment.GUARD))


class Captured(Hooked):
    """The end of a turn or a session has its log digested by a process of its own; the hook itself remembers nothing."""

    @classmethod
    def setUpClass(cls) -> None:
        """A copy of the project whose auto_sediment tells what it was asked for, and takes its time."""
        cls.code = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        shutil.copy(HERE / "agent_memory.py", cls.code)
        shutil.copytree(HERE / "agent_memory_extras", cls.code / "agent_memory_extras")
        (cls.code / "auto_sediment.py").write_text("""\
import json, os, sys, time
root = sys.argv[sys.argv.index("--root") + 1]
out = os.path.join(os.path.dirname(root), "asked")
said = {"argv": sys.argv[1:], "cwd": os.getcwd(), "session": os.getsid(0) == os.getpid(), "stdin": sys.stdin.read(),
        "open": [fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}")]}
print("this goes nowhere")
print("a line of trouble", file=sys.stderr, flush=True)
with open(out, "a") as file:
    file.write(json.dumps(said) + "\\n")
time.sleep(float(os.environ.get("SLOW", "0")))
open(out + ".done", "w").close()
""", "utf-8")

    def setUp(self) -> None:
        super().setUp()
        self.transcript = self.folder / "s1.jsonl"
        self.transcript.write_text('{"type": "user"}\n', "utf-8")
        self.memory.remember("the cache listens on port 6379", "preference")

    def asked(self, times: int) -> list[dict[str, Any]]:
        """What the digest was asked for, once that was so many times."""
        place, until = self.folder / "asked", time.monotonic() + 10
        lines: list[str] = []
        while len(lines) < times and time.monotonic() < until:
            time.sleep(0.02)
            lines = place.read_text("utf-8").splitlines() if place.exists() else []
        time.sleep(0 if times else 0.5)
        lines = place.read_text("utf-8").splitlines() if place.exists() else []
        self.assertEqual(len(lines), times)
        return [json.loads(line) for line in lines]

    def ended(self, name: str, path: object = None, **more: Any) -> None:
        self.assertEqual(self.hook(self.event(name, transcript_path=str(path or self.transcript), **more)), "")

    def test_it_runs_detached_and_the_hook_does_not_wait_for_it(self) -> None:
        event = self.event("SessionEnd", transcript_path=str(self.transcript))
        self.hook(event, SLOW="3")
        said, = self.asked(1)

        self.assertFalse((self.folder / "asked.done").exists())
        self.assertEqual(said["argv"], ["--session", str(self.transcript), "--apply", "--quiet", "--root", str(self.root)])
        self.assertEqual((said["cwd"], said["session"], said["stdin"]), ("/", True, ""))
        self.assertLessEqual(len(said["open"]), 1)             # its own look at /proc
        self.assertIn("a line of trouble", self.log())

    def test_a_turn_is_digested_once_in_a_while_an_end_always(self) -> None:
        for name in ("Stop", "Stop", "AfterAgent", "on_session_end"):
            self.ended(name)
        self.asked(1)
        for name in ("SessionEnd", "PreCompact", "PreCompress", "SessionEnd"):
            self.ended(name)
        self.asked(5)
        self.ended("Stop")
        other = self.folder / "s2.jsonl"
        other.write_text("{}\n", "utf-8")
        self.ended("Stop", other)
        self.asked(6)

    def test_the_while_is_a_setting(self) -> None:
        (self.root / "config.yaml").write_text("context:\n  debounce: 1\n", "utf-8")
        self.ended("Stop")
        time.sleep(1.1)
        self.ended("Stop")
        self.asked(2)

    def test_only_a_file_that_is_there_is_digested(self) -> None:
        os.mkfifo(self.folder / "pipe")
        for path in ("", "s1.jsonl", "-", self.folder, self.folder / "pipe", self.folder / "none.jsonl", "/dev/null", "\0", "~"):
            with self.subTest(path):
                self.assertEqual(self.hook(self.event("SessionEnd", transcript_path=str(path))), "")
        for path in (None, 7, [str(self.transcript)]):
            with self.subTest(path):
                self.assertEqual(self.hook(self.event("SessionEnd", transcript_path=path)), "")
        self.asked(0)
        self.assertEqual(self.log(), "")

    def test_a_path_may_begin_at_home(self) -> None:
        (self.work / "s.jsonl").write_text("{}\n", "utf-8")
        self.ended("SessionEnd", "~/shop/s.jsonl")

        self.assertEqual(self.asked(1)[0]["argv"][1], str(self.work / "s.jsonl"))

    def test_sub_agents_and_digests_of_our_own_are_not(self) -> None:
        self.ended("SubagentStop")
        self.hook(self.event("SessionEnd", transcript_path=str(self.transcript)), **{auto_sediment.GUARD: "1"})
        self.asked(0)

    def test_nothing_is_remembered_by_the_hook(self) -> None:
        before = (self.root / "index.json").read_bytes(), sorted(os.listdir(self.root / "store"))
        self.ended("Stop", last_assistant_message="决定：使用 PostgreSQL 16 作为数据库。")
        self.asked(1)

        self.assertEqual(((self.root / "index.json").read_bytes(), sorted(os.listdir(self.root / "store"))), before)

    def notify(self, words: object, home: Path) -> None:
        text = words if isinstance(words, str) else json.dumps(words)
        self.assertEqual(self.hook(b"", "--codex-notify", text, CODEX_HOME=str(home)), "")

    def test_codex_notifies_of_a_thread(self) -> None:
        home, thread = self.folder / "codex[1]", "01a228b0-c101-7842-8d12-564a92fc4969"
        day = home / "sessions" / "2026" / "11" / "29"
        day.mkdir(parents=True)
        turn = {"type": "agent-turn-complete", "thread-id": thread, "cwd": str(self.work)}
        self.notify(turn, home)
        for word in ("{", "[]", "", turn | {"type": "other"}, turn | {"thread-id": "*"}, turn | {"thread-id": "../../x"}, {}):
            with self.subTest(word):
                self.notify(word, home)
        self.asked(0)
        packed = day / f"rollout-2026-11-29T18-30-39-{thread}.jsonl.zst"
        packed.write_bytes(b"\x28\xb5\x2f\xfd")
        self.notify(turn, home)
        plain = packed.with_suffix("")
        plain.write_text("{}\n", "utf-8")
        self.notify(turn, home)
        self.notify(turn, home)

        self.assertEqual([said["argv"][1] for said in self.asked(2)], [str(packed), str(plain)])

    def test_the_notification_of_a_real_codex(self) -> None:
        if not CAPTURED.is_dir():
            self.skipTest("no captured events here")
        text = (CAPTURED / "codex-notify.json").read_text("utf-8").strip()
        day = self.folder / "codex" / "sessions" / "2026" / "11" / "30"
        day.mkdir(parents=True)
        (day / f"rollout-x-{json.loads(text)['thread-id']}.jsonl").write_text("{}\n", "utf-8")
        self.notify(text, self.folder / "codex")
        self.asked(1)

    def test_hermes_may_keep_a_log_of_a_session(self) -> None:
        log = self.folder / "hermes" / "sessions" / "session_20261129_185106_0ccd16.json"
        log.parent.mkdir(parents=True)
        log.write_text("{}", "utf-8")
        for session in ("20261129_185106_0ccd16", "none", "../session_20261129_185106_0ccd16"):
            event = {"hook_event_name": "on_session_end", "session_id": session, "cwd": "/", "extra": {}}
            self.assertEqual(self.hook(event, HERMES_HOME=str(self.folder / "hermes")), "")

        self.assertEqual(self.asked(1)[0]["argv"][1], str(log))

    def test_what_digests_write_into_the_log_is_bounded_too(self) -> None:
        (self.root / "hook.log").write_bytes(b"a caf\xe9 of another encoding\n" * 10_000)
        self.ended("SessionEnd")
        self.asked(1)

        self.assertLess((self.root / "hook.log").stat().st_size, hooks.LOG)
        self.assertIn("a line of trouble", self.log().splitlines()[-1])

    def test_without_auto_sediment_the_reason_is_told(self) -> None:
        (self.code / "auto_sediment.py").rename(self.code / "away.py")
        self.addCleanup((self.code / "away.py").rename, self.code / "auto_sediment.py")
        self.ended("SessionEnd")

        self.assertIn("auto_sediment.py is not beside", self.log())


class Projects(unittest.TestCase):
    """A session belongs to the project of the folder it runs in."""

    def test_the_nearest_folder_with_a_git_names_it_else_its_own_name(self) -> None:
        home = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        for folder in (".git", "shop/.git", "shop/src/deep", "notes/today", "tree"):
            (home / folder).mkdir(parents=True)
        (home / "tree" / ".git").write_text("gitdir: elsewhere\n")
        (home / "fix").mkdir()
        (home / "fix" / ".git").write_text(f"gitdir: {home}/shop/.git/worktrees/fix\n")
        (home / "shop" / "inner").mkdir()
        (home / "shop" / "inner" / ".git").write_text("gitdir: ../.git/worktrees/inner\n")
        before = os.environ.get("HOME")
        os.environ["HOME"] = str(home)
        self.addCleanup(os.environ.pop, "HOME") if before is None else self.addCleanup(os.environ.update, HOME=before)
        for cwd, project in (("shop", "shop"), ("shop/src/deep", "shop"), ("shop/", "shop"), ("notes/today", "today"),
                             ("gone/away", "away"), ("tree", "tree"), ("fix", "shop"), ("shop/inner", "shop"), ("", None),
                             (".", None)):
            with self.subTest(cwd):
                self.assertEqual(am.project_of(f"{home}/{cwd}"), project)
        for cwd in ("", "/", "//", "shop", "C:\\shop"):
            with self.subTest(cwd):
                self.assertIsNone(am.project_of(cwd))


if __name__ == "__main__":
    unittest.main()
