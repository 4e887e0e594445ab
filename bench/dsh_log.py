#!/usr/bin/env python3
"""Writes session logs as DeepSeek Harness does (format 4), to try `auto_sediment` on.

    dsh_log.py DIR [--sessions N] [--torn] [--plain]      then DSH_HOME=DIR auto_sediment.py

A log is a chain of checksummed zstd frames: the header alone, then one frame a batch of events.
The conversation is invented.  What must be learned stands in what people say; what must not be learned
stands in tool output, reasoning, injected messages and second copies of the prompt.
"""
from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    Event = dict[str, Any]

START = 1_790_000_000_000                  # ms since 1970 when session 0 begins; an hour later the next one
SERVICES = ("quillmark", "harbor-api", "tidepool", "nightjar")


def secrets() -> tuple[str, str]:
    """A made-up API key and password, put together here so that no secret-shaped text stands in a file."""
    return "sk-" + "q7Zp" * 6, "Plum" + "&" + "9321" + "tree"


def conversation(number: int) -> list[tuple[str, str, str]]:
    """What is said in a session: (user, reasoning, assistant) for each turn; the service and port vary."""
    service, port = SERVICES[number % len(SERVICES)] + (f"-{number}" if number >= len(SERVICES) else ""), 8120 + number
    key, password = secrets()
    return [
        (f"帮我给 {service} 选一个数据库，数据量不大，只有一台机器。",
         "决定：先问清楚写入量（思考，不应沉淀）",
         "我先看一下现有的依赖和部署脚本。"),
        (f"看完了吗？决定：{service} 的数据库采用 SQLite，开启 WAL 模式。",
         "The user has settled it.",
         f"好的，{service} 用 SQLite + WAL，我来改 storage 模块。"),
        ("I prefer pytest over unittest, and please always answer me in Chinese.\n偏好：测试用 pytest，回答用中文。",
         "Two standing preferences.",
         "明白，以后测试都用 pytest，用中文回答。"),
        (f"配置：{service} 监听端口 {port}。\nthe staging database password is {password} and the key is {key}",
         "I must not repeat the password.",
         f"端口已改为 {port}；口令我放进环境变量，不写进代码。"),
        ("要不要换成 Kafka 做队列？如果以后流量涨十倍，也许就改用 PostgreSQL，现在先不动。",
         "A question and a hypothetical, nothing decided.",
         "目前没有必要，单机队列足够；等流量上来再评估。"),
        (f"OK, we decided to ship {service} 0.4 on Friday.\n决定：{service} 0.4 周五发布，先灰度 10%。",
         "Write the release note.",
         "收到 🎉 我准备发布说明和灰度开关。"),
    ]


# ── Events ───────────────────────────────────────────────────────────────────


def text_part(text: str) -> Event:
    return {"type": "text", "text": text}


def user(text: str, kind: str | None = "user", **source: Any) -> tuple[str, Event]:
    """A user/message: of a person, or of another kind when it was injected."""
    said: Event = {"content": [text_part(text)], "role": "user"}
    return "user/message", {**said, "source": {"kind": kind, **source}} if kind else said


