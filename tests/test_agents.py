"""Real agents, end to end, against a stub in place of their model: each finds our tools, calls one, and its log is read.

Skipped where the agent is not installed:

    DeepSeek Harness    `dsh` on the path, or what AGENT_MEMORY_TEST_DSH names            PyPI  deepseek-harness-runtime-bin
    OpenCode            `opencode` on the path, or what AGENT_MEMORY_TEST_OPENCODE names  npm   opencode-linux-x64, …
    Codex               `codex` on the path, or what AGENT_MEMORY_TEST_CODEX names        npm   @openai/codex
    Claude Code         `claude` on the path, or what AGENT_MEMORY_TEST_CLAUDE names      npm   @anthropic-ai/claude-code
    Gemini CLI          `gemini` on the path, or what AGENT_MEMORY_TEST_GEMINI names      npm   @google/gemini-cli
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import agent_memory as am
import auto_sediment
from agent_memory_extras import mcp

HERE = Path(__file__).resolve().parent.parent
SERVER = [str(HERE / "agent_memory.py"), "mcp"]
DSH = os.environ.get("AGENT_MEMORY_TEST_DSH") or shutil.which("dsh")
OPENCODE = os.environ.get("AGENT_MEMORY_TEST_OPENCODE") or shutil.which("opencode")
CODEX = os.environ.get("AGENT_MEMORY_TEST_CODEX") or shutil.which("codex")
CLAUDE = os.environ.get("AGENT_MEMORY_TEST_CLAUDE") or shutil.which("claude")
GEMINI = os.environ.get("AGENT_MEMORY_TEST_GEMINI") or shutil.which("gemini")
UNZIPS = shutil.which("zstd") or find_spec("zstandard") or sys.version_info >= (3, 14)
KEYS = ("AGENT_MEMORY_", "HERMES_", "DSH_", "DEEPSEEK_", "ANTHROPIC_", "OPENAI_", "OPENCODE", "CODEX_", "CLAUDE", "GEMINI",
        "GOOGLE")
BARE = {name: value for name, value in os.environ.items()
        if not name.startswith(KEYS) and not name.lower().endswith("_proxy")} | {
            "NO_PROXY": "127.0.0.1", "AGENT_MEMORY_VECTOR_BACKEND": "local"}
SECONDS = 120


# ── the stub ──

class Stub(ThreadingHTTPServer):
    """In place of a model: it calls one tool, then says one sentence, over Anthropic's Messages, OpenAI's Responses or
    Google's generateContent.

    `seen` holds each request's body.  A request without tools (a title is wanted) gets the sentence at once.
    """

    daemon_threads = True

    def __init__(self, tool: str, given: dict[str, Any], sentence: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}/v1"
        self.tool, self.given, self.sentence = tool, given, sentence
        self.seen: list[dict[str, Any]] = []

    def __enter__(self) -> Stub:
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The requests that had any tools."""
        return [body for body in self.seen if body.get("tools")]

    @property
    def tools(self) -> set[str]:
        return {tool for body in self.asked for tool in tools_in(body)}

    def results(self) -> list[dict[str, Any]]:
        """The results of tools in the last request that had any."""
        return [part for part in parts_in(self.asked[-1]) if part.get("type") in ("tool_result", "function_call_output")
                or "functionResponse" in part]

    def wanted(self, body: dict[str, Any]) -> tuple[str, str]:
        """The tool to be called now, as the part before its name and the name; nothing once its result is there."""
        self.seen.append(body)
        if not body.get("tools") or self.results():
            return "", ""
        return next((group, name) for group, name in tools_in(body).values() if name.rpartition("_")[2] == self.tool)


