#!/usr/bin/env python3
"""Session logs into memories, once each; cron runs it.

    auto_sediment.py                     what the newest session would add (--latest --dry-run)
    auto_sediment.py --latest --apply    keep it
    auto_sediment.py --all --apply       keep what is new in every session (for cron)
    auto_sediment.py --file PATH         a log file or a session directory; may be repeated

Chapters: Words, Messages, Log, Databases, Readers, Finding, Cursor, Sediment, Command line.
Only what people and the assistant said is read; reasoning, tools, injected text and our own output are not.
A turn is consumed once: the cursor moves only after its memories are on disk.
"""
from __future__ import annotations

import json
import os
import re
import sys

import agent_memory as am

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import ExitStack
    from typing import IO, Any

GUARD = "AGENT_MEMORY_DIGESTING"
OWN_DIGEST = "<agent-memory-digest"        # how a prompt of our own digester begins when an agent runs it for us


# ── Words ────────────────────────────────────────────────────────────────────

class Turn(am.Record):
    """What a person or the assistant said, and where in the log it stands."""

    role: str                              # "user" | "assistant"
    text: str
    seq: int
    at: str = ""                           # ISO time
    key: str = ""                          # what the log itself tells the turn by


class Session(am.Record):
    """One conversation as a log tells it."""

    path: str
    agent: str
    session: str
    version: int
    turns: tuple[Turn, ...]
    skipped: dict[str, int]                # kind of record that was not taken → how many
    torn: bool                             # the end is missing: still being written, or cut
    subagent: bool
    own: bool                              # a digest of ours, run through an agent
    bad: int                               # whole lines that do not parse
    warnings: tuple[str, ...] = ()         # keys of MESSAGES
    cwd: str = ""
    parents: tuple[str, ...] = ()          # sessions it goes on from or copies


def standing(session: Session, subagents: bool) -> str:
    """Why nobody would want to learn from this session unasked, or "" when it is eligible."""
    if session.subagent and not subagents:
        return "subagent"
    if session.own:
        return "own"
    return "" if any(turn.role == "user" for turn in session.turns) else "blank"


def spoken(text: str) -> str:
    """What was said, without the blocks of a harness, a hook or ourselves, and fit to be stored."""
    return am.without_blocks(text.encode("utf-8", "replace").decode()).strip()      # a lone surrogate cannot be stored


def talk(turns: Iterable[Turn]) -> str:
    """The turns as the one text a digester reads."""
    return "\n".join(f"{'用户' if turn.role == 'user' else '助手'}: {turn.text}" for turn in turns)


def batches(turns: Iterable[Turn], size: int) -> Iterator[list[Turn]]:
    """Runs of whole turns whose talk fits in `size` characters; a longer turn stands alone."""
    batch: list[Turn] = []
    length = 0
    for turn in turns:
        more = len(talk([turn])) + 1
        if batch and length + more > size + 1:
            yield batch
            batch, length = [], 0
        batch.append(turn)
        length += more
    if batch:
        yield batch


def one_line(text: str) -> str:
    """A text on one line, its control characters shown and not obeyed."""
    return am.shown(text).replace("\n", "\\n")


