"""Conversations that are no JSON lines of an agent: documents, transcripts, exports and databases.

    python3 -m unittest tests.test_transcripts
"""
from __future__ import annotations

import contextlib
import io
import json
import os
import sqlite3
import sys
import tempfile
import tracemalloc
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

import agent_memory as am  # noqa: E402  the module beside this folder, installed or not
import auto_sediment as sediment  # noqa: E402

LOGS = HERE.parent / "shared" / "sessions"
DAY = 1795910400_000                       # 2026-11-29, in milliseconds
BOM = b"\xef\xbb\xbf"


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def assistant(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def text(words: Any, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def sessions_in(path: str) -> list[str]:
    """The names of the sessions in a file; "" for one that is a session itself."""
    return [session.path.removeprefix(path).removeprefix("#") for session in sediment.read_sessions(path)]


def found(agent: str) -> list[tuple[str, str, int, int]]:
    """The sessions of an agent where it keeps them."""
    return [(held.path, held.session, held.changed, held.size) for held in sediment.AGENTS[agent].found()]


class Folder(unittest.TestCase):
    """A folder that is the home, with a data root in it, and an environment that holds nothing else."""

    maxDiff = None

    def setUp(self) -> None:
        self.home = Path(self.enterContext(tempfile.TemporaryDirectory()))
        bare = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.home), "LC_ALL": "C.UTF-8"}
        self.enterContext(mock.patch.dict(os.environ, bare, clear=True))

    def file(self, content: Any, name: str = "chat.json") -> str:
        """Write bytes and text as they are, a list of records as lines when the name says so, anything else as JSON."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("l") and isinstance(content, list):
            content = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in content)
        if not isinstance(content, (bytes, str)):
            content = json.dumps(content, ensure_ascii=False)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    def turns(self, content: Any, name: str = "chat.json") -> list[tuple[str, str]]:
        return self.said(sediment.read_session(self.file(content, name)))

    def said(self, session: sediment.Session) -> list[tuple[str, str]]:
        return [(turn.role, turn.text) for turn in session.turns]

    def run_it(self, *words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = sediment.main(["--root", str(self.home / "memory"), *words])
        return code, out.getvalue(), err.getvalue()

    def kept(self) -> list[str]:
        index = self.home / "memory" / "index.json"
        return [row["content"] for row in json.loads(index.read_text("utf-8"))] if index.exists() else []


class Documents(Folder):
    """A file that is one JSON document is read like the lines it could have been."""

    TALK = [user("a"), assistant("b")]

    def test_an_object_an_array_and_lines_tell_the_same(self) -> None:
        share = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
        for name, content in {"object.json": {"model": "m", "messages": self.TALK}, "array.json": self.TALK,
                              "lines.jsonl": self.TALK, "rows.jsonl": [{"messages": [user("a")]}, {"messages": [assistant("b")]}],
                              "rows.json": [{"messages": [user("a")]}, {"messages": [assistant("b")]}],
                              "share.json": [{"id": "x", "conversations": share}], "share-object.json": {"conversations": share},
                              "share.jsonl": [{"conversations": share[:1]}, {"conversations": share[1:]}]}.items():
            with self.subTest(name):
                self.assertEqual(self.turns(content, name), [("user", "a"), ("assistant", "b")])

    def test_however_it_is_printed(self) -> None:
        for content in (self.TALK, {"messages": self.TALK}):
            for how, written in {"pretty": json.dumps(content, indent=2).encode(),
                                 "after a BOM": BOM + json.dumps(content).encode(),
                                 "pretty after a BOM": BOM + json.dumps(content, indent=1).encode(),
                                 "with CRLF": json.dumps(content, indent=2).replace("\n", "\r\n").encode(),
                                 "after blank lines": b"\n \n" + json.dumps(content, indent=2).encode() + b"\n\n",
                                 "a message a line": ("[\n" + ",\n".join(map(json.dumps, self.TALK)) + "\n]").encode()}.items():
                with self.subTest(how):
                    self.assertEqual(self.turns(written), [("user", "a"), ("assistant", "b")])

    def test_only_people_and_the_assistant_are_heard(self) -> None:
        for skipped in ({"role": "system", "content": "决定：x"}, {"role": "tool", "content": "决定：x"},
                        {"role": "developer", "content": "决定：x"}, assistant(None, tool_calls=[{"id": "1"}]),
                        assistant("", reasoning_content="决定：x"), assistant([{"type": "thinking", "thinking": "决定：x"}]),
                        user([{"type": "tool_result", "content": "决定：x"}]), user([{"type": "image_url", "image_url": {}}])):
            with self.subTest(skipped):
                self.assertEqual(self.turns([user("a"), skipped]), [("user", "a")])

    def test_wrong_types_anywhere_stop_nothing(self) -> None:
        odd = [None, 7, 1e400, "x", True, [], {}, [None], [7], [[]], {"a": []}, [{"type": "text"}], [{"text": 7, "type": "text"}]]
        shapes = [lambda value: value, lambda value: user(value), lambda value: {"role": value, "content": "決"},
                  lambda value: {"conversations": [value, {"from": value, "value": value}]},
                  lambda value: {"role": "user", "message": value}, lambda value: {"role": "user", "message": {"content": value}},
                  lambda value: {"messages": [value, user(value)]},
                  lambda value: {"mapping": {"n": value}, "current_node": value},
                  lambda value: {"mapping": {"n": {"message": value, "parent": value}}, "current_node": "n"},
                  lambda value: {"mapping": {"n": {"message": {"author": value, "content": value, "metadata": value,
                                                               "create_time": value, "recipient": value}}}},
                  lambda value: {"mapping": {"n": {"message": {"content": {"content_type": "text", "parts": value}}}}, "id": value},
                  lambda value: {"info": {"id": value, "revert": value}, "messages": value},
                  lambda value: {"info": {}, "messages": [{"info": value, "parts": value}, {"info": user("", time=value)}]},
                  lambda value: {"id": value, "source": value, "model_config": value, "messages": value},
                  lambda value: {"id": "1", "source": "cli", "messages": [
                      value, user(value, id=value, timestamp=value, active=value, compacted=value, observed=value)]},
                  lambda value: {"transcript": value}, lambda value: {"transcript": [user(value)]}]
        for shape in shapes:
            for value in odd:
                for content in (shape(value), [shape(value)], [shape(value), user("end")]):
                    for name in ("odd.json", "odd.jsonl"):
                        with self.subTest(content), contextlib.suppress(am.LogUnreadable):
                            path = self.file(content, name)
                            sessions_in(path)
                            for session in sediment.read_sessions(path):
                                self.assertTrue(all(isinstance(turn.text, str) for turn in session.turns))

    def test_results_within_results_end_somewhere(self) -> None:
        content: Any = "x"
        for _ in range(5_000):
            content = [{"type": "tool-result", "content": content}]

        self.assertEqual(sediment.wording(content), "")

    def test_a_long_line_of_json_lines_costs_no_more_than_itself(self) -> None:
        image = {"type": "image", "source": {"data": "A" * 5_000_000}}
        path = self.file([user("before"), user([image, text("beside")]), *([user("after")] * 2000)], "chat.jsonl")
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        session = sediment.read_session(path)

        self.assertEqual([turn.text for turn in session.turns[:3]], ["before", "beside", "after"])
        self.assertLess(tracemalloc.get_traced_memory()[1], 25_000_000)

    def test_a_separator_of_unicode_ends_no_line(self) -> None:
        self.assertEqual(self.turns([user("a\u2028b\u0085c")], "chat.jsonl"), [("user", "a\u2028b\u0085c")])
        self.assertEqual(self.turns("User: a\u2028Assistant: b", "chat.txt"), [("user", "a\u2028Assistant: b")])


class Transcripts(Folder):
    """A text in which lines begin with the name of who speaks is a conversation."""

    def test_the_ways_to_name_a_speaker(self) -> None:
        for label, role in [
                ("用户：", "user"), ("用户:", "user"), ("助手：", "assistant"), ("助手: ", "assistant"), ("User:", "user"),
                ("USER: ", "user"), ("User：", "user"), ("User : ", "user"), ("Human: ", "user"), ("Assistant: ", "assistant"),
                ("AI: ", "assistant"), ("AI：", "assistant"), ("**User:** ", "user"), ("**User**: ", "user"),
                ("**用户：**", "user"),
                ("__Assistant:__ ", "assistant"), ("**assistant**\n", "assistant"), ("## User\n", "user"), ("## User\n\n", "user"),
                ("### 用户\n", "user"), ("# Assistant:\n", "assistant"), ("## **Human**\n", "user"), ("## 🧑 User\n", "user"),
                ("## user (10:24)\n", "user"), ("###### AI\n", "assistant")]:
            with self.subTest(label):
                self.assertEqual(self.turns(f"# Session\n\n{label}words\nmore", "chat.md"), [(role, "words\nmore")])

    def test_what_only_looks_like_a_speaker_is_text(self) -> None:
        for line in ("user: root", "  User: x", "> User: x", "Users: x", "The User: x", "User x", "## User guide", "**User** x",
                     "AI 是什么", "##User", "用户组：x", "- User: x", "**Users:** x"):
            with self.subTest(line):
                self.assertEqual(self.turns(f"User: a\n{line}\nb", "chat.md"), [("user", f"a\n{line}\nb")])

    def test_a_turn_of_many_lines_is_one_turn(self) -> None:                     # 48
        written = "用户：决定：使用 Redis。\n\n第二行仍是用户。\n助手：收到。\n用户: 偏好：深色\n"
        self.assertEqual(self.turns(written, "chat.txt"),
                         [("user", "决定：使用 Redis。\n\n第二行仍是用户。"), ("assistant", "收到。"), ("user", "偏好：深色")])

    def test_a_speaker_inside_a_fence_is_text(self) -> None:                     # 49
        for fence in ("```\nUser: x\n```", "```text\n## User\nUser: x\n```", "~~~\nAssistant: x\n~~~",
                      "````\n```\nUser: x\n```\n````", "  ```\n  x\nUser: x\n  ```", "```\nUser: x\n~~~\nUser: y\n```",
                      "```\nUser: x\n``` no end\nUser: y\n```"):
            with self.subTest(fence):
                self.assertEqual(self.turns(f"User: see\n{fence}\nAssistant: ok", "chat.md"),
                                 [("user", f"see\n{fence}"), ("assistant", "ok")])

    def test_what_only_looks_like_a_fence_hides_nobody(self) -> None:
        self.assertEqual(self.turns("User: ```code``` is\n```so``` is\nAssistant: ok", "chat.md"),
                         [("user", "```code``` is\n```so``` is"), ("assistant", "ok")])
        self.assertEqual(self.turns("User: ```\nAssistant: x\n```\nAssistant: ok", "chat.md"),
                         [("user", "```\nAssistant: x\n```"), ("assistant", "ok")])

    def test_a_bom_and_crlf_are_no_part_of_it(self) -> None:                     # 50
        written = BOM + "用户：带 BOM\r\n第二行\r\n助手：CRLF 行尾\r\n".encode()
        self.assertEqual(self.turns(written, "chat.txt"), [("user", "带 BOM\n第二行"), ("assistant", "CRLF 行尾")])

    def test_tools_and_the_system_are_not_heard(self) -> None:                   # 51
        for label in ("System: ", "Tool: ", "系统：", "工具：", "## Tool\n", "**System:** "):
            with self.subTest(label):
                self.assertEqual(self.turns(f"User: a\n{label}决定：x\n决定：y\nAssistant: b", "chat.txt"),
                                 [("user", "a"), ("assistant", "b")])

    def test_rules_between_turns_are_no_part_of_them(self) -> None:
        written = "## User\n\na\n\n---\n\n## Assistant\n\nb\n\n***\n"
        self.assertEqual(self.turns(written, "chat.md"), [("user", "a"), ("assistant", "b")])

    def test_injected_blocks_are_cut_out(self) -> None:
        self.assertEqual(self.turns("User: a <system-reminder>决定：x</system-reminder>\nAssistant: b", "chat.txt"),
                         [("user", "a"), ("assistant", "b")])

    def test_a_text_that_begins_like_json_is_still_a_text(self) -> None:
        self.assertEqual(self.turns("[Session of today]\nUser: a", "chat.txt"), [("user", "a")])

    def test_a_long_line_of_anything_takes_linear_time(self) -> None:
        for line in ("# " + " " * 1_000_000, "**" * 500_000, "`" * 1_000_000, "~" * 1_000_000 + "x", "用户" * 300_000,
                     "-" * 1_000_000, "**User" + " " * 1_000_000, "## User" + "!" * 1_000_000):
            with self.subTest(line[:9]):
                self.assertEqual(len(self.turns(f"User: a\n{line}\nb", "chat.md")), 1)


class Exports(Folder):
    """The exports and histories of other programs give the turns that a person saw."""

    def node(self, role: str, *parts: Any, parent: Any = None, at: Any = 1, kind: str = "text", **more: Any) -> dict[str, Any]:
        return {"parent": parent, "message": {"id": f"m{at}", "author": {"role": role}, "create_time": at,
                                              "content": {"content_type": kind, "parts": list(parts)}, **more}}

    def test_chatgpt_shows_the_branch_that_ends_at_the_current_node(self) -> None:
        tree = {"root": {"parent": None, "message": None}, "a": self.node("user", "first", parent="root"),
                "b": self.node("assistant", "old", parent="a", at=2), "c": self.node("assistant", "new", parent="a", at=3),
                "d": self.node("user", "then", parent="c", at=4)}
        for current, expected in [("d", ["first", "new", "then"]), ("b", ["first", "old"]),
                                  ("gone", ["first", "old", "new", "then"]), (None, ["first", "old", "new", "then"])]:
            with self.subTest(current):
                session = sediment.read_session(self.file([{"id": "c1", "mapping": tree, "current_node": current}]))
                self.assertEqual([turn.text for turn in session.turns], expected)
                self.assertEqual((session.agent, session.session, session.turns[0].at, session.turns[0].key),
                                 ("chatgpt", "c1", "1970-01-01T00:00:01+00:00", "m1"))

    def test_chatgpt_hides_what_was_hidden(self) -> None:
        for hidden in (self.node("system", "x"), self.node("tool", "x"), self.node("assistant", "x", kind="thoughts"),
                       self.node("user", "x", kind="user_editable_context"), self.node("assistant", "x", kind="code"),
                       self.node("assistant", "x", recipient="python"),
                       self.node("user", "x", metadata={"is_visually_hidden_from_conversation": True})):
            with self.subTest(hidden):
                tree = {"a": self.node("user", "a", {"asset_pointer": "file"}, parent="h", kind="multimodal_text"), "h": hidden}
                self.assertEqual(self.turns([{"mapping": tree, "current_node": "a"}]), [("user", "a")])

    def test_a_ring_of_parents_ends(self) -> None:
        tree = {"a": self.node("user", "a", parent="b"), "b": self.node("assistant", "b", parent="a")}
        self.assertEqual(self.turns([{"mapping": tree, "current_node": "a"}]), [("assistant", "b"), ("user", "a")])

    def test_cursor_transcripts_give_what_was_typed(self) -> None:
        typed = "<open_files>决定：x</open_files>\n<user_query>\n用 A\n</user_query>"
        lines = [{"role": "user", "message": {"content": [text(typed)]}},
                 {"role": "assistant", "message": {"content": [text("ok"), {"type": "tool_use", "name": "Shell"}]}},
                 {"type": "turn_ended"}, {"role": "user", "message": {"content": [text("plain")]}}]
        session = sediment.read_session(self.file(lines, "agent-transcripts/u/u.jsonl"))

        self.assertEqual(self.said(session), [("user", "用 A"), ("assistant", "ok"), ("user", "plain")])
        self.assertEqual((session.agent, session.subagent), ("cursor", False))

    def test_a_transcript_below_subagents_is_a_sub_agents(self) -> None:
        path = self.file([{"role": "user", "message": {"content": [text("do")]}}], "agent-transcripts/u/subagents/v.jsonl")
        self.assertTrue(sediment.read_session(path).subagent)

    def test_cline_keeps_the_task_and_the_feedback(self) -> None:
        around = text("<environment_details>\n决定：x\n</environment_details>")
        feedback = "The user has provided feedback.\n<feedback>\n改用 B\n</feedback>"
        talk = [user([text("<task>\n用 A\n</task>"), around]),
                assistant([text("<thinking>决定：x</thinking>\nLook.\n"), {"type": "tool_use"}]),
                user([text("[read_file for 'a.md'] Result:"), text("决定：x"), around]),
                user("[ERROR] You did not use a tool"),
                user([text("[attempt_completion] Result:"), text(feedback), around]),
                user([{"type": "tool_result", "content": [text("决定：x")]}, around]),
                user([text("and so on"), around])]
        self.assertEqual(self.turns(talk), [("user", "用 A"), ("assistant", "Look."), ("user", "改用 B"), ("user", "and so on")])

    def test_an_export_of_opencode_gives_what_was_typed(self) -> None:
        session = sediment.read_session(self.file({"info": {"id": "ses_1", "directory": "/p", "time": {"created": 5}}, "messages": [
            {"info": {"id": "msg_1", "role": "user", "summary": {"diffs": []}, "time": {"created": 1795978122592}},
             "parts": [text("用 A"), text("file", synthetic=True), text("x", ignored=True), {"type": "file", "url": "data:"}]},
            {"info": {"id": "msg_2", "role": "assistant"},
             "parts": [{"type": "reasoning", "text": "x"}, {"type": "tool"}, text("好")]},
            {"info": {"id": "msg_3", "role": "assistant", "summary": True}, "parts": [text("so far")]}]}))

        self.assertEqual(self.said(session), [("user", "用 A"), ("assistant", "好")])
        self.assertEqual((session.agent, session.session, session.cwd, session.turns[0].at, session.turns[0].key),
                         ("opencode", "ses_1", "/p", "2026-11-29T18:48:42+00:00", "msg_1"))

    def test_a_snapshot_of_hermes_is_one_session(self) -> None:
        path = self.file({"session_id": "h1", "session_start": "2026-11-29T18:48:21", "model_config": {"cwd": "/p"},
                          "messages": [user("a"), assistant("b", reasoning="x"), {"role": "tool", "content": "x"},
                                       {"role": "session_meta"}]})
        session = sediment.read_session(path)

        self.assertEqual((session.agent, session.session, session.cwd, self.said(session)),
                         ("hermes", "h1", "/p", [("user", "a"), ("assistant", "b")]))
        self.assertEqual((session.path, sessions_in(path)), (path, [""]))


class Many(Folder):
    """A file of many sessions is read session by session, oldest first."""

    def export(self) -> str:
        return self.file([{"id": id, "source": source, "parent_session_id": parent, "cwd": "/p", "messages": [
            user(words, id=at, timestamp=at, active=1, compacted=0)]} for id, source, parent, at, words in (
                ("new", "cli", "old", 30, "决定：三"), ("old", "cli", None, 10, "决定：一"),
                ("sub", "tool", "old", 20, "决定：二"))],
            "export.jsonl")

    def chats(self, *names: str) -> str:
        return self.file([{"conversation_id": name, "current_node": "n", "mapping": {"n": {"message": {
            "author": {"role": "user"}, "create_time": 100 - at, "content": {"content_type": "text", "parts": [f"决定：{name}"]}}}}}
            for at, name in enumerate(names)], "conversations.json")

    def test_each_is_named_and_can_be_read_alone(self) -> None:
        path = self.export()

        self.assertEqual(sessions_in(path), ["old", "sub", "new"])
        session = sediment.read_session(path, session="new")
        self.assertEqual((session.path, session.session, session.parents, session.cwd), (f"{path}#new", "new", ("old",), "/p"))
        self.assertEqual(self.said(session), [("user", "决定：三")])
        self.assertEqual([session.turns[0].key, session.subagent], ["new:30", False])
        with self.assertRaisesRegex(am.LogUnreadable, "no session gone"):
            sediment.read_session(path, session="gone")

    def test_a_named_file_is_read_whole_without_its_sub_agents(self) -> None:
        code, _, err = self.run_it("--apply", "--file", self.export())

        self.assertEqual((code, self.kept()), (0, ["决定：一", "决定：三"]))
        self.assertIn("export.jsonl#new: 1 new turns of 1", err)
        self.run_it("--apply", "--include-subagents", "--file", self.export())
        self.assertEqual(self.kept(), ["决定：一", "决定：三", "决定：二"])

    def test_a_second_reading_adds_nothing(self) -> None:
        path = self.chats("A", "B", "C")
        self.run_it("--apply", "--file", path)
        before = (self.home / "memory" / "index.json").read_bytes()
        self.run_it("--apply", "--file", path)

        self.assertEqual(self.kept(), ["决定：C", "决定：B", "决定：A"])
        self.assertEqual((self.home / "memory" / "index.json").read_bytes(), before)

    def test_any_name_will_do(self) -> None:
        names = ["", "a/b", "../../x", "lone \ud800", "nul\0", "x" * 5000, "line\nfeed", 7, None, ["x"]]
        chats = [{"id": name, "mapping": {"n": {"message": {"author": {"role": "user"}, "content": {
            "content_type": "text", "parts": [f"决定：用 A{at}"]}}}}} for at, name in enumerate(names)]
        code, _, err = self.run_it("--apply", "--file", self.file(json.dumps(chats)))

        self.assertEqual((code, len(self.kept()), "Traceback" in err), (0, len(names), False))

    def test_an_export_of_one_conversation_is_one_session(self) -> None:
        self.assertEqual(sessions_in(self.chats("A")), [""])

    def test_a_file_that_is_one_conversation_has_no_name_inside(self) -> None:
        for content, name in [("User: a", "a.md"), ([user("a")], "a.jsonl"), ([user("a")], "a.json")]:
            with self.subTest(name):
                self.assertEqual(sessions_in(self.file(content, name)), [""])

    def test_a_bad_line_among_them_is_told_of_once(self) -> None:
        path = Path(self.export())
        path.write_bytes(b"\n".join([*path.read_bytes().splitlines(), b"not json", b'{"neither": 1}', b""]))

        self.assertEqual([session.bad for session in sediment.read_sessions(str(path))], [2, 0, 0])


class Bases(Folder):
    """Small databases with the tables of OpenCode and of Hermes."""

    def base(self, name: str, script: str, **tables: list[tuple[Any, ...]]) -> Path:
        """A database of these tables."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(sqlite3.connect(path)) as base:
            base.executescript(script)
            for table, rows in tables.items():
                base.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
            base.commit()
        return path

    HERMES = """PRAGMA journal_mode = wal;
        CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, parent_session_id TEXT, started_at REAL, ended_at REAL, cwd TEXT,
                               model_config TEXT, archived INTEGER);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp REAL, observed INTEGER,
                               active INTEGER, compacted INTEGER, api_content TEXT);"""

    def hermes(self, *messages: tuple[Any, ...], session: tuple[Any, ...] = ("h1", "cli", None, 5, None, "/p", "{}", 0),
               name: str = ".hermes/state.db") -> Path:
        """A state.db of one session and of messages (role, content, active, compacted)."""
        return self.base(name, self.HERMES, sessions=[session], messages=[
            (at, session[0], role, content, at, 0, active, compacted, "<memory-context>决定：x</memory-context>")
            for at, (role, content, active, compacted) in enumerate(messages, 10)])

    OPENCODE = """PRAGMA journal_mode = wal;
        CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT, revert TEXT, time_created INTEGER,
                              time_updated INTEGER, time_archived INTEGER);
        CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
        CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);"""

    def opencode(self, revert: Any = None) -> Path:
        def message(id: str, session: str, at: int, role: str, **more: Any) -> tuple[Any, ...]:
            return id, session, DAY + at, DAY + at, json.dumps({"role": role, "time": {"created": DAY + at}, **more})

        def part(id: str, message: str, **data: Any) -> tuple[Any, ...]:
            return id, message, "", json.dumps(data)

        return self.base(".local/share/opencode/opencode.db", self.OPENCODE,
                         session=[("ses_2", None, "/p", "t", json.dumps(revert), 1, DAY + 9_000, None),
                                  ("ses_1", None, "/q", "t", None, 1, 2, None),
                                  ("ses_3", "ses_2", "/p", "t", None, 1, DAY + 3_000, None)],
                         message=[message("msg_1", "ses_2", 1_000, "user"), message("msg_2", "ses_2", 2_000, "assistant"),
                                  message("msg_3", "ses_2", 3_000, "assistant", summary=True),
                                  message("msg_4", "ses_2", 4_000, "user"), message("msg_5", "ses_1", 5_000, "user"),
                                  message("msg_6", "ses_3", 6_000, "user")],
                         part=[part("prt_1", "msg_1", **text("决定：用 A")), part("prt_2", "msg_1", **text("file", synthetic=True)),
                               part("prt_3", "msg_2", type="reasoning", text="x"), part("prt_4", "msg_2", **text("好")),
                               part("prt_5", "msg_2", type="tool", state={"output": "决定：x"}),
                               part("prt_6", "msg_3", **text("summary")),
                               part("prt_7", "msg_4", **text("决定：用 B")), part("prt_8", "msg_5", **text("决定：用 C")),
                               part("prt_9", "msg_6", **text("do it"))])