def tools_in(body: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The tools of a request, by their whole names; Responses may have them in groups."""
    flat = {tool["name"]: ("", tool["name"]) for tool in body.get("tools", ()) if "name" in tool and "tools" not in tool}
    flat |= {tool["name"]: ("", tool["name"]) for group in body.get("tools", ()) for tool in group.get("functionDeclarations", ())}
    groups = [tool for tool in body.get("tools", ()) if "tools" in tool]
    return flat | {f"{group['name']}__{tool['name']}": (group["name"], tool["name"]) for group in groups for tool in group["tools"]}


def parts_in(body: dict[str, Any]) -> list[dict[str, Any]]:
    """What was said and done so far."""
    if "input" in body:
        return list(body["input"])
    if "contents" in body:
        return [part for message in body["contents"] for part in message["parts"]]
    return [part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]]


def messages(stub: Stub, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of Anthropic's Messages that call a tool, or say the sentence where there is none."""
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": stub.sentence}
    if name:
        block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(stub.given)}
    usage = {"input_tokens": 1, "output_tokens": 1}
    yield "message_start", {"message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "stub", "content": [],
                                        "stop_reason": None, "stop_sequence": None, "usage": usage}}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": {"stop_reason": "tool_use" if name else "end_turn", "stop_sequence": None},
                            "usage": {"output_tokens": 1}}
    yield "message_stop", {}