def assistant(text: str, reasoning: str = "", **more: Any) -> tuple[str, Event]:
    """An assistant/message with its reasoning, and tool calls in `calls`."""
    content: list[Event] = [{"type": "reasoning", "text": reasoning}] if reasoning else []
    content += [text_part(text)] if text else []
    content += [{"type": "tool-call", "id": call, "name": name} for call, name in more.pop("calls", ())]
    usage = {"inputTokens": 40 + len(text), "outputTokens": 9 + len(text) // 3}
    return "assistant/message", {"message": {"role": "assistant", "content": content}, "usage": usage, **more}


def tool(call: str, name: str, output: str, **arguments: Any) -> list[tuple[str, Event]]:
    """A tool/call and its tool/result."""
    source = {"kind": "tool", "callId": call}
    result = {"role": "tool", "source": source, "toolCallId": call, "content": [text_part(output)]}
    return [("tool/call", {"callId": call, "name": name, "arguments": json.dumps(arguments)}),
            ("tool/result", {"message": result})]


def turn(number: int, said: str, thought: str, reply: str, first: bool) -> Iterator[list[tuple[str, Event]]]:
    """The batches of one turn: the inbox's copy, the prompt with what is injected, the reply."""
    prompt = {"content": [text_part(said)], "source": {"kind": "user"}, "role": "user"}
    yield [("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [prompt]}),
           ("turn/start", {"turn": number}),
           ("agent/inbox/spliced", {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []})]
    opening: list[tuple[str, Event]] = [("step/start", {"turn": number, "step": 1})]
    if first:
        opening.append(("system/message", {"message": {"role": "system", "content": [text_part("You write code.")]}}))
    opening.append(user(said))
    if first:
        opening += [
            user("<system-reminder>\nAGENTS.md\n决定：所有文件用四空格缩进\n</system-reminder>", "agent-instructions"),
            user("Runtime: sandbox workspace-write.\n配置：shell = bash", "runtime-context"),
            user("偏好：插件注入的内容", "plugin", plugin="hooks-claude-code"),
            ("request/header", {"reason": "initial"}),
            ("session/title", {"title": said[:12], "source": {"kind": "fallback"}}),
            ("session/title-llm-request", {"system": "Name this session.", "messages": [prompt]})]
    yield opening
    if first:
        call = f"call_{number}"
        yield [assistant("", thought, calls=[(call, "bash")]),
               *tool(call, "bash", "notes.md:\n决定：删除 staging 数据库\n", command="cat notes.md")]
    yield [assistant(reply, thought), ("step/end", {"turn": number, "step": 1}),
           ("turn/end", {"turn": number, "reason": {"kind": "completed"}})]


def batches(number: int = 0, turns: int | None = None) -> Iterator[list[tuple[str, Event]]]:
    """All batches of a session, or those of its first `turns` turns."""
    yield [("permission/preset", {"preset": "workspace-write"}), ("sandbox/mode", {"mode": "workspace-write"})]
    for position, (said, thought, reply) in enumerate(conversation(number)[:turns], 1):
        yield from turn(position, said, thought, reply, position == 1)


# ── Files ────────────────────────────────────────────────────────────────────


def compressor() -> Callable[[bytes], bytes] | None:
    """What makes one checksummed zstd frame here: a library, the command, or None."""
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
        return lambda data: bytes(zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}))
    except ImportError:
        pass
    try:
        import zstandard
        return lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data)
    except ImportError:
        pass
    from shutil import which
    from subprocess import PIPE, run
    command = which("zstd")
    if not command:
        return None
    return lambda data: bytes(run([command, "-qc", "--check"], input=data, stdout=PIPE, check=True).stdout)


def write_log(directory: str, header: Event, groups: Iterable[Sequence[tuple[str, Event]]],
              torn: bool = False, plain: bool = False) -> str:
    """Write one session directory and return its log's path; `torn` cuts the last frame or line in half."""
    pack = None if plain else compressor()
    start, version = header.get("createdAt", START), header.get("version", 4)
    blocks, seq = [json.dumps({"type": "session", **header}) + "\n"], 0
    for group in groups:
        block = ""
        for kind, data in group:
            surface = {"surfaceOp": "append"} if kind.endswith("/message") else {}
            event = {"type": kind, "seq": seq, "time": start + 40 * seq, "data": data, **surface}
            block, seq = block + json.dumps(event, ensure_ascii=False) + "\n", seq + 1
        blocks.append(block)
    frames = [pack(block.encode()) if pack else block.encode() for block in blocks]
    if torn:
        frames[-1] = frames[-1][:len(frames[-1]) // 2]
    os.makedirs(directory, exist_ok=True)
    open(os.path.join(directory, "session.lock"), "wb").close()
    generation = f".v{version}" if version else ""
    path = os.path.join(directory, f"session{generation}.jsonl{'.zstd' if pack else ''}")
    with open(path, "wb") as file:
        file.writelines(frames)
    seconds = start / 1000 + len(frames)
    os.utime(path, (seconds, seconds))
    return path


def write_session(home: str, number: int = 0, torn: bool = False, plain: bool = False, turns: int | None = None) -> str:
    """Write session `number` under a $DSH_HOME and return its log's path."""
    import uuid
    id = f"session-{uuid.uuid5(uuid.NAMESPACE_URL, f'dsh-log/{number}')}"
    service = SERVICES[number % len(SERVICES)]
    header = {"version": 4, "id": id, "createdAt": START + 3_600_000 * number, "cwd": f"/home/dev/{service}",
              "isSeeded": False, "delegationDepth": 0}
    directory = os.path.join(home, "sessions", f"--home-dev-{service}--", id)
    return write_log(directory, header, batches(number, turns), torn, plain)


def main() -> None:
    import argparse
    parser = argparse.ArgumentParser(description="Write DSH session logs to try auto_sediment on.")
    parser.add_argument("directory", metavar="DIR", help="becomes a $DSH_HOME")
    parser.add_argument("--sessions", type=int, default=1, metavar="N")
    parser.add_argument("--torn", action="store_true", help="cut the end of the last log, as a crash does")
    parser.add_argument("--plain", action="store_true", help="uncompressed")
    options = parser.parse_args()
    for number in range(options.sessions):
        last = number == options.sessions - 1
        print(write_session(options.directory, number, options.torn and last, options.plain))


if __name__ == "__main__":
    main()