def word(value: Any) -> str:
    """A name or a number as text that can be stored and stand in a path; "" when it is neither."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return ""
    return str(value).encode("utf-8", "replace").decode().replace("\0", "")


def instant(value: Any) -> str:
    """A time in ISO 8601, of seconds or milliseconds since 1970 or of such a text; "" when it is none."""
    from datetime import UTC, datetime
    if isinstance(value, str):
        return word(value)
    try:
        return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC).isoformat(timespec="milliseconds")
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def inside(text: str, tag: str) -> tuple[list[str], str]:
    """What stands between <tag> and </tag>, and the text without it; a tag without its pair is text."""
    found, rest, at = list[str](), list[str](), 0
    while (start := text.find(f"<{tag}>", at)) >= 0 and (end := text.find(f"</{tag}>", start)) >= 0:
        found.append(text[start + len(tag) + 2:end].strip())
        rest.append(text[at:start])
        at = end + len(tag) + 3
    return found, "".join(rest) + text[at:]


# ── Messages ─────────────────────────────────────────────────────────────────
# key → English, Chinese.

MESSAGES = {
    "bad": ("{path}: {bad} lines could not be read", "{path}：{bad} 行无法读取"),
    "busy": ("busy: another run is working on {root}", "正忙：另一个进程正在处理 {root}"),
    "done": ("sessions: {sessions}  new turns: {turns}  facts: {facts}{outcomes}",
             "{sessions} 个会话，{turns} 轮新对话，{facts} 条要点{outcomes}"),
    "dry": ("dry run, nothing is written; --apply keeps the facts", "仅预览，未写入；加 --apply 才会保存"),
    "empty": ("{path}: work was logged but nothing anyone said", "{path}：有工作记录，但没有任何对话"),
    "full": ("--max reached: {turns} turns wait for the next run", "已达 --max：{turns} 轮留待下次处理"),
    "nested": (GUARD + " is set: a digest started this run, so it does nothing",
               "已设置 " + GUARD + "：由摘要进程启动，不做任何事"),
    "newer": ("{path}: log version {version} is newer than this reader; read leniently",
              "{path}：日志版本 {version} 比本程序新，按宽松方式读取"),
    "none": ("no session to learn from under {home} ({logs} logs)", "{home} 下没有可沉淀的会话（{logs} 个日志）"),
    "subagent": ("{path}: a sub-agent's session, skipped; --include-subagents reads it",
                 "{path}：子智能体会话，已跳过；--include-subagents 可读取"),
    "took": ("{path}: {new} new turns of {read}", "{path}：共 {read} 轮，其中 {new} 轮是新的"),
    "torn": ("{path}: the end is missing (torn); what is there was read", "{path}：结尾不完整（torn），已读取现有部分"),
    "weak": ("digest: {why}", "摘要降级：{why}"),
}


def message(key: str, lang: str, **values: object) -> str:
    """The message `key` in "en" or "zh"."""
    return MESSAGES[key][lang == "zh"].format(**values)


# ── Log ──────────────────────────────────────────────────────────────────────
# A file, plain or zstd, as records.  JSON lines are streamed: memory holds one
# line and one chunk.  Only what does not begin with a line of JSON is read whole.
#
# | the file                            | its records                                    |
# |-------------------------------------|------------------------------------------------|
# | JSON lines                          | the lines                                      |
# | one JSON object                     | that object                                    |
# | a JSON array of messages            | {"messages": [them]}                           |
# | another JSON array                  | its objects, as if each stood on a line        |
# | text that names who speaks          | {"transcript": [messages]}                     |

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_COMMANDS = ("zstd", "/usr/local/bin/zstd", "/opt/homebrew/bin/zstd")       # launchd's PATH has only /usr/bin
CHUNK = 1 << 14
LONGEST_LINE = 1 << 26                     # bytes; beyond it a line counts as bad, whatever it holds
LARGEST_WHOLE = 1 << 26                    # bytes of a file that must be read whole

SPEAKERS = {"user": "user", "human": "user", "用户": "user", "assistant": "assistant", "ai": "assistant", "助手": "assistant",
            "system": "system", "系统": "system", "tool": "tool", "工具": "tool"}
NAMES = "|".join(SPEAKERS)
# A colon alone makes no speaker of `user: root` in a file of settings, so plain labels are capitals.
# Counts are bounded: a line of nothing but blanks must not take quadratic time.
LABELS = tuple(map(re.compile, (
    r"(User|USER|Human|HUMAN|Assistant|ASSISTANT|AI|System|SYSTEM|Tool|TOOL|用户|助手|系统|工具)[ \t]?[:：](.*)",
    rf"(?i:(?:\*\*|__)({NAMES})[ \t]?(?:[:：][ \t]?(?:\*\*|__)|(?:\*\*|__)[ \t]?[:：]))(.*)",
    rf"(?i:(?:\*\*|__)({NAMES})(?:\*\*|__)[ \t]{{0,8}})()$",
    rf"(?i:[ ]{{0,3}}#{{1,6}}[ \t]\W{{0,8}}({NAMES})\W{{0,12}})(?:[(（\[].*)?()$")))
FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")


def labelled(line: str) -> tuple[str, str] | None:
    """Who is named as the speaker at the start of a line, and the rest of it."""
    found = next(filter(None, (label.match(line) for label in LABELS)), None)
    return (SPEAKERS[found[1].lower()], found[2]) if found else None


def fence_after(line: str, fence: str) -> str:
    """The code fence that is open after a line when `fence` ("" for none) was open before it."""
    mark = FENCE.match(line)
    if not mark:
        return fence
    if fence:
        return "" if mark[1].startswith(fence) and not mark[2].strip() else fence
    return "" if "`" in mark[1] and "`" in mark[2] else mark[1]                 # ```code``` within a line opens nothing


def unruled(lines: list[str]) -> str:
    """The text of a turn without the blank lines and rules (---) that part it from the next."""
    while lines and (not lines[-1].strip() or re.fullmatch(r"(?:-{3,}|\*{3,}|_{3,})[ \t]?", lines[-1])):
        lines.pop()
    return "\n".join(lines).strip()


def transcript(text: str) -> list[dict[str, str]]:
    """The turns of a plain or Markdown transcript as messages; a speaker named inside a code fence is text."""
    turns: list[tuple[str, list[str]]] = []
    fence = ""
    for line in (line.rstrip("\r") for line in text.split("\n")):             # U+2028 is no line end: never splitlines()
        if not fence and (label := labelled(line)):
            role, line = label
            turns.append((role, []))
        fence = fence_after(line, fence)
        if turns:
            turns[-1][1].append(line)
    return [{"role": role, "content": unruled(lines)} for role, lines in turns]


def unfolded(document: Any) -> list[dict[str, Any]]:
    """The records of a file that is one JSON document."""
    if isinstance(document, dict):
        return [document]
    items = [item for item in document if isinstance(item, dict)] if isinstance(document, list) else []
    return [{"messages": items}] if any("role" in item for item in items) else items


class Log:
    """The records of one log; `torn`, `bad` and `fault` are final once they are read."""

    def __init__(self, path: str) -> None:
        self.path, self.torn, self.bad = path, False, 0
        self.fault = ""                                        # why there may be nothing in it
        self._unended = False                                  # whether the last line lacks its newline

    def records(self) -> Iterator[dict[str, Any]]:
        """What the file tells; an unended last line that does not parse waits for the next run."""
        lines = filter(bytes.strip, self._lines())
        first = parsed(next(lines, b""))
        if isinstance(first, dict):
            yield first
            yield from self._objects(lines)
        else:
            yield from self._document() or self._objects(filter(bytes.strip, self._lines()))

    def _objects(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        for line in lines:
            record = parsed(line)
            if isinstance(record, dict):
                yield record
            elif self._unended:
                self.torn = True
            else:
                self.bad += 1

    def _document(self) -> list[dict[str, Any]]:
        """The records of a JSON document or a transcript; none when the file is neither, or too large to be read whole."""
        whole = bytearray()
        for chunk in self._chunks():
            whole += chunk
            if len(whole) > LARGEST_WHOLE:
                self.fault = f"no JSON lines, and larger than the {LARGEST_WHOLE >> 20} MB that one document may have"
                return []
        document = parsed(whole)
        if document is not None or b"\0" in whole:
            return unfolded(document)
        text = whole.decode("utf-8-sig", "replace")
        if text.lstrip()[:1] in ("{", "["):
            self.fault = "its JSON is cut short or broken"
        turns = transcript(text)
        return [{"transcript": turns}] if turns else []

    def _lines(self) -> Iterator[bytes]:
        held: list[bytes] = []
        size = 0
        for chunk in self._chunks():
            *ends, rest = chunk.split(b"\n")                   # U+2028 is no line end: never splitlines()
            for end in ends:
                yield b"".join([*held, end])
                held, size = [], 0
            held.append(rest)
            size += len(rest)
            if size > LONGEST_LINE:
                held, size = [b"\xff"], 0                      # not UTF-8, so it will count as bad
        self._unended = bool(tail := b"".join(held))
        if tail:
            yield tail

    def _chunks(self) -> Iterator[bytes]:
        try:
            with open(self.path, "rb", buffering=0) as file:
                packed = file.read(4) == ZSTD_MAGIC            # suffixes lie; the magic does not
                file.seek(0)
                yield from self._unpacked(file) if packed else iter(lambda: file.read(CHUNK), b"")
        except OSError as trouble:
            raise am.LogUnreadable(f"{self.path}: {trouble.strerror}", "may this user read it?") from None

    def _unpacked(self, file: IO[bytes]) -> Iterator[bytes]:
        zstd = zstd_library()
        if zstd is None:
            yield from self._by_command(file)
            return
        new, error = zstd
        frame = new()
        try:
            while data := file.read(CHUNK):
                while data:
                    frame = new() if frame.eof else frame
                    yield frame.decompress(data)
                    data = frame.unused_data if frame.eof else b""
        except error:
            self.torn = True
        self.torn |= not frame.eof

    def _by_command(self, file: IO[bytes]) -> Iterator[bytes]:
        from subprocess import DEVNULL, PIPE, Popen
        for command in ZSTD_COMMANDS:
            try:
                process = Popen([command, "-dcq"], stdin=file, stdout=PIPE, stderr=DEVNULL)
            except OSError:
                continue
            with process:
                while data := process.stdout.read(CHUNK) if process.stdout else b"":
                    yield data
            self.torn = process.returncode != 0                # what came before the tear is whole
            return
        raise am.LogUnreadable("zstd logs cannot be read: no compression.zstd (Python 3.14), no zstandard package, "
                               "no zstd command", "any of the three will do: pip install zstandard, or install zstd")


def zstd_library() -> tuple[Callable[[], Any], type[Exception]] | None:
    """What makes a decompressor for one frame, and the error it raises; None without a library."""
    from importlib import import_module
    for name, make in (("compression.zstd", lambda zstd: zstd.ZstdDecompressor),
                       ("zstandard", lambda zstd: lambda: zstd.ZstdDecompressor().decompressobj())):
        try:
            zstd = import_module(name)
        except ImportError:
            continue
        return make(zstd), zstd.ZstdError
    return None


# ── Databases ────────────────────────────────────────────────────────────────
# Agents that keep their sessions in SQLite or in a tree of small files: each
# session as the record that the agent's own export gives of it.
#
# | beside the database           | it is read                                                        |
# |-------------------------------|-------------------------------------------------------------------|
# | no -wal, or an empty one      | as immutable: no lock, no file beside it                          |
# | -wal and -shm                 | read-only, waiting for a lock                                     |
# | -wal alone, after a crash     | from a copy: reading it in place would leave an -shm there        |

SQLITE_MAGIC = b"SQLite format 3\0"
BUSY_SECONDS = 5.0


class Kept(am.Record):
    """One session of a database, without what was said in it."""

    session: str
    changed: int                           # ns
    size: int                              # messages
    parent: str


class Schema(am.Record):
    """Where an agent keeps what, told by its tables."""

    tables: set[str]
    sessions: str
    messages: str
    parent: str                            # column of `sessions`
    unit: int                              # ns in one of its times
    read: Callable[[Any, str], dict[str, Any]]


def stat_of(path: str) -> tuple[int, int]:
    """When a file was last written, in nanoseconds, and its size in bytes; zeros when it is not there."""
    try:
        stat = os.stat(path)
    except OSError:
        return 0, 0
    return stat.st_mtime_ns, stat.st_size


def is_database(path: str) -> bool:
    """Whether a file is a SQLite database."""
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return False                       # whoever reads it says why


def asked(path: str, question: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
    """What `question` finds in a database, one by one; the database stays as it was."""
    from contextlib import ExitStack, closing
    try:
        import sqlite3
    except ImportError:
        raise am.LogUnreadable(f"{path}: this Python has no sqlite3", "a Python with sqlite3 reads it") from None
    with ExitStack() as held:
        try:
            base = held.enter_context(closing(sqlite3.connect(address(path, held), uri=True, timeout=BUSY_SECONDS)))
            base.text_factory = lambda raw: raw.decode("utf-8", "replace")
            yield from question(base)
        except (sqlite3.Error, OSError, UnicodeDecodeError) as fault:           # the last from names in a damaged file
            why = "a damaged database" if isinstance(fault, UnicodeDecodeError) else fault
            raise am.LogUnreadable(f"{path}: {why}", "is an agent writing to it?  the next run tries again") from None


def address(path: str, held: ExitStack) -> str:
    """The URI that opens a database without changing anything beside it."""
    from pathlib import Path
    path = os.path.realpath(path)
    logged, journalled = stat_of(f"{path}-wal")[1], stat_of(f"{path}-journal")[1]
    if logged and not os.path.exists(f"{path}-shm"):
        from shutil import copyfile
        from tempfile import TemporaryDirectory
        copy = os.path.join(held.enter_context(TemporaryDirectory()), "copy.db")
        for end in ("", "-wal"):
            copyfile(path + end, copy + end)
        path = copy
    return f"{Path(path).as_uri()}?{'mode=ro' if logged or journalled else 'immutable=1'}"


def rows(base: Any, table: str, wanted: str, rest: str = "", *values: object) -> Iterator[dict[str, Any]]:
    """The rows of a table as objects of the wanted columns, of those that this version of the agent has; ids it must have."""
    there = {row[1] for row in base.execute(f"PRAGMA table_info({table})")}
    names = [name for name in wanted.split() if name in there or name in ("id", "session_id", "message_id")]
    for row in base.execute(f"SELECT {', '.join(names)} FROM {table} {rest}", values):
        yield dict(zip(names, row))


TIMES = ("time_created", "time_updated", "timestamp", "started_at", "ended_at")


def latest(row: dict[str, Any]) -> float:
    """The last of the times in a row."""
    times = [row.get(name) for name in TIMES]
    return max((time for time in times if isinstance(time, (int, float)) and time < 1e15), default=0)


def kept_in(base: Any, schema: Schema) -> list[Kept]:
    """The sessions of a database, that written to last at the end."""
    said: dict[str, list[float]] = {}
    for row in rows(base, schema.messages, f"session_id {' '.join(TIMES)}"):
        said.setdefault(str(row.get("session_id")), []).append(latest(row))
    kept = []
    for row in rows(base, schema.sessions, f"id {schema.parent} {' '.join(TIMES)}"):
        times = said.get(id := str(row.get("id")), [])
        kept.append(Kept(id, int(max([latest(row), *times]) * schema.unit), len(times), str(row.get(schema.parent) or "")))
    return sorted(kept, key=lambda one: (one.changed, one.session))


def stored(value: Any) -> Any:
    """The JSON value in a column."""
    return parsed(value) if isinstance(value, (str, bytes)) else None


def opencode_session(base: Any, id: str) -> dict[str, Any]:
    """A session of OpenCode as `opencode export` gives it, of its parts only what is text."""
    info = next(rows(base, "session", "id parent_id directory revert", "WHERE id = ?", id), {})
    texts: dict[str, list[Any]] = {}
    own = "WHERE message_id IN (SELECT id FROM message WHERE session_id = ?) ORDER BY id"
    for row in rows(base, "part", "id message_id data", own, id):
        part = mapping(stored(row.get("data")))
        if part.get("type") == "text":
            texts.setdefault(str(row.get("message_id")), []).append(part)
    found = list(rows(base, "message", "id time_created data", "WHERE session_id = ?", id))
    found.sort(key=lambda row: (latest(row), str(row.get("id"))))
    messages = [{"info": {"time": {"created": row.get("time_created")}, **mapping(stored(row.get("data"))), "id": row.get("id")},
                 "parts": texts.get(str(row.get("id")), [])} for row in found]
    return {"info": {"id": id, "parentID": info.get("parent_id"), "directory": info.get("directory"),
                     "revert": stored(info.get("revert"))}, "messages": messages}


def hermes_session(base: Any, id: str) -> dict[str, Any]:
    """A session of Hermes as `hermes sessions export` gives it."""
    info = next(rows(base, "sessions", "id source parent_session_id started_at cwd model_config", "WHERE id = ?", id), {})
    wanted = "id role content timestamp observed active compacted"
    return {"source": "", **info, "id": id,
            "messages": list(rows(base, "messages", wanted, "WHERE session_id = ? ORDER BY id", id))}


SCHEMAS = (Schema({"session", "message", "part"}, "session", "message", "parent_id", 10 ** 6, opencode_session),
           Schema({"sessions", "messages"}, "sessions", "messages", "parent_session_id", 10 ** 9, hermes_session))


class Database:
    """The sessions of an agent that keeps them in SQLite, or one of them, in the manner of a Log."""

    def __init__(self, path: str, only: str = "") -> None:
        self.path, self._only, self.torn, self.bad, self.fault = path, only, False, 0, ""

    def records(self) -> Iterator[dict[str, Any]]:
        """The sessions as their agent exports them, that written to last at the end."""
        def each(base: Any) -> Iterator[dict[str, Any]]:
            schema = self._schema(base)
            ids = [kept.session for kept in kept_in(base, schema)] if not self._only else [
                str(row["id"]) for row in rows(base, schema.sessions, "id", "WHERE id = ?", self._only)]
            return (schema.read(base, id) for id in ids)
        yield from asked(self.path, each)

    def kept(self) -> list[Kept]:
        """What there is, without reading it."""
        return list(asked(self.path, lambda base: kept_in(base, self._schema(base))))

    def _schema(self, base: Any) -> Schema:
        tables = {row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for schema in SCHEMAS:
            if tables >= schema.tables:
                return schema
        raise am.LogUnreadable(f"{self.path}: a database, but of no agent that is known", "known: opencode.db, state.db of Hermes")


class Tree:
    """A session of an older OpenCode, storage/{session,message,part}/…json, in the manner of a Log."""

    def __init__(self, path: str) -> None:
        self.path, self.torn, self.bad, self.fault = path, False, 0, "no session of OpenCode"
        self._storage = os.path.abspath(os.path.join(path, "..", "..", ".."))

    @property
    def there(self) -> bool:
        """Whether the file stands in such a tree."""
        above = os.path.dirname(os.path.dirname(os.path.abspath(self.path)))
        return os.path.basename(above) == "session" and os.path.isdir(os.path.join(self._storage, "message"))

    def records(self) -> Iterator[dict[str, Any]]:
        """The session as `opencode export` gives it."""
        if info := next(self._read([self.path]), None):
            told = self._below("message", os.path.basename(self.path).removesuffix(".json"))
            told.sort(key=lambda message: (instant(mapping(message.get("time")).get("created")), str(message.get("id"))))
            yield {"info": info, "messages": [
                {"info": message, "parts": self._below("part", os.path.basename(str(message.get("id"))))} for message in told]}

    def _below(self, *folder: str) -> list[dict[str, Any]]:
        from glob import escape, glob
        return list(self._read(sorted(glob(os.path.join(escape(os.path.join(self._storage, *folder)), "*.json")))))

    def _read(self, paths: Iterable[str]) -> Iterator[dict[str, Any]]:
        for path in paths:
            try:
                with open(path, "rb") as file:
                    found = parsed(file.read(LONGEST_LINE))
            except OSError as trouble:
                raise am.LogUnreadable(f"{path}: {trouble.strerror}", "may this user read it?") from None
            if isinstance(found, dict):
                yield found
            else:
                self.bad += 1


def source(path: str, only: str = "") -> Log | Database | Tree:
    """What gives the records of a path."""
    tree = Tree(path)
    return tree if tree.there else Database(path, only) if is_database(path) else Log(path)


def found_in(path: str, logs: Iterable[str]) -> list[tuple[str, str, int, int]]:
    """The sessions of a database as (path, session, changed, size), or those logs where there is none."""
    if not os.path.isfile(path):
        return [(log, "", *stat_of(log)) for log in logs]
    try:
        return [(path, kept.session, kept.changed, kept.size) for kept in Database(path).kept()]
    except am.LogUnreadable:
        return [(path, "", *stat_of(path))]                    # whoever reads it says why


def opencode_found() -> list[tuple[str, str, int, int]]:
    """The sessions of OpenCode; its older tree is left behind by the move to a database, so that comes first."""
    from glob import escape, glob
    home = os.path.join(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "opencode")
    tree = os.path.join(escape(home), "storage", "session", "*", "ses*.json")
    return found_in(os.path.join(home, "opencode.db"), sorted(glob(tree)))


def hermes_found() -> list[tuple[str, str, int, int]]:
    """The sessions of Hermes, or its snapshots where there is no database."""
    from glob import escape, glob
    home = os.path.expanduser(os.environ.get("HERMES_HOME") or "~/.hermes")
    return found_in(os.path.join(home, "state.db"), sorted(glob(os.path.join(escape(home), "sessions", "session_*.json"))))


# ── Readers ──────────────────────────────────────────────────────────────────
# One small class a format, and one line in READERS.  `claims` sees the first
# record of a log; `take` gets each and says or skips.


def parsed(text: str | bytes | bytearray) -> Any:
    """The JSON value that a text is, None when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def mapping(value: Any) -> dict[str, Any]:
    """The value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def parts(content: Any) -> list[dict[str, Any]]:
    """The parts of a message's content: a string, parts, or results that hold parts."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    found = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return [inner for part in found
            for inner in ([part] if part.get("type") != "tool-result" else parts(part.get("content")))]