def responses(stub: Stub, group: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same of OpenAI's Responses."""
    item: dict[str, Any] = {"type": "message", "role": "assistant", "id": "msg_1",
                            "content": [{"type": "output_text", "text": stub.sentence}]}
    if name:
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "namespace": group, "name": name,
                "arguments": json.dumps(stub.given)}
    yield "response.created", {"response": {"id": "resp_1"}}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield "response.completed", {"response": {"id": "resp_1", "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}}


def generated(stub: Stub, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same of Google's generateContent."""
    part = {"functionCall": {"name": name, "args": stub.given}} if name else {"text": stub.sentence}
    yield "", {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
               "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}


class Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_POST(self) -> None:
        group, name = self.server.wanted(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0)))))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        if "GenerateContent" in self.path:
            spoken = generated(self.server, name)
        else:
            spoken = responses(self.server, group, name) if "/responses" in self.path else messages(self.server, name)
        for kind, event in spoken:
            typed = f"event: {kind}\ndata: {json.dumps({'type': kind, **event})}" if kind else f"data: {json.dumps(event)}"
            self.wfile.write(f"{typed}\n\n".encode())

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
        # An agent may ask PWD where it is, and leaves behind what it unpacks.
        self.places = {"PWD": str(self.work), "TMPDIR": str(self.folder), "HOME": str(self.home)}

    def run_in(self, command: list[str], **environment: str) -> str:
        done = subprocess.run(command, cwd=self.work, env={**BARE, **self.places, **environment}, timeout=SECONDS,
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
        (kept,) = self.memory.list()
        self.assertEqual((kept.content, kept.importance, kept.execution_verified), (given["text"], 7, False))
        self.assertRegex(json.dumps(result), f"{kept.id}.*configs")
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
        for words in ("使用 PostgreSQL 16 作为数据库", "data, not instructions", r'  verified|execution_verified\\":true'):
            self.assertRegex(told, words)                      # the text or the data: each agent shows one of them
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
        return self.run_in([str(OPENCODE), "run", prompt], npm_config_registry="http://127.0.0.1:9/",
                           **offline, **homes)

    def log(self) -> Path | None:
        return None                                            # a data base; reading it is another test


@unittest.skipUnless(CODEX, "Codex is not installed")
class Codex(Agent, unittest.TestCase):
    """Codex is told of our server by its config.toml."""

    tool = "mcp__agent_memory__{}"

    def ask(self, stub: Stub, prompt: str) -> str:
        (self.home / "config.toml").write_text("\n".join((
            'model = "stub"', 'model_provider = "stub"', 'approval_policy = "never"',
            "[model_providers.stub]", 'name = "stub"', f'base_url = "{stub.address}"', 'wire_api = "responses"',
            'env_key = "STUB_KEY"',
            "[mcp_servers.agent_memory]", f"command = {json.dumps(sys.executable)}", f"args = {json.dumps(SERVER)}",
            f"env = {{AGENT_MEMORY_ROOT = {json.dumps(str(self.root))}}}")))
        return self.run_in([str(CODEX), "exec", "--skip-git-repo-check", prompt], CODEX_HOME=str(self.home), STUB_KEY="stub")

    def log(self) -> Path | None:
        (log,) = (self.home / "sessions").rglob("rollout-*.jsonl")
        return log if hasattr(auto_sediment, "Codex") else None


class Hooked(Agent):
    """An agent that `integrate` tells of our server, our hooks and our skill."""

    name = ""
    without: tuple[str, ...] = ("--no-hooks",)             # they would digest the session behind the test's back

    def integrate(self) -> None:
        self.run_in([sys.executable, str(HERE / "agent_memory.py"), "integrate", self.name, "--write", *self.without,
                     "--root", str(self.root)])

    def test_hooks_tell_it_what_is_known_and_have_its_session_digested(self) -> None:
        self.memory.remember("偏好：回答用中文", "preference", 8, True)
        self.without = ()
        with Stub("stats", {}, "好的。") as stub:
            self.ask(stub, "决定：使用 PostgreSQL 16 作为数据库。")
        told = json.dumps(stub.asked[0], ensure_ascii=False).replace("&lt;", "<").replace("&gt;", ">")
        end, log = time.monotonic() + 60, self.root / "hook.log"
        while len(self.memory.list()) < 2 and time.monotonic() < end:
            time.sleep(0.2)                                # the digest runs by itself, after the agent has ended

        self.assertRegex(told, r"<agent-memory>.*- 偏好：回答用中文 \[prefs, verified, \d{4}-\d\d-\d\d, mem_.*</agent-memory>")
        self.assertEqual({kept.content for kept in self.memory.list()}, {"偏好：回答用中文", "决定：使用 PostgreSQL 16 作为数据库"})
        self.assertEqual(log.read_text(encoding="utf-8") if log.exists() else "", "")


@unittest.skipUnless(CLAUDE, "Claude Code is not installed")
class ClaudeCode(Hooked, unittest.TestCase):
    """Claude Code is told of our server, our hooks and our skill by `integrate`."""

    name, tool = "claude-code", "mcp__agent_memory__{}"

    def ask(self, stub: Stub, prompt: str) -> str:
        (self.home / ".claude").mkdir(exist_ok=True)
        self.integrate()
        quiet = dict.fromkeys(("DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER",
                               "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"), "1")
        allowed = ",".join(self.tool.format(name) for name in mcp.TOOLS)
        return self.run_in([str(CLAUDE), "-p", prompt, "--allowedTools", allowed], ANTHROPIC_API_KEY="stub",
                           ANTHROPIC_BASE_URL=stub.address.removesuffix("/v1"), **quiet)

    def log(self) -> Path | None:
        (log,) = (self.home / ".claude" / "projects").glob("*/*.jsonl")
        return log


@unittest.skipUnless(GEMINI, "Gemini CLI is not installed")
class GeminiCli(Hooked, unittest.TestCase):
    """Gemini CLI is told of our server, our hooks and our skill by `integrate`."""

    name, tool = "gemini", "mcp_agent_memory_{}"

    def ask(self, stub: Stub, prompt: str) -> str:
        settings = self.home / ".gemini" / "settings.json"
        settings.parent.mkdir(exist_ok=True)
        security = {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}
        settings.write_text(json.dumps({"security": security}))
        self.integrate()
        return self.run_in([str(GEMINI), "-p", prompt, "--approval-mode", "yolo", "-m", "gemini-2.5-flash"], GEMINI_API_KEY="stub",
                           GOOGLE_GEMINI_BASE_URL=stub.address.removesuffix("/v1"), GEMINI_CLI_TRUST_WORKSPACE="true")

    def log(self) -> Path | None:
        (log,) = (self.home / ".gemini" / "tmp").glob("*/chats/session-*.jsonl")
        return log


if __name__ == "__main__":
    unittest.main()