class Databases(Bases):
    """What OpenCode and Hermes keep in SQLite is read as it stands."""

    def test_hermes_packs_content_that_is_no_text(self) -> None:                 # 44
        packed = "\0json:" + json.dumps([text("看图"), {"type": "image_url"}])
        path = self.hermes(("user", packed, 1, 0), ("assistant", "\0json:{", 1, 0), ("assistant", "ok", 1, 0))
        self.assertEqual(self.said(sediment.read_session(str(path))), [("user", "看图"), ("assistant", "ok")])

    def test_hermes_forgets_the_rewound_and_keeps_the_compacted(self) -> None:   # 45
        path = self.hermes(("user", "rewound", 0, 0), ("user", "compacted", 0, 1),
                           ("user", "[CONTEXT COMPACTION — x] 决定：x", 1, 0), ("assistant", "[CONTEXT SUMMARY]: x", 1, 0),
                           ("tool", "决定：x", 1, 0), ("user", None, 1, 0), ("user", "live", 1, 0))
        session = sediment.read_session(str(path))

        self.assertEqual(self.said(session), [("user", "compacted"), ("user", "live")])
        self.assertEqual((session.agent, session.session, session.cwd, session.turns[0].at, session.turns[0].key),
                         ("hermes", "h1", "/p", "1970-01-01T00:00:11+00:00", "h1:11"))

    def test_hermes_tells_sub_agents_from_sessions_that_go_on(self) -> None:
        for number, (session, expected) in enumerate([
                (("h", "cli", "p", 5, None, "", "{}", 0), (False, ("p",))), (("h", "tool", "p", 5, None, "", "{}", 0), (True, ())),
                (("h", "cli", "p", 5, None, "", '{"_delegate_from": "p"}', 0), (True, ())),
                (("h", "cli", "p", 5, None, "", '{"_branched_from": "p"}', 0), (False, ("p",))),
                (("h", "cli", None, 5, None, "", "no json", 0), (False, ()))]):
            with self.subTest(session):
                read = sediment.read_session(str(self.hermes(("user", "a", 1, 0), session=session, name=f"{number}.db")))
                self.assertEqual((read.subagent, read.parents), expected)

    def test_columns_of_another_version_may_be_missing(self) -> None:
        path = self.base("state.db", "CREATE TABLE sessions (id TEXT); CREATE TABLE messages (id, session_id, role, content);",
                         sessions=[("h1",)],
                         messages=[(1, "h1", "user", "a"), (2, "h1", "assistant", b"\xff\xfe"), (3, "h1", "user", 7)])
        self.assertEqual(self.said(sediment.read_session(str(path))), [("user", "a")])

    def test_opencode_gives_what_was_typed(self) -> None:                        # 47
        path = str(self.opencode())
        sessions = {session.session: session for session in sediment.read_sessions(path)}

        second, first = sessions["ses_2"], sessions["ses_2"].turns[0]
        self.assertEqual(self.said(second), [("user", "决定：用 A"), ("assistant", "好"), ("user", "决定：用 B")])
        self.assertEqual([name for name, session in sessions.items() if session.subagent], ["ses_3"])
        self.assertEqual((second.cwd, first.at, first.key, second.path),
                         ("/p", "2026-11-29T00:00:01+00:00", "msg_1", f"{path}#ses_2"))

    def test_opencode_forgets_what_was_undone(self) -> None:
        path = str(self.opencode(revert={"messageID": "msg_4"}))
        self.assertEqual(len(sediment.read_session(path, session="ses_2").turns), 2)

    def test_all_of_a_named_database_is_read(self) -> None:
        code, _, err = self.run_it("--apply", "--file", str(self.opencode()))

        self.assertEqual((code, self.kept()), (0, ["决定：用 A", "决定：用 B", "决定：用 C"]))
        self.assertIn("opencode.db#ses_2: 3 new turns of 3", err)

    def test_what_is_found_is_listed_with_when_it_changed(self) -> None:
        path, state = str(self.opencode()), str(self.hermes(("user", "a", 1, 0)))

        self.assertEqual(found("opencode"), [
            (path, "ses_1", (DAY + 5_000) * 10 ** 6, 1), (path, "ses_3", (DAY + 6_000) * 10 ** 6, 1),
            (path, "ses_2", (DAY + 9_000) * 10 ** 6, 4)])
        self.assertEqual(found("hermes"), [(state, "h1", 10 * 10 ** 9, 1)])
        self.assertEqual(sorted(sessions_in(path)), ["ses_1", "ses_2", "ses_3"])

    def test_the_environment_moves_the_places(self) -> None:
        moved = {"XDG_DATA_HOME": str(self.home / "xdg"), "HERMES_HOME": str(self.home / "hh")}
        opencode, hermes = self.opencode(), self.hermes(("user", "a", 1, 0), name="hh/state.db")
        (self.home / "xdg").mkdir()
        opencode.parent.rename(self.home / "xdg" / "opencode")
        self.assertEqual((found("opencode"), found("hermes")), ([], []))
        with mock.patch.dict(os.environ, moved):
            self.assertEqual((len(found("opencode")), len(found("hermes"))), (3, 1))
        self.assertTrue(hermes.exists())

    def test_an_older_opencode_kept_a_tree(self) -> None:
        storage = ".local/share/opencode/storage"
        path = self.file({"id": "ses_1", "directory": "/p", "title": "t"}, f"{storage}/session/proj/ses_1.json")
        for id, role, at, words in (("msg_b", "user", 1, "决定：用 A"), ("msg_a", "assistant", 2, "好")):
            self.file({"id": id, "role": role, "time": {"created": at}}, f"{storage}/message/ses_1/{id}.json")
            self.file(text(words), f"{storage}/part/{id}/prt_1.json")
            self.file(text("x", synthetic=True), f"{storage}/part/{id}/prt_2.json")
        self.file(b"{", f"{storage}/message/ses_1/msg_c.json")
        [(held, name, _, _)] = found("opencode")
        session = sediment.read_session(held, session=name)

        self.assertEqual((held, session.path, session.agent, session.session, session.cwd, session.bad),
                         (path, path, "opencode", "ses_1", "/p", 1))
        self.assertEqual(self.said(session), [("user", "决定：用 A"), ("assistant", "好")])
        self.opencode()
        self.assertEqual({file for file, *_ in found("opencode")}, {str(self.home / ".local/share/opencode/opencode.db")})

    def test_snapshots_of_hermes_are_found_without_a_database(self) -> None:
        path = self.file({"session_id": "h1", "session_start": "", "messages": [user("a")]}, ".hermes/sessions/session_h1.json")
        self.assertEqual([(file, session) for file, session, _, _ in found("hermes")], [(path, "")])