def wording(content: Any) -> str:
    """The text of a message's content."""
    texts = (part.get("text") for part in parts(content) if part.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def answers(text: str) -> str:
    """What a person chose when asked: {"answers": [{"id", "selected", "custom"}]} as "id: a; b"."""
    found, said = mapping(parsed(text)).get("answers"), []
    for answer in map(mapping, found if isinstance(found, list) else ()):
        selected = answer.get("selected")
        chosen = [*(selected if isinstance(selected, list) else [selected]), answer.get("custom")]
        if words := "; ".join(str(word) for word in chosen if word):
            said.append(f"{answer['id']}: {words}" if answer.get("id") else words)
    return "; ".join(said)


class Messages:
    """JSON lines of {"role", "content"}, or of {"messages": [such]}; other formats build on it."""

    agent = "jsonl"
    newest = 0                             # the newest header version this reader knows
    whole = False                          # whether each record is a session of its own

    def __init__(self) -> None:
        self.id, self.version, self.subagent, self.own = "", 0, False, False
        self.cwd, self.parents = "", tuple[str, ...]()
        self.turns: list[Turn] = []
        self.skipped: dict[str, int] = {}  # what was left out
        self.seq = -1

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        """Whether a log that begins so is of this format."""
        return "role" in first or isinstance(first.get("messages"), list)

    def take(self, record: dict[str, Any]) -> None:
        """Look at one record of the log."""
        several = record.get("messages")
        for said in map(mapping, several if isinstance(several, list) else [record]):
            self.seq += 1
            self.say(str(said.get("role")), wording(said.get("content")))

    def say(self, role: str, text: str) -> None:
        """A turn, unless nothing is left of it without injected blocks."""
        self.own |= text.startswith(OWN_DIGEST) and not self.turns
        if role not in ("user", "assistant"):
            self.skip(role)
        elif words := spoken(text):
            self.turns.append(Turn(role, words, self.seq))
        elif text.strip():
            self.skip("injected")

    def skip(self, kind: str) -> None:
        """Count a record that is not taken."""
        self.skipped[kind] = self.skipped.get(kind, 0) + 1


class Dsh(Messages):
    """DeepSeek Harness: a header, then one event a line, packed deltas between them.

    | event                      | taken                                                       |
    |----------------------------|-------------------------------------------------------------|
    | user/message               | when no source kind or "user"; others were injected         |
    | … with a surfaceOp object  | no: a compaction's summary takes the place of real turns    |
    | assistant/message          | its text parts, also when interrupted; not its reasoning    |
    | tool/result                | of ask_user_question: what the person chose                 |
    | before a fork's end        | no: the parent's log has it                                 |
    """

    agent, newest = "dsh", 4

    def __init__(self) -> None:
        super().__init__()
        self._seed = -1                    # v0: the last seq copied from the parent
        self._copied = False               # v2+: until session/end-seed
        self._asked: set[Any] = set()      # ids of calls that asked the person

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        kind = str(first.get("type"))
        return kind == "session" or "/" in kind and "data" in first

    def take(self, event: dict[str, Any]) -> None:
        kind, data = str(event.get("type")), mapping(event.get("data"))
        if kind == "session":
            return self._open(event)
        seq = event.get("seq")
        self.seq = seq if isinstance(seq, int) else self.seq + 1                # snapshots have no seq
        if kind == "session/end-seed":
            self._copied = False           # in a session without a seed this only marks a resume
        elif self._copied or self.seq <= self._seed:
            self.skip("seed")
        elif kind == "user/message":
            self._user(event, data)
        elif kind == "assistant/message":
            self._assistant(event, mapping(data.get("message")))
        elif kind == "tool/result" and self._asked:
            self._answer(data)
        else:
            if kind == "tool/call" and data.get("name") == "ask_user_question":
                self._asked.add(str(data.get("callId")))
            self.skip(kind)

    def _open(self, header: dict[str, Any]) -> None:
        number = {key: value for key, value in header.items() if isinstance(value, int)}
        self.id, self.version = str(header.get("id") or ""), number.get("version", 0)
        self._seed, self._copied = number.get("seedLength", -1), header.get("isSeeded") is True
        self.subagent = header.get("origin") == "subagent" or number.get("delegationDepth", 0) > 0

    def _user(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        source = data.get("source")
        kind = mapping(source).get("kind", "user") if isinstance(source, dict) else source or "user"
        if isinstance(event.get("surfaceOp"), dict):
            self.skip("user/message:replaced")
        elif kind != "user":
            self.skip(f"user/message:{kind}")
        else:
            self.say("user", wording(data.get("content")))

    def _assistant(self, event: dict[str, Any], reply: dict[str, Any]) -> None:
        for part in parts(reply.get("content")):
            if part.get("name") == "ask_user_question":
                self._asked.add(str(part.get("id")))
            if part.get("type") != "text":
                self.skip(str(part.get("type")))
        if isinstance(event.get("surfaceOp"), dict):
            return self.skip("assistant/message:replaced")
        self.say("assistant", wording(reply.get("content")))

    def _answer(self, data: dict[str, Any]) -> None:
        reply = mapping(data.get("message")) or data
        content = reply.get("content")
        calls = [mapping(reply.get("source")).get("callId"), reply.get("toolCallId"), data.get("callId"),
                 *(mapping(part).get("toolCallId") for part in (content if isinstance(content, list) else ()))]
        said = answers(wording(content)) if self._asked & set(map(str, calls)) - {"None"} else ""
        if said:
            self.say("user", said)
        else:
            self.skip("tool/result")


class Telling(Messages):
    """What the readers below share: turns that have a time and a key, values of any type."""

    def tell(self, role: Any, text: str, at: Any = None, key: Any = None) -> None:
        """A turn said at a time, and known by a key."""
        before = len(self.turns)
        self.say(str(role), text)
        if len(self.turns) > before:
            self.turns[-1] = am.replace(self.turns[-1], at=instant(at), key=word(key))


class OpenCode(Telling):
    """OpenCode: {"info", "messages": [{"info", "parts"}]}, as its export and Databases give it."""

    agent, whole = "opencode", True

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        return isinstance(first.get("info"), dict) and isinstance(first.get("messages"), list)

    def take(self, session: dict[str, Any]) -> None:
        info = mapping(session.get("info"))
        self.id, self.cwd, self.subagent = word(info.get("id")), word(info.get("directory")), bool(info.get("parentID"))
        undone = mapping(info.get("revert"))
        for message in objects(session.get("messages")):
            told = mapping(message.get("info"))
            if undone and told.get("id") == undone.get("messageID") and not undone.get("partID"):
                return self.skip("undone")
            self.seq += 1
            if told.get("summary") is True:                    # a compaction's; of a person's message it is an object
                self.skip("summary")
                continue
            texts = [part for part in objects(message.get("parts")) if not (part.get("synthetic") or part.get("ignored"))]
            self.tell(told.get("role"), wording(texts), mapping(told.get("time")).get("created"), told.get("id"))


class Hermes(Telling):
    """Hermes: a session with its "messages", as its snapshots, its export and Databases give it.

    | message                    | taken                                                        |
    |----------------------------|--------------------------------------------------------------|
    | active=0, compacted=0      | no: it was rewound                                           |
    | active=0, compacted=1      | yes: a summary took its place for the model only             |
    | observed=1                 | no: others in the room, not said to the agent                |
    | begins with a SUMMARY      | no                                                           |
    """

    agent, whole = "hermes", True
    SUMMARY = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]:")
    PACKED = "\0json:"                     # how content that is no text is kept

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        known = "session_id" in first and "session_start" in first or "id" in first and "source" in first
        return known and isinstance(first.get("messages"), list)

    def take(self, session: dict[str, Any]) -> None:
        config, parent = session.get("model_config"), word(session.get("parent_session_id"))
        config = mapping(parsed(config) if isinstance(config, str) else config)
        self.id = word(session.get("id")) or word(session.get("session_id"))
        self.cwd = word(session.get("cwd")) or word(config.get("cwd"))
        self.subagent = "_delegate_from" in config or session.get("source") in ("tool", "delegate", "subagent")
        self.parents = (parent,) if parent and not self.subagent else ()        # a branch copies, a compression goes on
        for message in objects(session.get("messages")):
            self.seq += 1
            self._message(message)

    def _message(self, message: dict[str, Any]) -> None:
        content, id = message.get("content"), word(message.get("id"))
        if isinstance(content, str) and content.startswith(self.PACKED):
            content = parsed(content.removeprefix(self.PACKED))
        text = wording(content)
        if not (message.get("active", 1) or message.get("compacted")):
            self.skip("rewound")
        elif message.get("observed"):
            self.skip("observed")
        elif text.lstrip().startswith(self.SUMMARY):
            self.skip("summary")
        else:
            self.tell(message.get("role"), text, message.get("timestamp"), id and f"{self.id}:{id}")


class ChatGpt(Telling):
    """ChatGPT's export: conversations whose "mapping" is a tree of messages; what stands on the shown branch."""

    agent, whole = "chatgpt", True

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        return isinstance(first.get("mapping"), dict)

    def take(self, session: dict[str, Any]) -> None:
        self.id = word(session.get("conversation_id")) or word(session.get("id"))
        for message in self._branch(mapping(session.get("mapping")), session.get("current_node")):
            self.seq += 1
            content, about = mapping(message.get("content")), mapping(message.get("metadata"))
            if about.get("is_visually_hidden_from_conversation") or message.get("recipient", "all") not in ("all", None):
                self.skip("hidden")
            elif content.get("content_type") not in ("text", "multimodal_text"):
                self.skip(word(content.get("content_type")))
            else:
                pieces = content.get("parts")
                texts = [piece if isinstance(piece, str) else mapping(piece).get("text")
                         for piece in (pieces if isinstance(pieces, list) else ())]
                self.tell(mapping(message.get("author")).get("role"), "\n".join(text for text in texts if isinstance(text, str)),
                          message.get("create_time"), message.get("id"))

    def _branch(self, nodes: dict[str, Any], current: Any) -> list[dict[str, Any]]:
        """The messages from the root to the current node, or all by their time when there is no such node."""
        line: dict[str, dict[str, Any]] = {}                   # a parent may be its own child in a broken file
        while isinstance(current, str) and current in nodes and current not in line:
            line[current] = mapping(nodes[current])
            current = line[current].get("parent")
        found = [mapping(mapping(node).get("message")) for node in (reversed(line.values()) if line else nodes.values())]
        if not line:
            found.sort(key=lambda message: instant(message.get("create_time")))
        return [message for message in found if message]


class ShareGpt(Messages):
    """ShareGPT: rows of {"conversations": [{"from", "value"}]}."""

    agent = "sharegpt"
    ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant"}

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        return isinstance(first.get("conversations"), list)

    def take(self, record: dict[str, Any]) -> None:
        for said in objects(record.get("conversations")):
            self.seq += 1
            role = str(said.get("from") or said.get("role"))
            self.say(self.ROLES.get(role, role), wording(said.get("value") or said.get("content")))


class CursorAgent(Messages):
    """Transcripts of Cursor's agent: JSON lines of {"role", "message": {"content"}}."""

    agent = "cursor"

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        return "role" in first and isinstance(first.get("message"), dict)

    def take(self, record: dict[str, Any]) -> None:
        self.seq += 1
        text = wording(mapping(record.get("message")).get("content"))
        typed, _ = inside(text, "user_query") if record.get("role") == "user" else ([], "")     # what stands around it is context
        self.say(str(record.get("role") or record.get("type")), "\n".join(typed) or text)


class Cline(Messages):
    """Cline's api_conversation_history.json: messages that hold results of tools and the state of the editor, too."""

    agent = "cline"
    TYPED = ("task", "feedback", "answer", "user_message")
    RESULT = re.compile(r"\[[^\]\n]{1,400}\] Result:|\[ERROR\]|\[TASK RESUMPTION\]")

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        begun = wording(next((said.get("content") for said in objects(first.get("messages"))), None))
        return begun.startswith("<task>") or "<environment_details>" in begun

    def take(self, record: dict[str, Any]) -> None:
        for said in objects(record.get("messages")):
            self.seq += 1
            role, text = str(said.get("role")), inside(wording(said.get("content")), "environment_details")[1].strip()
            if role == "user":
                typed = [words for tag in self.TYPED for words in inside(text, tag)[0]]
                text = "\n".join(typed) or ("" if self.RESULT.match(text) else text)
            self.say(role, inside(text, "thinking")[1] if role == "assistant" else text)


class Transcript(Messages):
    """A plain or Markdown text that names who speaks."""

    agent = "text"

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        return isinstance(first.get("transcript"), list)

    def take(self, record: dict[str, Any]) -> None:
        super().take({"messages": objects(record.get("transcript"))})


GENERATION = re.compile(r"session(?:\.v(\d{1,4}))?\.jsonl(?:\.zstd?)?")
READERS = (Dsh, OpenCode, Hermes, ChatGpt, ShareGpt, CursorAgent, Cline, Transcript, Messages)
GENERIC = (ShareGpt, Transcript, Messages)                  # a file without a turn is none of these


def unrecognised(path: str, fault: str = "") -> am.LogUnreadable:
    """That nobody can be seen to speak in a file."""
    known = ", ".join(reader.agent for reader in READERS)
    return am.LogUnreadable(f"{path}: no conversation was recognised{fault and f': {fault}'}", f"known formats: {known}")


def reader_for(first: dict[str, Any] | None, path: str, fault: str = "") -> Messages:
    """A fresh reader for the log that begins with this record."""
    for reader in READERS:
        if first and reader.claims(first):
            return reader()
    if GENERATION.fullmatch(os.path.basename(path)):           # a record of an unknown kind, or none yet
        return Dsh()
    raise unrecognised(path, fault)


def read_session(path: str, subagents: bool = True, session: str = "") -> Session:
    """The conversation in a log file, or the one of this name in a file of many; see `read_sessions`."""
    found = next(read_sessions(path, subagents, session), None)
    if found is None:
        raise am.LogUnreadable(f"{path}: no session {session}".rstrip(), "name another file")
    return found


def read_sessions(path: str, subagents: bool = True, only: str = "") -> Iterator[Session]:
    """The conversations in a file, oldest first; `subagents=False` reads no more of a sub-agent's than its header."""
    from itertools import chain
    log = source(path, only)
    records = log.records()
    first = next(records, None)
    if first is None and isinstance(log, Database):
        if only:
            return
        raise unrecognised(path, "it holds no session")
    reader = reader_for(first, path, log.fault)
    rest = chain([first], records) if first else iter(())
    if reader.whole:
        yield from whole_sessions(path, log, rest, only)
        return
    for record in rest:
        reader.take(record)
        if reader.subagent and not subagents:
            break
    if type(reader) in GENERIC and not reader.turns:
        raise unrecognised(path)
    yield told(reader, path, log)


def whole_sessions(path: str, log: Log | Database | Tree, records: Iterable[dict[str, Any]], only: str) -> Iterator[Session]:
    """The sessions of a file whose records are one each, that spoken in last at the end; they are told apart by path#session."""
    readers: list[Messages] = []
    for record in records:
        kind = next((kind for kind in READERS if kind.claims(record)), Messages)
        if kind.whole:
            readers.append(kind())
            readers[-1].take(record)
        else:
            log.bad += 1
    many = len(readers) > 1 or isinstance(log, Database)
    for number, reader in enumerate(readers, 1):
        reader.id = reader.id or (str(number) if many else "")
    for reader in sorted(readers, key=lambda reader: reader.turns[-1].at if reader.turns else ""):
        if only in ("", reader.id):
            yield told(reader, f"{path}#{reader.id}" if many else path, log)
            log = Log(path)                                    # what could not be read is told of once


def told(reader: Messages, path: str, log: Log | Database | Tree) -> Session:
    """What a reader made of its log."""
    signs = {"torn": log.torn, "bad": log.bad > 0, "newer": reader.version > reader.newest,
             "empty": "turn/start" in reader.skipped and not reader.turns}
    name, folder = os.path.basename(path), os.path.basename(os.path.dirname(os.path.abspath(path)))
    named = folder if GENERATION.fullmatch(name) else name
    return Session(path, reader.agent, reader.id or named, reader.version, tuple(reader.turns), reader.skipped, log.torn,
                   reader.subagent or folder == "subagents", reader.own, log.bad, tuple(key for key, on in signs.items() if on),
                   reader.cwd, reader.parents)


def sessions_in(path: str) -> list[str]:
    """The names of the sessions in a file of many; [""] for a file that is one session."""
    log = source(path)
    if isinstance(log, Database):
        return [kept.session for kept in log.kept()]
    if not reader_for(next(log.records(), None), path, log.fault).whole:
        return [""]
    found = [session.session for session in read_sessions(path)]
    return found if len(found) > 1 else [""]


# ── Finding ──────────────────────────────────────────────────────────────────

def changed(path: str) -> int:
    """When a file was last written, in nanoseconds; 0 when it is gone."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def logs_in(folder: str, *below: str) -> list[str]:
    """The log of each session directory, newest first, ties by path; an upgrade leaves older formats beside it."""
    from glob import escape, glob
    found = [(int(match[1] or 0), changed(path), path)
             for path in glob(os.path.join(escape(folder), *below, "session*"), include_hidden=True)
             if (match := GENERATION.fullmatch(os.path.basename(path))) and os.path.isfile(path)]
    newest = {os.path.dirname(path): (-written, path) for _, written, path in sorted(found)}
    return [path for _, path in sorted(newest.values())]


def dsh_home() -> str:
    """Where DSH keeps its sessions."""
    return os.path.join(os.path.expanduser(os.environ.get("DSH_HOME") or "~/.dsh"), "sessions")


def named_log(path: str) -> str:
    """The log a person named: a file, or the newest generation in a session directory."""
    path = os.path.expanduser(path)
    logs = [path] if os.path.isfile(path) else logs_in(path)
    if not logs:
        raise am.LogUnreadable(f"{path}: no session log there", "name a log file or a session directory")
    return logs[0]


# ── Cursor ───────────────────────────────────────────────────────────────────

class Cursor:
    """What earlier runs consumed, as keyed fingerprints of masked turns: nothing can be read from it.

    Turns are told by what was said, not by an offset: zstd logs cannot be
    seeked, and so a log that grew, shrank, was replaced, moved, copied or
    upgraded to a newer format gives exactly its unseen turns.
    `logs` is only a shortcut: an unchanged file need not be opened.
    """

    def __init__(self, slot: Any) -> None:
        self._slot = slot
        state = slot.read()
        key, logs, sessions = state.get("key"), mapping(state.get("logs")), mapping(state.get("sessions"))
        whole = isinstance(key, str) and re.fullmatch("[0-9a-f]{32}", key)      # of another key's prints nothing can be known
        self._state: dict[str, Any] = {
            "key": key if whole else os.urandom(16).hex(), "last": state.get("last"),
            "logs": {log: entry for log, entry in logs.items() if isinstance(entry, list) and len(entry) == 3} if whole else {},
            "sessions": {name: marks for name, marks in sessions.items() if isinstance(marks, list)} if whole else {}}

    def known(self, path: str, stamp: list[int]) -> str | None:
        """"" or why it was passed over, if this very file was read to its end; else None."""
        entry = self._state["logs"].get(self._print(os.path.realpath(path)))
        return entry[2] if entry and entry[:2] == stamp else None

    def unseen(self, session: Session) -> list[Turn]:
        """The turns that were not consumed; the same words said twice are two turns."""
        from collections import Counter
        seen = Counter(self._state["sessions"].get(self._key(session), ()))
        new = []
        for turn in session.turns:
            mark = self._print(turn.role, turn.text)
            seen[mark] -= 1
            if seen[mark] < 0:
                new.append(turn)
        return new

    def consume(self, session: Session, turns: Iterable[Turn]) -> None:
        """The memories of these turns are on disk."""
        marks = self._state["sessions"].setdefault(self._key(session), [])
        marks.extend(self._print(turn.role, turn.text) for turn in turns)
        self._slot.write(self._state)

    def close(self, path: str, stamp: list[int], passed: str = "") -> None:
        """This file was read to its end."""
        self._state["logs"][self._print(os.path.realpath(path))] = [*stamp, passed]

    def record(self, last: dict[str, Any]) -> None:
        """How the run went, for `doctor` and `stats`."""
        self._state["last"] = last
        self._slot.write(self._state)

    def _key(self, session: Session) -> str:
        return self._print(session.agent, session.session)

    def _print(self, *words: str) -> str:
        from hashlib import blake2b
        text = "\0".join(words).encode("utf-8", "surrogateescape")
        return blake2b(text, key=bytes.fromhex(self._state["key"]), digest_size=6).hexdigest()


# ── Sediment ─────────────────────────────────────────────────────────────────

class Sediment:
    """One run over the chosen logs: `data` is what it found, `errors` what it could not read."""

    def __init__(self, memory: am.AgentMemory, options: Namespace, note: Callable[..., None]) -> None:
        self._memory, self._options, self._note = memory, options, note
        self._cursor = Cursor(memory.slot("sediment"))
        self._left: int | None = options.max
        self.data: list[dict[str, Any]] = []
        self.errors: dict[str, am.AgentMemoryError] = {}

    def run(self) -> None:
        """Digest every chosen log; one that cannot be read does not stop the others."""
        fatal = "interrupted"
        try:
            for name in self._chosen():
                try:
                    done = self._log(name)
                except am.LogUnreadable as trouble:
                    self.errors[trouble.message] = trouble
                    continue
                if done and self._options.mode == "latest":
                    break
            fatal = ""
        except am.AgentMemoryError as trouble:
            fatal = trouble.message
            raise
        finally:
            if self._options.apply:
                added = sum(kept["outcome"] == "added" for entry in self.data for kept in entry["applied"])
                error = fatal or next(iter(self.errors), None)
                self._cursor.record({"time": self._memory.now().isoformat(timespec="seconds"), "added": added,
                                     "sessions": len(self.data), "error": error and self._memory.clean(error)})

    def _chosen(self) -> Iterator[str]:
        if self._options.mode == "file":
            yield from self._options.file
            return
        logs = logs_in(dsh_home(), "*", "*")
        yield from logs if self._options.mode == "latest" else reversed(logs)   # oldest first: later words win
        if not self.data and not self.errors and not (logs and self._options.mode == "all"):
            self._note("none", home=dsh_home(), logs=len(logs))

    def _log(self, name: str) -> bool:
        """Read and digest one log; False when it is none to learn from or was read before."""
        options, path = self._options, named_log(name)
        try:
            stat = os.stat(path)                               # before reading: what is appended now is seen next time
        except OSError as fault:
            raise am.LogUnreadable(f"{path}: {fault.strerror}", "it was there a moment ago") from None
        stamp, named = [stat.st_size, stat.st_mtime_ns], options.mode == "file"
        known = None if named else self._cursor.known(path, stamp)
        if known == "" and options.mode == "all" or known and not (known == "subagent" and options.include_subagents):
            return False
        done = False
        for session in read_sessions(path, options.include_subagents):
            done = self._told(session, stamp, named and session.path == path) or done     # of many, none is named
        return done

    def _told(self, session: Session, stamp: list[int], named: bool) -> bool:
        """Digest a session unless nobody would want to learn from it; a person may have named it all the same."""
        options, path = self._options, session.path
        passed = standing(session, options.include_subagents)
        if passed == "subagent" and named:
            self._note("subagent", path=path)
        if passed == "subagent" or passed and not named:
            self._cursor.close(path, stamp, passed)
            return False
        if self._session(session):
            self._cursor.close(path, stamp)
        return True

    def _session(self, session: Session) -> bool:
        """Digest what is new in a session; False when --max left some of it for the next run."""
        clean = self._memory.clean
        session = am.replace(session, turns=tuple(am.replace(turn, text=clean(turn.text)) for turn in session.turns))
        new = self._cursor.unseen(session)
        entry = {"path": clean(session.path), "agent": session.agent, "session": clean(session.session),
                 "read": len(session.turns), "turns": [{"role": turn.role, "text": turn.text} for turn in new],
                 "facts": [], "applied": [], "skipped": {clean(kind): n for kind, n in session.skipped.items()},
                 "torn": session.torn, "bad": session.bad, "subagent": session.subagent}
        self.data.append(entry)
        if new or self._options.mode != "all":
            self._note("took", path=session.path, new=len(new), read=len(session.turns), warn=False)
        for key in session.warnings:
            self._note(key, path=session.path, version=session.version, bad=session.bad)
        waiting = len(new)
        for batch in batches(new, self._memory.settings["digest"]["window"]):
            if self._left == 0:
                self._note("full", turns=waiting)
                return False
            self._batch(session, batch, entry)
            waiting -= len(batch)
        return True

    def _batch(self, session: Session, batch: list[Turn], entry: dict[str, Any]) -> None:
        """Digest a run of turns; they count as read once what they hold is on disk, so nothing of it is left out."""
        options = self._options
        source = f"{session.agent}:{session.session}#{batch[0].seq}-{batch[-1].seq}"
        result = self._memory.digest(talk(batch), apply=options.apply, verified=options.verified, source=source,
                                     session=session.session)
        entry["facts"] += [fact.to_dict() for fact in result.facts]
        entry["applied"] += [kept.to_dict() for kept in result.applied]
        if self._left is not None:
            self._left = max(0, self._left - len(result.facts))
        if result.degraded:
            self._note("weak", why=result.degraded)
        if options.apply:
            self._cursor.consume(session, batch)


# ── Command line ─────────────────────────────────────────────────────────────

def parser() -> ArgumentParser:
    """The command line of auto_sediment."""
    parse = am.strict_parser(prog="auto_sediment", description="Turn session logs into memories, each turn once.")
    which = parse.add_mutually_exclusive_group()
    which.add_argument("--latest", dest="mode", action="store_const", const="latest", help="newest session (default)")
    which.add_argument("--all", dest="mode", action="store_const", const="all", help="every session, oldest first")
    which.add_argument("--file", action="append", metavar="PATH", help="this log or session directory; repeatable")
    act = parse.add_mutually_exclusive_group()
    act.add_argument("--apply", action="store_true", help="keep what is found")
    act.add_argument("--dry-run", action="store_true", help="only show it (default)")
    parse.add_argument("--verified", action="store_true", help="keep the facts as verified")
    parse.add_argument("--include-subagents", action="store_true", help="read what sub-agents were told, too")
    parse.add_argument("--max", type=am.at_least_one, metavar="N", help="read no further once N facts were found; the rest waits")
    parse.add_argument("--root", metavar="DIR", help="the data root")
    parse.add_argument("--lang", choices=("en", "zh"), help="language of messages")
    parse.add_argument("--json", action="store_true", help="one JSON document on stdout, notes on stderr")
    parse.add_argument("--quiet", action="store_true", help="say nothing but errors")
    parse.add_argument("--version", action="version", version=f"auto_sediment {am.__version__}")
    parse.set_defaults(mode="latest")
    return parse


class Voice:
    """Notes on stderr, results on stdout, both masked."""

    def __init__(self, json_wanted: bool) -> None:
        self.json, self.quiet, self.lang = json_wanted, False, "en"
        self.warnings: list[str] = []
        self.clean: Callable[[str], str] = am.redact           # by the rules of the user once there is a memory

    def note(self, key: str, warn: bool = True, **values: object) -> None:
        """Something to know on stderr; a warning is told once, and part of the JSON answer."""
        text = self.clean(message(key, self.lang, **values))
        known = text in self.warnings
        if warn and not known:
            self.warnings.append(text)
        if not (self.quiet or warn and known):
            print("auto_sediment:", one_line(text), file=sys.stderr)

    def answer(self, data: dict[str, Any], error: dict[str, str] | None = None) -> None:
        """The result for scripts, or for people."""
        if self.json:
            am.answer("auto_sediment", data, self.warnings, error)
        elif not self.quiet:
            for line in report(data, self.lang):
                print(one_line(line))
        sys.stdout.flush()                                     # a closed pipe must show here, where it is caught


def report(data: dict[str, Any], lang: str) -> Iterator[str]:
    """The result as lines for people: turns and facts of a dry run, outcomes of an applied one."""
    sessions: list[dict[str, Any]] = data["sessions"]
    for entry in (entry for entry in sessions if entry["turns"]):
        yield f"{entry['agent']}:{entry['session']}"
        for turn in () if entry["applied"] else entry["turns"]:
            text = " ".join(turn["text"].split())
            yield f"{turn['role']:<10} {text[:160]}{'…' if len(text) > 160 else ''}"
        outcomes = [kept["outcome"] for kept in entry["applied"]] or ["+"] * len(entry["facts"])
        for outcome, fact in zip(outcomes, entry["facts"]):
            yield f"{outcome:<10} [{fact['category']} {fact['importance']}] {fact['content']}"
    kept = [kept["outcome"] for entry in sessions for kept in entry["applied"]]
    counts = ", ".join(f"{kept.count(outcome)} {outcome}" for outcome in dict.fromkeys(kept))
    yield message("done", lang, sessions=len(sessions), turns=sum(len(entry["turns"]) for entry in sessions),
                  facts=sum(len(entry["facts"]) for entry in sessions), outcomes=counts and f" ({counts})")


def sediment(options: Namespace, voice: Voice) -> int:
    """Do what the options ask and print it; the exit code."""
    from contextlib import ExitStack
    with ExitStack() as held:
        memory = held.enter_context(am.AgentMemory(options.root))
        voice.clean = memory.clean
        data: dict[str, Any] = {"sessions": [], "applied": options.apply}
        if options.apply:
            try:
                held.enter_context(memory.alone("sediment"))
            except am.StoreBusy:
                voice.note("busy", root=memory.root)
                voice.answer(data)
                return 0
        elif not options.dry_run:
            voice.note("dry", warn=False)
        run = Sediment(memory, options, voice.note)
        run.run()
        errors = [am.trouble(fault, memory.clean) for fault in run.errors.values()]
        data["sessions"] = run.data if options.mode != "all" else [entry for entry in run.data if entry["turns"]]
        voice.answer(data, errors[0] if errors else None)
        return 1 if errors else 0


def unless_nested(words: list[str], voice: Voice) -> int:
    """Run the command, unless it was a digest that started us."""
    options = parser().parse_args(words)
    options.mode = "file" if options.file else options.mode
    voice.quiet, voice.lang = options.quiet, am.spoken_language(options.lang)
    if os.environ.get(GUARD):
        voice.note("nested")
        voice.answer({"sessions": [], "applied": False})
        return 0
    os.environ[GUARD] = "1"
    try:
        return sediment(options, voice)
    finally:
        os.environ.pop(GUARD, None)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 0 done, 1 trouble, 2 usage, 3 busy."""
    words = sys.argv[1:] if argv is None else list(argv)
    voice = Voice("--json" in words)

    def failed(fault: am.AgentMemoryError) -> int:
        error = am.trouble(fault, voice.clean)
        if voice.json:
            voice.answer({"sessions": []}, error)
        return fault.exit_code

    return am.guarded(lambda: unless_nested(words, voice), failed, os.environ)


if __name__ == "__main__":
    sys.exit(main())
