#!/usr/bin/env python3
"""Session logs into memories, once each; cron runs it.

    auto_sediment.py                     what the newest session would add (--latest --dry-run)
    auto_sediment.py --latest --apply    keep it
    auto_sediment.py --all --apply       keep what is new in every session (for cron)
    auto_sediment.py --file PATH         a log file or a session directory; may be repeated

Chapters: Words, Messages, Log, Readers, Finding, Cursor, Sediment, Command line.
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
    from typing import IO, Any

GUARD = "AGENT_MEMORY_DIGESTING"
OWN_DIGEST = "<agent-memory-digest"        # how a prompt of our own digester begins when an agent runs it for us


# ── Words ────────────────────────────────────────────────────────────────────

class Turn(am.Record):
    """What a person or the assistant said, and where in the log it stands."""

    role: str                              # "user" | "assistant"
    text: str
    seq: int


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


def project_of(cwd: str) -> str | None:
    """The project of a folder: the name of the nearest one above it that has a .git, else its own; none for ~ and /."""
    cwd = os.path.normpath(cwd) if os.path.isabs(cwd) else ""
    folder, home = cwd, os.path.normpath(os.path.expanduser("~"))
    while folder not in ("", home) and not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        folder = above if above != folder else ""
    found = cwd if folder in ("", home) else folder            # a .git in ~ holds settings, not everything below
    return os.path.basename(found) or None if found != home else None


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
# The lines of a file, plain or zstd, streamed: memory holds one line and one chunk.

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_COMMANDS = ("zstd", "/usr/local/bin/zstd", "/opt/homebrew/bin/zstd")       # launchd's PATH has only /usr/bin
CHUNK = 1 << 14
LONGEST_LINE = 1 << 26                     # bytes; beyond it a line counts as bad, whatever it holds


class Log:
    """The lines of one log; `torn` and `bad` are final once they are read."""

    def __init__(self, path: str) -> None:
        self.path, self.torn, self.bad = path, False, 0
        self._unended = False                                  # whether the last line lacks its newline

    def records(self) -> Iterator[dict[str, Any]]:
        """The lines as JSON objects; an unended last line that does not parse waits for the next run."""
        for line in filter(bytes.strip, self._lines()):
            record = parsed(line)
            if isinstance(record, dict):
                yield record
            elif self._unended:
                self.torn = True
            else:
                self.bad += 1

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


# ── Readers ──────────────────────────────────────────────────────────────────
# One small class a format, and one line in READERS.  `claims` sees the first
# record of a log; `take` gets each and says or skips.


def parsed(text: str | bytes) -> Any:
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

    def __init__(self) -> None:
        self.id, self.version, self.subagent, self.own = "", 0, False, False
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


GENERATION = re.compile(r"session(?:\.v(\d{1,4}))?\.jsonl(?:\.zstd?)?")
READERS = (Dsh, Messages)


def reader_for(first: dict[str, Any] | None, path: str) -> Messages:
    """A fresh reader for the log that begins with this record."""
    for reader in READERS:
        if first and reader.claims(first):
            return reader()
    if GENERATION.fullmatch(os.path.basename(path)):           # a record of an unknown kind, or none yet
        return Dsh()
    known = ", ".join(reader.agent for reader in READERS)
    raise am.LogUnreadable(f"{path}: no conversation was recognised", f"known formats: {known}")


def read_session(path: str, subagents: bool = True) -> Session:
    """The conversation in a log file; `subagents=False` reads no more of a sub-agent's than its header."""
    from itertools import chain
    log = Log(path)
    records = log.records()
    first = next(records, None)
    reader = reader_for(first, path)
    for record in chain([first], records) if first else ():
        reader.take(record)
        if reader.subagent and not subagents:
            break
    signs = {"torn": log.torn, "bad": log.bad > 0, "newer": reader.version > reader.newest,
             "empty": "turn/start" in reader.skipped and not reader.turns}
    name = os.path.basename(path)
    named = os.path.basename(os.path.dirname(os.path.abspath(path))) if GENERATION.fullmatch(name) else name
    return Session(path, reader.agent, reader.id or named, reader.version, tuple(reader.turns), reader.skipped,
                   log.torn, reader.subagent, reader.own, log.bad, tuple(key for key, on in signs.items() if on))


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
        session = read_session(path, options.include_subagents)
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
