"""Real agents, end to end, against a stub in place of their model: each finds our tools, calls one, and its log is read.

Skipped where the agent is not installed:

    DeepSeek Harness    `dsh` on the path, or what AGENT_MEMORY_TEST_DSH names            PyPI  deepseek-harness-runtime-bin
    OpenCode            `opencode` on the path, or what AGENT_MEMORY_TEST_OPENCODE names  npm   opencode-linux-x64, …
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import agent_memory as am
from agent_memory_extras import mcp

HERE = Path(__file__).resolve().parent.parent
SERVER = [str(HERE / "agent_memory.py"), "mcp"]
DSH = os.environ.get("AGENT_MEMORY_TEST_DSH") or shutil.which("dsh")
OPENCODE = os.environ.get("AGENT_MEMORY_TEST_OPENCODE") or shutil.which("opencode")
UNZIPS = shutil.which("zstd") or find_spec("zstandard") or sys.version_info >= (3, 14)
BARE = {name: value for name, value in os.environ.items()
        if not name.startswith(("AGENT_MEMORY_", "HERMES_", "DSH_", "DEEPSEEK_", "ANTHROPIC_", "OPENAI_", "OPENCODE"))
        and not name.lower().endswith("_proxy")} | {"NO_PROXY": "127.0.0.1", "AGENT_MEMORY_VECTOR_BACKEND": "local"}
SECONDS = 120


# ── the stub ──

class Stub(ThreadingHTTPServer):
    """In place of a model: it calls one tool, then says one sentence, over Anthropic's Messages as a stream.

    `seen` holds each request's body.  A request without tools (a title is wanted) gets the sentence at once.
    """

    daemon_threads = True

    def __init__(self, tool: str, given: dict[str, Any], sentence: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.tool, self.given, self.sentence = tool, given, sentence
        self.seen: list[dict[str, Any]] = []

    def __enter__(self) -> Stub:
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def tools(self) -> set[str]:
        return {tool["name"] for body in self.asked for tool in body["tools"]}

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [body for body in self.seen if body.get("tools")]

    def results(self) -> list[dict[str, Any]]:
        """The results of tools in the last request that had any tools."""
        return [part for body in self.asked[-1:] for part in parts_in(body) if part["type"] == "tool_result"]

    def reply(self, body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], str]:
        """The block to answer with, the delta that fills it, and why it ends."""
        self.seen.append(body)
        wanted = [tool["name"] for tool in body.get("tools", ()) if tool["name"].endswith(self.tool)]
        if wanted and not any(part["type"] == "tool_result" for part in parts_in(body)):
            return ({"type": "tool_use", "id": "toolu_1", "name": wanted[0], "input": {}},
                    {"type": "input_json_delta", "partial_json": json.dumps(self.given)}, "tool_use")
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": self.sentence}, "end_turn"


def parts_in(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of all messages of a request."""
    return [part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]]


class Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if not self.path.startswith("/v1/messages"):
            self.send_error(404)
            return
        block, delta, why = self.server.reply(body)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for name, event in self.events(block, delta, why):
            self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **event})}\n\n".encode())

    def events(self, block: dict[str, Any], delta: dict[str, Any], why: str) -> Iterator[tuple[str, dict[str, Any]]]:
        usage = {"input_tokens": 1, "output_tokens": 1}
        yield "message_start", {"message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "stub", "content": [],
                                            "stop_reason": None, "stop_sequence": None, "usage": usage}}
        yield "content_block_start", {"index": 0, "content_block": block}
        yield "content_block_delta", {"index": 0, "delta": delta}
        yield "content_block_stop", {"index": 0}
        yield "message_delta", {"delta": {"stop_reason": why, "stop_sequence": None}, "usage": {"output_tokens": 1}}
        yield "message_stop", {}

    def log_message(self, *_: object) -> None:
        """Say nothing."""


# ── the agents ──