class Etiquette(Bases):
    """Reading a database changes nothing beside it, and a lock is waited for and then reported."""

    def around(self, path: Path) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")} | {
            file.name: b"" for file in path.parent.iterdir()}

    def test_a_resting_database_gets_no_new_files(self) -> None:                 # 46
        path = self.hermes(("user", "a", 1, 0))
        before = self.around(path)
        session = sediment.read_session(str(path))

        self.assertEqual((list(before), len(session.turns), self.around(path)), (["state.db"], 1, before))

    def test_what_is_only_in_the_wal_is_read_while_it_is_written(self) -> None:
        path = self.hermes(("user", "a", 1, 0))
        with contextlib.closing(sqlite3.connect(path)) as writer:
            writer.execute("INSERT INTO messages SELECT 99, session_id, role, 'b', 99, 0, 1, 0, '' FROM messages")
            writer.commit()
            before = self.around(path)
            session = sediment.read_session(str(path))

            self.assertEqual([turn.text for turn in session.turns], ["a", "b"])
            self.assertEqual(self.around(path), before)
            self.assertIn("state.db-wal", before)

    def test_a_wal_left_by_a_crash_is_read_from_a_copy(self) -> None:
        path = self.hermes(("user", "a", 1, 0))
        with contextlib.closing(sqlite3.connect(path)) as writer:
            writer.execute("UPDATE messages SET content = 'b'")
            writer.commit()
            crashed = self.home / "crashed" / "state.db"
            crashed.parent.mkdir()
            for end in ("", "-wal"):
                Path(f"{crashed}{end}").write_bytes(Path(f"{path}{end}").read_bytes())
        before = self.around(crashed)
        session = sediment.read_session(str(crashed))

        self.assertEqual([turn.text for turn in session.turns], ["b"])
        self.assertEqual((sorted(before), self.around(crashed)), (["state.db", "state.db-wal"], before))

    def test_a_lock_is_reported_and_the_next_run_reads_it(self) -> None:
        self.enterContext(mock.patch.object(sediment, "BUSY_SECONDS", 0.05))
        path = self.base("state.db", self.HERMES.replace("wal", "delete"), sessions=[("h1", "cli", None, 5, None, "", "{}", 0)],
                         messages=[(1, "h1", "user", "决定：一", 9, 0, 1, 0, "")])
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN EXCLUSIVE")
            writer.execute("INSERT INTO messages SELECT 2, session_id, role, '决定：二', 9, 0, 1, 0, '' FROM messages")
            locked = self.run_it("--apply", "--file", str(path))
            writer.execute("COMMIT")
        free = self.run_it("--apply", "--file", str(path))

        self.assertEqual((locked[0], locked[2].count("database is locked"), free[0]), (1, 1, 0))
        self.assertEqual(self.kept(), ["决定：一", "决定：二"])

    def test_a_name_with_signs_of_an_address_opens_that_file(self) -> None:
        path = self.hermes(("user", "a", 1, 0), name="a b?mode=rw#%41é/state.db")
        self.assertEqual(len(sediment.read_session(str(path)).turns), 1)


class Unreadable(Folder):
    """A file in which nobody speaks is one clear line, exit code 1, and nothing is written."""

    SQLITE = sediment.SQLITE_MAGIC

    def test_each_kind_says_what_it_is(self) -> None:                            # 52
        whole = json.dumps({"messages": [user("a" * 50), assistant("b")]}, indent=2)
        for name, content, said in [
                ("empty.json", b"", "no conversation was recognised"), ("blank.txt", b" \n\n", "no conversation was recognised"),
                ("notes.md", "# Notes\n\nNobody speaks here.\n", "no conversation was recognised"),
                ("cut.json", whole[:60], "cut short or broken"), ("cut-array.json", "[" + whole[:60], "cut short or broken"),
                ("one-line.json", json.dumps([user("a")])[:-3], "cut short or broken"),
                ("deep.json", "[" * 100_000, "cut short or broken"),
                ("number.json", "42", "no conversation was recognised"), ("null.json", "null", "no conversation was recognised"),
                ("array.json", "[1, null, []]", "no conversation was recognised"),
                ("object.json", '{"a": 1}', "no conversation was recognised"),
                ("nobody.json", '{"messages": []}', "no conversation was recognised"),
                ("system.json", '[{"role": "system", "content": "x"}]', "no conversation was recognised"),
                ("silent.txt", "System: x", "no conversation was recognised"),
                ("binary.bin", bytes(range(256)) * 99, "no conversation was recognised"),
                ("utf16.txt", "User: a".encode("utf-16"), "no conversation was recognised"),
                ("head.db", self.SQLITE, "file is not a database"),
                ("rubbish.db", self.SQLITE + b"x" * 5000, "file is not a database")]:
            with self.subTest(name):
                code, _, err = self.run_it("--apply", "--file", self.file(content, name))
                self.assertEqual((code, self.kept()), (1, []))
                self.assertIn(said, err)
                self.assertNotIn("Traceback", err)
                self.assertEqual(len([line for line in err.splitlines() if name in line]), 1, err)

    def test_the_formats_that_are_known_are_named(self) -> None:
        _, _, err = self.run_it("--file", self.file("nothing", "notes.txt"))
        for known in ("dsh", "opencode", "hermes", "chatgpt", "sharegpt", "cursor", "cline", "text", "jsonl"):
            with self.subTest(known):
                self.assertIn(known, err)

    def test_no_data_root_is_made_for_it(self) -> None:
        for path in (self.file("just words", "w.txt"), str(self.home / "gone.jsonl")):
            with self.subTest(path):
                code, _, err = self.run_it("--file", path, "--apply")
                self.assertEqual((code, err.count(path), (self.home / "memory").exists()), (1, 1, False))
        self.run_it("--file", path, "--file", self.file("User: 决定：用 A", "t.txt"), "--apply")
        self.assertEqual(self.kept(), ["决定：用 A"])

    def test_a_database_of_something_else_is_named_so(self) -> None:
        path = self.home / "other.db"
        with contextlib.closing(sqlite3.connect(path)) as base:
            base.execute("CREATE TABLE bookmarks (id)")
        with self.assertRaisesRegex(am.LogUnreadable, "of no agent that is known"):
            sediment.read_session(str(path))
        with self.assertRaisesRegex(am.LogUnreadable, "of no agent that is known"):
            sessions_in(str(path))

    def test_a_database_without_a_session_says_so(self) -> None:
        path = self.home / "state.db"
        with contextlib.closing(sqlite3.connect(path)) as base:
            base.executescript("CREATE TABLE sessions (id); CREATE TABLE messages (id, session_id);")
        code, _, err = self.run_it("--file", str(path))

        self.assertEqual((code, err.count("it holds no session")), (1, 1))

    def test_tables_without_the_columns_are_an_error_of_one_line(self) -> None:
        path = self.home / "state.db"
        with contextlib.closing(sqlite3.connect(path)) as base:
            base.executescript("CREATE TABLE sessions (id); CREATE TABLE messages (x); INSERT INTO sessions VALUES (1)")
        code, _, err = self.run_it("--file", str(path))

        self.assertEqual((code, err.count("state.db:"), "Traceback" in err), (1, 1, False))

    def test_a_database_that_cannot_be_opened_is_still_found(self) -> None:
        path = self.file(self.SQLITE + b"x" * 5000, ".hermes/state.db")
        self.assertEqual([(file, session) for file, session, _, _ in found("hermes")], [(path, "")])

    def test_a_document_beyond_the_limit_says_the_limit(self) -> None:
        self.enterContext(mock.patch.object(sediment, "LARGEST_WHOLE", 1 << 20))
        path = self.file(json.dumps([user("x" * (1 << 20))], indent=1))
        with self.assertRaisesRegex(am.LogUnreadable, "larger than the 1 MB"):
            sediment.read_session(path)

    def test_a_folder_or_a_missing_file_is_named(self) -> None:
        for name in ("gone.json", "folder.json"):
            (self.home / "folder.json").mkdir(exist_ok=True)
            with self.subTest(name):
                code, _, err = self.run_it("--file", str(self.home / name))
                self.assertEqual((code, err.count(f"{name}: no session log there")), (1, 1))


@unittest.skipUnless(LOGS.exists(), "the shared logs are not here")
class RealLogs(unittest.TestCase):
    """Logs of real programs give turns of people and the assistant, and nothing of tools or prompts of the system."""

    def test_every_one_is_a_conversation(self) -> None:
        logs = [path for folder in ("generic", "opencode", "hermes") for path in sorted((LOGS / folder).rglob("*"))
                if path.is_file()]
        self.assertTrue(logs)
        for path in logs:
            with self.subTest(path.name):
                for session in sediment.read_sessions(str(path)):
                    self.assertEqual({turn.role for turn in session.turns}, {"user", "assistant"})
                    self.assertEqual((session.bad, session.torn, session.subagent), (0, False, False))
                    self.assertFalse([turn for turn in session.turns if "不应沉淀" in turn.text or "思考" in turn.text])


if __name__ == "__main__":
    unittest.main()