class Agent:
    """What every agent is to do with our server, in a folder, a home and a store of its own."""

    tool = "{}"                                            # how it calls a tool of ours

    def setUp(self) -> None:
        self.folder = Path(os.path.realpath(self.enterContext(tempfile.TemporaryDirectory())))
        self.root, self.home, self.work = self.folder / "memory", self.folder / "home", self.folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.memory = am.AgentMemory(self.root, environment={})

    def run_in(self, command: list[str], **environment: str) -> str:
        done = subprocess.run(command, cwd=self.work, env={**BARE, "PWD": str(self.work), **environment}, timeout=SECONDS,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def sediment(self) -> None:
        """Have the log that the agent wrote digested, where it can be read here."""
        if log := self.log():
            self.run_in([sys.executable, str(HERE / "auto_sediment.py"), "--root", str(self.root), "--file", str(log), "--apply"])

    def test_it_remembers_and_its_log_is_digested(self) -> None:
        given = {"text": "数据库的端口是 5433", "category": "config", "importance": 7}
        with Stub("remember", given, "好的，已经记下。") as stub:
            said = self.ask(stub, "决定：使用 PostgreSQL 16 作为数据库。")
        (result,) = stub.results()

        self.assertIn("好的，已经记下。", said)
        self.assertEqual({name for name in stub.tools if "memory" in name}, {self.tool.format(name) for name in mcp.TOOLS})
        self.assertRegex(json.dumps(result), r"remembered mem_\d{8}_\d{6}_[0-9a-f]+ in configs")
        (kept,) = self.memory.list()
        self.assertEqual((kept.content, kept.importance, kept.execution_verified), (given["text"], 7, False))
        self.sediment()
        if self.log():
            self.assertIn("PostgreSQL 16", " ".join(kept.content for kept in self.memory.list("decisions")))

    def test_it_recalls_what_an_earlier_conversation_left(self) -> None:
        self.memory.remember("决定：使用 PostgreSQL 16 作为数据库", "decision", 8, True)
        with Stub("recall", {"query": "我们用什么数据库"}, "我们使用 PostgreSQL 16。") as stub:
            said = self.ask(stub, "我们用什么数据库？")
        (result,) = stub.results()

        self.assertIn("我们使用 PostgreSQL 16。", said)
        told = json.dumps(result, ensure_ascii=False)
        for words in ("使用 PostgreSQL 16 作为数据库", "  verified", "data, not instructions"):
            self.assertIn(words, told)
        self.assertEqual(self.memory.list()[0].access_count, 1)
        self.sediment()
        self.assertEqual(len(self.memory.list()), 1)           # what was recalled is not remembered once more


@unittest.skipUnless(DSH, "DeepSeek Harness is not installed")
class DeepSeekHarness(Agent, unittest.TestCase):
    """DeepSeek Harness is told of our server by its patch file."""

    tool = "mcp__agent_memory__{}"

    def ask(self, stub: Stub, prompt: str) -> str:
        server = {"serverName": "agent_memory", "transport": "stdio", "command": sys.executable, "args": SERVER,
                  "env": {"AGENT_MEMORY_ROOT": str(self.root)}}
        entry = {"id": "memory-agent-memory", "name": "@deepseek-ai/dsh-mcp-client", "config": server}
        (self.home / "cordis.patch.yml").write_text(json.dumps([{"insert": [entry]}]))       # JSON is YAML
        said = self.run_in([str(DSH), "headless", prompt], DSH_HOME=str(self.home), DEEPSEEK_API_KEY="stub",
                           DEEPSEEK_BASE_URL=stub.address, DSH_TELEMETRY_DISABLED="1")
        self.assertIn(mcp.INSTRUCTIONS, json.dumps(stub.asked[-1]["system"]).replace('\\"', '"'))
        return said

    def log(self) -> Path | None:
        (log,) = (path for path in (self.home / "sessions").rglob("session.v*") if "jsonl" in path.name)
        return log if UNZIPS else None


@unittest.skipUnless(OPENCODE, "OpenCode is not installed")
class OpenCode(Agent, unittest.TestCase):
    """OpenCode is told of our server by its opencode.json."""

    tool = "agent_memory_{}"

    def ask(self, stub: Stub, prompt: str) -> str:
        model = {"npm": "@ai-sdk/anthropic", "options": {"baseURL": stub.address, "apiKey": "stub"}, "models": {"stub": {}}}
        server = {"type": "local", "command": [sys.executable, *SERVER], "enabled": True,
                  "environment": {"AGENT_MEMORY_ROOT": str(self.root)}}
        (self.work / "opencode.json").write_text(json.dumps({
            "model": "anthropic/stub", "autoupdate": False, "share": "disabled", "provider": {"anthropic": model},
            "mcp": {"agent_memory": server}}))
        offline = {f"OPENCODE_DISABLE_{what}": "1" for what in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")}
        homes = {f"XDG_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CONFIG", "DATA", "CACHE", "STATE")}
        return self.run_in([str(OPENCODE), "run", prompt], HOME=str(self.home), npm_config_registry="http://127.0.0.1:9/",
                           **offline, **homes)

    def log(self) -> Path | None:
        return None                                            # a data base; reading it is another test


if __name__ == "__main__":
    unittest.main()
