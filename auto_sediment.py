#!/usr/bin/env python3
"""Session logs into memories, once each; cron runs it.

    auto_sediment.py                     what the newest session would add (--latest --dry-run)
    auto_sediment.py --latest --apply    keep it
    auto_sediment.py --all --apply       keep what is new in every session
    auto_sediment.py --all --apply --quiet                      the line for cron
    auto_sediment.py --agent codex --project ~/work/shop         only sessions of this agent, in this place
    auto_sediment.py --dir ~/old-chats   every log below a directory, whatever wrote it
    auto_sediment.py --file PATH         a log file or a session directory; may be repeated
    auto_sediment.py --session PATH      the same for hooks: no trouble when nothing is there

Chapters: Words, Messages, Log, Databases, Readers, Finding, Cursor, Sediment, Command line.
Only what people and the assistant said is read; reasoning, tools, injected text and our own output are not.
A turn is consumed once: the cursor moves only after its memories are on disk.
"""
from __future__ import annotations

import json
import os
import re
import sys
from stat import S_ISREG

import agent_memory as am

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    at: str = ""                           # when, as ISO 8601 in UTC; "" when the log does not say
    key: str = ""                          # the record's own id where it is unique everywhere


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
    cwd: str = ""                          # where the agent worked
    parents: tuple[str, ...] = ()          # sessions it was forked or resumed from
    named: bool = True                     # its log tells who it is; else it has the name of the file
    alias: str = ""                        # its id as it may be stored; "" until the session is masked


def standing(session: Session, subagents: bool) -> str:
    """Why nobody would want to learn from this session unasked, or "" when it is eligible."""
    if session.subagent and not subagents:
        return "subagent"
    if session.own:
        return "own"
    return "" if any(turn.role == "user" for turn in session.turns) else "blank"


def masked(session: Session, memory: am.AgentMemory) -> Session:
    """The session with its id and the words of its turns as they may be kept: what one of them gives away as a password is
    masked in all of them."""
    turns, before, seen, rules = list[Turn](), list[str](), dict[str, str](), memory.settings["security"]["asked"]

    def cleaned(text: str) -> str:
        return memory.clean(text, seen)

    for turn in session.turns:
        text = _answered(before[-1], turn.text, cleaned) if before else cleaned(turn.text)
        turns.append(am.replace(turn, text=_handed(before[-4:], text, cleaned, rules)))
        before.append(turn.text.rstrip().rpartition("\n")[2][-160:])
    turns = [am.replace(turn, text=cleaned(turn.text)) if any(map(turn.text.__contains__, seen)) else turn for turn in turns]
    return am.replace(session, alias=alias(session.session, memory.clean), turns=tuple(turns))


def _answered(asked: str, text: str, clean: Callable[[str], str]) -> str:
    """A turn masked; a short one as the answer to the one before, as it may be no more than a password."""
    first = text.strip().partition("\n")[0]
    asks = asked.endswith(("?", "？")) or asked and any(map(str.isdigit, first))     # "that one is old", and the new one
    if asks and len(first) <= 100:                                                   # no rule takes more for an answer
        begin, whole = clean(asked) + "\n", clean(f"{asked}\n{text}")
        if whole.startswith(begin):
            return clean(whole[len(begin):])
    return clean(text)


def _handed(before: Sequence[str], text: str, clean: Callable[[str], str], rules: Mapping[str, Sequence[str]]) -> str:
    """A masked turn, and its first line as well where that looks like a password and the turns before ask for one or say that it
    changed: "I changed the password", "to what?", and then it."""
    first, line, rest = text.strip().partition("\n")
    low = " ".join(before).casefold()
    words = f" {re.sub('[^a-z0-9]+', ' ', low)} "

    def names(known: Sequence[str]) -> bool:
        return any(f" {word} " in words if word.isascii() and word.isalpha() else word in low for word in known)

    if len(first) > 100 or not names(rules["of"]) or not names(rules["by"]):
        return text
    if first.isdecimal() and (not names(rules["digits"]) or names(rules["numbers"])):
        return text
    probes = [("the password changed, it's ", " now"), ("the password changed, ", "")] if any(map(str.isdigit, first)) else []
    if any(phrase in before[-1].casefold() for phrase in rules["phrases"]):
        probes.append(("passphrase: ", ""))
    for lead, end in probes:
        told = clean(f"{lead}{first}{end}")
        if told.startswith(lead) and told.endswith(end) and told != f"{lead}{first}{end}":
            return f"{told[len(lead):len(told) - len(end)]}{line}{rest}"
    return text


def fit(text: str) -> str:
    """The text fit to be stored and printed: half a character cannot be."""
    return text.encode("utf-8", "replace").decode()


def spoken(text: str) -> str:
    """What was said, without the blocks of a harness, a hook or ourselves, and fit to be stored."""
    return am.without_blocks(fit(text)).strip()


def alias(id: str, clean: Callable[[str], str]) -> str:
    """A session's id as it may be stored: itself, or a print of it where it looks like a secret, as those of OpenCode do."""
    if clean(id) == id:
        return id
    from hashlib import blake2b
    return f"~{blake2b(fit(id).encode(), digest_size=8).hexdigest()}"


def talk(turns: Iterable[Turn], roles: Mapping[str, Iterable[str]]) -> str:
    """The turns as the one text a digester reads, which tells them apart by the words of digest.roles for who speaks."""
    return "\n".join(f"{'用户' if turn.role == 'user' else '助手'}: {am.enclosed(turn.text, turn.role, roles)}" for turn in turns)


def origin(fact: str, turns: Iterable[Turn]) -> Turn | None:
    """The turn that a fact was said in: one that has it word for word, of the user's first, else one with most of its terms."""
    wanted, terms = am.squeezed(fact).rstrip("…"), set(am.tokenize_terms(fact))
    best, most_of_it = None, 0.0
    for turn in sorted(turns, key=lambda turn: turn.role != "user"):
        if wanted in am.squeezed(turn.text):
            return turn
        share = len(terms & set(am.tokenize_terms(turn.text))) / max(1, len(terms))
        if share > max(most_of_it, 0.6):
            best, most_of_it = turn, share
    return best


def batches(turns: Iterable[Turn], size: int, roles: Mapping[str, Iterable[str]]) -> Iterator[list[Turn]]:
    """Runs of whole turns whose talk fits in `size` characters; a longer turn stands alone."""
    batch: list[Turn] = []
    length = 0
    for turn in turns:
        more = len(talk([turn], roles)) + 1
        if batch and length + more > size + 1:
            yield batch
            batch, length = [], 0
        batch.append(turn)
        length += more
    if batch:
        yield batch


def moment(value: Any, timespec: str = "seconds") -> str:
    """A time, given as text or in seconds or milliseconds since 1970, as ISO 8601 in UTC; "" when it is none."""
    from datetime import UTC, datetime
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
        else:
            at = datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
    return at.isoformat(timespec=timespec)


def most(skipped: Mapping[str, int]) -> str:
    """The kinds of records that were left out, the commonest first."""
    return ", ".join(f"{kind} {count}" for kind, count in sorted(skipped.items(), key=lambda item: -item[1])[:6])


def below(path: str, folder: str) -> bool:
    """Whether a place is a folder or lies in it."""
    path, folder = (os.path.realpath(os.path.expanduser(name.replace("\0", ""))) for name in (path, folder))
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def parsed(text: str | bytes | bytearray) -> Any:
    """The JSON value that a text is, None when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def mapping(value: Any) -> dict[str, Any]:
    """The value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def word(value: Any) -> str:
    """The value when it is a text, else ""."""
    return fit(value) if isinstance(value, str) else ""


def one_line(text: str) -> str:
    """A text on one line, its control characters shown and not obeyed."""
    return am.shown(text).replace("\n", "\\n")


def name(value: Any) -> str:
    """A name or a number as text that can be stored and stand in a path; "" when it is neither."""
    return "" if isinstance(value, bool) or not isinstance(value, (str, int)) else fit(str(value)).replace("\0", "")


def natural(value: Any, other: int) -> int:
    """The value when it can number a record, else the other."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else other


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


class Unknown(am.LogUnreadable):
    """A file that is no log of a kind we know."""


# ── Messages ─────────────────────────────────────────────────────────────────
# key → English, Chinese.

MESSAGES = {
    "bad": ("{path}: {bad} lines could not be read", "{path}：{bad} 行无法读取"),
    "busy": ("busy: another run is working on {root}", "正忙：另一个进程正在处理 {root}"),
    "done": ("sessions: {sessions}  new turns: {turns}  facts: {facts}{outcomes}",
             "{sessions} 个会话，{turns} 轮新对话，{facts} 条要点{outcomes}"),
    "dry": ("dry run, nothing is written; --apply keeps the facts", "仅预览，未写入；加 --apply 才会保存"),
    "empty": ("{path}: {records} records but nothing anyone said: {kinds}", "{path}：有 {records} 条记录，但没有任何对话：{kinds}"),
    "full": ("--max reached: {turns} turns wait for the next run", "已达 --max：{turns} 轮留待下次处理"),
    "gone": ("{path}: no session log there, nothing to do", "{path}：没有会话日志，无需处理"),
    "kept": (" ({counts})", "（{counts}）"),
    "nested": (GUARD + " is set: a digest started this run, so it does nothing",
               "已设置 " + GUARD + "：由摘要进程启动，不做任何事"),
    "newer": ("{path}: log version {version} is newer than this reader; read leniently",
              "{path}：日志版本 {version} 比本程序新，按宽松方式读取"),
    "none": ("no session to learn from under {home} ({logs} logs)", "{home} 下没有可沉淀的会话（{logs} 个日志）"),
    "subagent": ("{path}: a sub-agent's session, skipped; --include-subagents reads it",
                 "{path}：子智能体会话，已跳过；--include-subagents 可读取"),
    "told": ("{why}", "{why}"),
    "took": ("{path}: {new} new turns of {read}", "{path}：共 {read} 轮，其中 {new} 轮是新的"),
    "torn": ("{path}: the end is missing (torn); what is there was read", "{path}：结尾不完整（torn），已读取现有部分"),
    "unknown": ("{count} files hold no conversation, passed over", "{count} 个文件不含对话，已跳过"),
    "weak": ("digest: {why}", "摘要降级：{why}"),
    "withheld": ("passed over, for somebody asked not to keep it: {n} turns", "有人要求不记，已略过 {n} 轮"),
}


WORDS = {"user": "用户", "assistant": "助手", "added": "新增", "merged": "合并", "unchanged": "未变", "refused": "拒绝"}


def in_words(word: str, lang: str) -> str:
    """A role or an outcome as people read it."""
    return WORDS.get(word, word) if lang == "zh" else word


def padded(word: str) -> str:
    """A word ten columns wide."""
    return word + " " * (10 - am.width(word))


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
    items = objects(document)
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


class Stored(am.Record):
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
            raise am.LogUnreadable(f"{path}: {why}", "is an agent writing to it? the next run tries again") from None


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


def kept_in(base: Any, schema: Schema) -> list[Stored]:
    """The sessions of a database, that written to last at the end."""
    said: dict[str, list[float]] = {}
    for row in rows(base, schema.messages, f"session_id {' '.join(TIMES)}"):
        said.setdefault(str(row.get("session_id")), []).append(latest(row))
    kept = []
    for row in rows(base, schema.sessions, f"id {schema.parent} {' '.join(TIMES)}"):
        times = said.get(id := str(row.get("id")), [])
        kept.append(Stored(id, int(max([latest(row), *times]) * schema.unit), len(times), str(row.get(schema.parent) or "")))
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

    def kept(self) -> list[Stored]:
        """What there is, without reading it."""
        return list(asked(self.path, lambda base: kept_in(base, self._schema(base))))

    def _schema(self, base: Any) -> Schema:
        tables = {row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for schema in SCHEMAS:
            if tables >= schema.tables:
                return schema
        raise Unknown(f"{self.path}: a database, but of no agent that is known", "known: opencode.db, state.db of Hermes")


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
            told.sort(key=lambda message: (
                moment(mapping(message.get("time")).get("created"), "milliseconds"), str(message.get("id"))))
            yield {"info": info, "messages": [
                {"info": message, "parts": self._below("part", os.path.basename(str(message.get("id"))))} for message in told]}

    def _below(self, *folder: str) -> list[dict[str, Any]]:
        from glob import escape, glob
        return list(self._read(sorted(glob(os.path.join(escape(os.path.join(self._storage, *folder)), "*.json")))))

    def _read(self, paths: Iterable[str]) -> Iterator[dict[str, Any]]:
        for path in filter(os.path.isfile, paths):             # a pipe would be waited for
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


# ── Readers ──────────────────────────────────────────────────────────────────
# One small class a format, and one line in READERS.  `claims` sees the first
# record of a log; `take` gets each and says or skips.


def parts(content: Any, deep: int = 8) -> list[dict[str, Any]]:
    """The parts of a message's content: a string, parts, or results that hold parts; nothing said lies deeper than `deep`."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [inner for part in objects(content)
            for inner in ([part] if part.get("type") != "tool-result" or not deep else parts(part.get("content"), deep - 1))]


def wording(content: Any) -> str:
    """The text of a message's content."""
    texts = (part.get("text") for part in parts(content) if part.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def answers(text: str) -> str:
    """What a person chose when asked: {"answers": [{"id", "selected", "custom"}]} as "id: a; b"."""
    said = []
    for answer in objects(mapping(parsed(text)).get("answers")):
        selected = answer.get("selected")
        chosen = [*(selected if isinstance(selected, list) else [selected]), answer.get("custom")]
        if words := "; ".join(str(word) for word in chosen if word):
            said.append(f"{answer['id']}: {words}" if answer.get("id") else words)
    return "; ".join(said)


class Chat:
    """JSON lines of {"role", "content"}, or of {"messages": [such]}; other formats build on it."""

    agent = "jsonl"
    newest = 0                             # the newest header version this reader knows
    whole = False                          # whether each record is a session of its own

    def __init__(self) -> None:
        self.id, self.version, self.subagent, self.own = "", 0, False, False
        self.turns: list[Turn] = []
        self.skipped: dict[str, int] = {}  # what was left out
        self.seq = -1
        self.cwd, self.parents = "", list[str]()

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        """Whether a log that begins so is of this format."""
        return "role" in first and "content" in first or isinstance(first.get("messages"), list)

    def take(self, record: dict[str, Any]) -> None:
        """Look at one record of the log."""
        several = record.get("messages")
        for said in map(mapping, several if isinstance(several, list) else [record]):
            self.seq += 1
            self.say(str(said.get("role")), wording(said.get("content")))

    def finish(self) -> None:
        """The log has ended; for formats that can only then tell what was said."""

    def say(self, role: str, text: str, at: str = "", key: str = "") -> None:
        """A turn, unless nothing is left of it without injected blocks."""
        self.ours(text)
        if role not in ("user", "assistant"):
            self.skip(role)
        elif words := spoken(text):
            self.turns.append(Turn(role, words, self.seq, at, key))
        elif text.strip():
            self.skip("injected")

    def ours(self, text: str) -> None:
        """Note a session that begins as a digest of ours does."""
        self.own |= text.startswith(OWN_DIGEST) and not self.turns

    def skip(self, kind: str) -> None:
        """Count a record that is not taken."""
        kind = fit(kind) if len(kind) <= 80 else "unknown"          # cut short, a secret in it would no longer be known as one
        self.skipped[kind] = self.skipped.get(kind, 0) + 1


class Dsh(Chat):
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
        self.seq = natural(seq, self.seq + 1)                  # snapshots have no seq
        if kind == "session/end-seed":
            self._copied = False           # in a session without a seed this only marks a resume
        elif self._copied or self.seq <= self._seed:
            self.skip("seed")
        elif kind == "user/message":
            self._user(event, data)
        elif kind == "assistant/message":
            self._assistant(event, mapping(data.get("message")))
        elif kind == "tool/result" and self._asked:
            self._answer(event, data)
        else:
            if kind == "tool/call" and data.get("name") == "ask_user_question":
                self._asked.add(str(data.get("callId")))
            self.skip(kind)

    def _open(self, header: dict[str, Any]) -> None:
        number = {key: value for key, value in header.items() if isinstance(value, int)}
        self.id, self.version = fit(str(header.get("id") or "")), number.get("version", 0)
        self._seed, self._copied = number.get("seedLength", -1), header.get("isSeeded") is True
        self.subagent = header.get("origin") == "subagent" or number.get("delegationDepth", 0) > 0
        self.cwd, self.parents = word(header.get("cwd")), list(filter(None, [word(header.get("parentSession"))]))

    def _user(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        source = data.get("source")
        kind = mapping(source).get("kind", "user") if isinstance(source, dict) else source or "user"
        if isinstance(event.get("surfaceOp"), dict):
            self.skip("user/message:replaced")
        elif kind != "user":
            self.skip(f"user/message:{kind}")
        else:
            self.say("user", wording(data.get("content")), moment(event.get("time")))

    def _assistant(self, event: dict[str, Any], reply: dict[str, Any]) -> None:
        for part in parts(reply.get("content")):
            if part.get("name") == "ask_user_question":
                self._asked.add(str(part.get("id")))
            if part.get("type") != "text":
                self.skip(str(part.get("type")))
        if isinstance(event.get("surfaceOp"), dict):
            return self.skip("assistant/message:replaced")
        self.say("assistant", wording(reply.get("content")), moment(event.get("time")))

    def _answer(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        reply = mapping(data.get("message")) or data
        content = reply.get("content")
        calls = [mapping(reply.get("source")).get("callId"), reply.get("toolCallId"), data.get("callId"),
                 *(part.get("toolCallId") for part in objects(content))]
        said = answers(wording(content)) if self._asked & set(map(str, calls)) - {"None"} else ""
        if said:
            self.say("user", said, moment(event.get("time")))
        else:
            self.skip("tool/result")


# What Claude Code puts where a person's words would stand; the whole record goes, for what follows such a block
# is no one's words either.
HARNESS = re.compile(r"\s*(?:<(?:task-notification|teammate-message|local-command-\w+|bash-(?:input|stdout|stderr))\b"
                     r"|Caveat: The messages below were generated|Stop hook feedback:"
                     r"|This session is being continued from a previous conversation)")
INTERRUPTED = re.compile(r"\[Request interrupted by user[^\]\n]{0,40}\]")


def typed(content: Any) -> str:
    """What a person typed into Claude Code; of a slash command the words after it."""
    texts = [word(part.get("text")) for part in parts(content) if part.get("type") == "text"]
    text = spoken("\n".join(text for text in texts if not text.startswith("<ide_")))
    if HARNESS.match(text):
        return ""
    if text.startswith("<command-"):
        return text.partition("<command-args>")[2].rpartition("</command-args>")[0].strip()
    return INTERRUPTED.sub("", text).strip()


class Claude(Chat):
    """Claude Code: a record a line, and a reply in as many of them as it has blocks.

    | record                        | taken                                                             |
    |-------------------------------|-------------------------------------------------------------------|
    | user                          | what was typed; not isMeta, summaries, and words of other origin  |
    | … that answers a question     | of AskUserQuestion: question → answer                             |
    | assistant                     | its text, joined by message.id; not what the harness made up      |
    | attachment queued_command     | what a person typed while the agent worked                        |
    | queue-operation remove        | the same in other versions; not when it became a turn as well     |
    | isSidechain                   | a sub-agent's: not unless the whole log is one, then marked so    |
    | a uuid that was taken         | no: resumes write records again.  sessionId decides nothing       |
    """

    agent = "claude-code"

    def __init__(self) -> None:
        super().__init__()
        self._main = False                 # whether someone spoke who is no sub-agent
        self._aside: list[tuple[int, dict[str, Any]]] = []
        self._taken: set[str] = set()      # uuids
        self._asked: set[str] = set()      # ids of calls that asked the person
        self._replies: dict[str, int] = {}                     # message.id → its turn
        self._queued: list[Turn] = []

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        spoken_by = first.get("type") in ("user", "assistant") and isinstance(first.get("message"), dict)
        signs = {"uuid", "sessionId", "leafUuid", "isSnapshotUpdate"} & first.keys()
        return spoken_by or isinstance(first.get("type"), str) and "payload" not in first and bool(signs)

    def take(self, record: dict[str, Any]) -> None:
        self.seq += 1
        self._place(record)
        spoken_by = record.get("type") in ("user", "assistant")
        if not (spoken_by and record.get("isSidechain") is True):
            self._main |= spoken_by
            self._record(record)
        elif self._main or str(record.get("agentId")).startswith("acompact"):   # the run that wrote a summary
            self.skip("sidechain")
        else:
            self._aside.append((self.seq, record))

    def finish(self) -> None:
        self.subagent = bool(self._aside) and not self._main
        if self.subagent:                                      # it names the session it works for, whose turns are others
            self.id = "/".join(filter(None, [self.id, word(self._aside[0][1].get("agentId"))]))
        for seq, record in self._aside:
            self.seq = seq
            if self.subagent:
                self._record(record)
            else:
                self.skip("sidechain")
        said = {turn.text for turn in self.turns}
        self.turns = sorted([*self.turns, *(turn for turn in self._queued if turn.text not in said)], key=lambda turn: turn.seq)

    def _place(self, record: dict[str, Any]) -> None:
        """Where and in which session it happened: the log of a resumed one names several, the last is its own."""
        self.cwd = self.cwd or word(record.get("cwd"))
        id = word(record.get("sessionId"))
        if id and id != self.id:
            self.parents = [other for other in dict.fromkeys([*self.parents, self.id]) if other not in ("", id)]
            self.id = id

    def _record(self, record: dict[str, Any]) -> None:
        kind, message, attached = str(record.get("type")), mapping(record.get("message")), mapping(record.get("attachment"))
        if word(record.get("uuid")) in self._taken:
            self.skip("repeated")
        elif kind == "user":
            self._user(record, message)
        elif kind == "assistant":
            self._assistant(record, message)
        elif kind == "attachment" and attached.get("type") == "queued_command" and attached.get("commandMode") == "prompt":
            self._typed("attachment:queued_command", record, attached, typed(attached.get("prompt")))
        elif kind == "queue-operation" and record.get("operation") == "remove" and typed(record.get("content")):
            self._queued.append(Turn("user", typed(record.get("content")), self.seq, moment(record.get("timestamp"))))
        else:
            self.skip(":".join(filter(None, [kind, word(record.get("subtype")), word(attached.get("type"))])))

    def _user(self, record: dict[str, Any], message: dict[str, Any]) -> None:
        for sign in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"):
            if record.get(sign) is True:
                return self.skip(f"user:{sign}")
        content = message.get("content")
        kinds = [str(part.get("type")) for part in parts(content) if part.get("type") != "text"]
        self.ours(wording(content))
        self._typed(":".join(["user", *kinds[:1]]), record, record, self._answers(record, content) or typed(content))

    def _typed(self, kind: str, record: dict[str, Any], told: dict[str, Any], text: str) -> None:
        origin = mapping(told.get("origin")).get("kind") or "human"
        if origin != "human" or not text:
            return self.skip(kind if origin == "human" else f"{kind}:{origin}")
        self._said("user", text, record)

    def _answers(self, record: dict[str, Any], content: Any) -> str:
        """What the person chose when asked; no other tool can speak for them."""
        if not self._asked & {str(part.get("tool_use_id")) for part in parts(content)}:
            return ""
        given = mapping(mapping(record.get("toolUseResult")).get("answers")).items()
        chosen = {question: ", ".join(map(str, answer)) if isinstance(answer, list) else word(answer) for question, answer in given}
        return "\n".join(f"{question} → {answer}" for question, answer in chosen.items() if answer)

    def _assistant(self, record: dict[str, Any], message: dict[str, Any]) -> None:
        content, id = message.get("content"), word(message.get("id"))
        self._asked |= {str(part.get("id")) for part in parts(content) if part.get("name") == "AskUserQuestion"}
        text = spoken(wording(content))
        if record.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
            self.skip("assistant:synthetic")
        elif not text:
            self.skip(":".join(["assistant", *(str(part.get("type")) for part in parts(content)[:1])]))
        elif id in self._replies:
            turn = self.turns[self._replies[id]]               # the last key: a reply that has grown is read again
            self.turns[self._replies[id]] = am.replace(turn, text=f"{turn.text}\n{text}", key=word(record.get("uuid")))
            self._taken |= {word(record.get("uuid"))} - {""}
        else:
            self._replies |= {id: len(self.turns)} if id else {}
            self._said("assistant", text, record)

    def _said(self, role: str, text: str, record: dict[str, Any]) -> None:
        uuid = word(record.get("uuid"))
        self._taken |= {uuid} - {""}
        self.say(role, text, moment(record.get("timestamp")), uuid)


# How Codex begins a block that it puts among a person's words.
CODEX_BLOCKS = ("<user_instructions>", "# AGENTS.md instructions for ", "<INSTRUCTIONS>", "<environment_context>", "<turn_aborted>",
                "<user_shell_command>", "<skill>", "<subagent_notification>", "<permissions instructions>", "<collaboration_mode>",
                "<hook_prompt", "<image>", "<image name=", "</image>")
CODEX_REQUEST = "## My request for Codex:"                     # an editor tells of its open files above this line


class Codex(Chat):
    """Codex CLI: every text stands in its log two or three times, and which of them is there changed with the builds.

    | record                                     | taken                                                          |
    |--------------------------------------------|----------------------------------------------------------------|
    | event user_message, agent_message          | yes                                                            |
    | event item_completed                       | UserMessage, AgentMessage; not beside the same words of above  |
    | response_item message, user or assistant   | when no event has that role; without the blocks Codex put in   |
    | … assistant, directly before `compacted`   | no: it is the summary                                          |
    | … developer                                | no: instructions and what hooks said                           |
    | compacted                                  | no: it repeats old turns                                       |
    | session_meta                               | the first is this session's, others those of its parents       |
    """

    agent = "codex"
    EVENTS = {"user_message": "user", "UserMessage": "user", "agent_message": "assistant", "AgentMessage": "assistant"}

    def __init__(self) -> None:
        super().__init__()
        self._heard: list[tuple[str, Turn]] = []               # what wrote it: a kind of event, or "item"
        self._at = ""

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        return isinstance(first.get("type"), str) and "payload" in first or {"id", "timestamp", "instructions"} <= first.keys()

    def take(self, record: dict[str, Any]) -> None:
        kind, ordinal = str(record.get("type", "session_meta")), record.get("ordinal")
        payload = mapping(record.get("payload")) if "payload" in record else record             # 2025: no envelope
        self.seq = natural(ordinal, self.seq + 1)
        self._at = moment(record.get("timestamp"))
        if kind == "session_meta":
            self._open(payload)
        elif kind == "event_msg":
            self._event(payload)
        elif kind in ("response_item", "message") and payload.get("type") == "message":
            self._item(payload)
        else:
            if kind == "compacted" and self._heard and self._heard[-1][0] == "item" and self._heard[-1][1].seq == self.seq - 1:
                self._heard.pop()
            self.skip(f"{kind}:{payload['type']}" if isinstance(payload.get("type"), str) and payload is not record else kind)

    def finish(self) -> None:
        events = {turn.role for wrote, turn in self._heard if wrote != "item"}
        before: dict[str, tuple[str, str]] = {}                # role → what wrote its last turn, and its words
        for wrote, turn in self._heard:
            if wrote == "item" and turn.role in events:
                self.skip("copy")
                continue
            other, words = before.pop(turn.role, (wrote, ""))
            if wrote != other and words == turn.text:          # the same said twice by the same kind of event was said twice
                self.skip("copy")
                continue
            before[turn.role] = wrote, turn.text
            self.seq = turn.seq
            self.say(turn.role, turn.text, turn.at)

    def _open(self, meta: dict[str, Any]) -> None:
        ids = [word(meta.get("id")), word(meta.get("forked_from_id"))]
        if not self.id:
            self.id, self.cwd = ids[0], word(meta.get("cwd"))
            self.subagent = isinstance(meta.get("source"), dict) or meta.get("thread_source", "user") not in ("user", None)
        self.parents = [id for id in dict.fromkeys([*self.parents, *ids]) if id not in ("", self.id)]

    def _event(self, event: dict[str, Any]) -> None:
        item = mapping(event.get("item"))
        kind = word((item if event.get("type") == "item_completed" else event).get("type"))
        texts = [part.get("text") for part in parts(item.get("content")) if str(part.get("type")).lower() == "text"]
        self._hear("event" if item else "legacy", self.EVENTS.get(kind, ""), texts if item else [event.get("message")],
                   f"event_msg:{kind}")

    def _item(self, item: dict[str, Any]) -> None:
        kinds = mapping(item.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds")
        blocks = objects(item.get("content"))
        if item.get("role") == "user" and isinstance(kinds, list) and len(kinds) == len(blocks):
            blocks = [block for block, kind in zip(blocks, kinds) if str(kind).startswith("user.")]
        role = word(item.get("role"))
        self._hear("item", role if role in ("user", "assistant") else "", [block.get("text") for block in blocks],
                   f"response_item:message:{role}")

    def _hear(self, wrote: str, role: str, texts: list[Any], kind: str) -> None:
        """Note what may turn out to be a turn when the log has ended."""
        told = list(filter(None, map(word, texts)))
        if role == "user":
            told = [text.rpartition(CODEX_REQUEST)[2].strip() for text in told if not text.lstrip().startswith(CODEX_BLOCKS)]
        words = "\n".join(told)
        if role and words:
            self._heard.append((wrote, Turn(role, words, self.seq, self._at)))
        else:
            self.skip(kind)


GEMINI_FILES = "--- Content from referenced files ---"          # what follows was read from disk, not typed
UNIQUE = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")


class Gemini(Chat):
    """Gemini CLI: messages that are told again as they grow, replaced and taken back; before 2026 one JSON document.

    | record                 | effect                                                    |
    |------------------------|-----------------------------------------------------------|
    | {"sessionId", …}       | the header, or with "messages" the whole document         |
    | {"id", "type", …}      | a message; the last of an id counts                       |
    | {"$set": {"messages"}} | these are the messages now                                |
    | {"$rewindTo": id}      | this message and those after it go; of an unknown id, all |

    Of the messages `user` and `gemini` are turns; <session_context> was put there.
    """

    agent = "gemini"

    def __init__(self) -> None:
        super().__init__()
        self._messages: dict[str, tuple[int, dict[str, Any]]] = {}

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        messages = first.get("messages")
        others = isinstance(messages, list) and any("role" in mapping(message) for message in messages)
        known = "sessionId" in first and bool({"projectHash", "startTime", "kind", "messages"} & first.keys())
        return known and "type" not in first and not others or "$set" in first or "$rewindTo" in first

    def take(self, record: dict[str, Any]) -> None:
        self.seq += 1
        told = mapping(record.get("$set")) or record
        if "$rewindTo" in record:
            self._rewind(str(record["$rewindTo"]))
        elif isinstance(told.get("messages"), list):
            before = dict(self._messages)
            self._messages.clear()
            for number, message in enumerate(told["messages"]):
                self.seq += number > 0             # each is a turn of its own
                self._keep(mapping(message), before)
        elif "$set" not in record and "sessionId" not in record:
            self._keep(record, self._messages)
        self.id = word(told.get("sessionId")) or self.id
        self.subagent |= told.get("kind") == "subagent"

    def finish(self) -> None:
        for seq, message in self._messages.values():
            self.seq = seq
            role = {"user": "user", "gemini": "assistant"}.get(str(message.get("type")), "")
            text = self._text(message, role)
            if not role or not text or text.startswith(("<session_context>", "This is the Gemini CLI.")):
                self.skip(str(message.get("type")))
            else:
                id = word(message.get("id"))
                self.say(role, text, moment(message.get("timestamp")), id if UNIQUE.fullmatch(id) else "")

    def _text(self, message: dict[str, Any], role: str) -> str:
        typed = message.get("displayContent") if role == "user" else None       # before files were read into it
        content = typed or message.get("content")
        texts = [content] if isinstance(content, str) else [word(part.get("text")) for part in parts(content)]
        text = "\n".join(filter(None, texts))
        if not self.cwd and (found := re.search(r"Workspace Directories:\*\*\n\s+- (\S.*)", text[:4000])):
            self.cwd = found[1].strip()
        return text.partition(GEMINI_FILES)[0] if role == "user" else text

    def _keep(self, message: dict[str, Any], before: dict[str, tuple[int, dict[str, Any]]]) -> None:
        id = word(message.get("id")) or f"#{self.seq}.{len(self._messages)}"
        self._messages[id] = before[id][0] if id in before else self.seq, message

    def _rewind(self, id: str) -> None:
        ids = list(self._messages)
        for later in ids[ids.index(id) if id in self._messages else 0:]:
            del self._messages[later]


class OpenCode(Chat):
    """OpenCode: {"info", "messages": [{"info", "parts"}]}, as its export and Databases give it."""

    agent, whole = "opencode", True

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        return isinstance(first.get("info"), dict) and isinstance(first.get("messages"), list)

    def take(self, session: dict[str, Any]) -> None:
        info = mapping(session.get("info"))
        self.id, self.cwd, self.subagent = name(info.get("id")), name(info.get("directory")), bool(info.get("parentID"))
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
            self.say(str(told.get("role")), wording(texts), moment(mapping(told.get("time")).get("created")), name(told.get("id")))


class Hermes(Chat):
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
        config, parent = session.get("model_config"), name(session.get("parent_session_id"))
        config = mapping(parsed(config) if isinstance(config, str) else config)
        self.id = name(session.get("id")) or name(session.get("session_id"))
        self.cwd = name(session.get("cwd")) or name(config.get("cwd"))
        self.subagent = "_delegate_from" in config or session.get("source") in ("tool", "delegate", "subagent")
        self.parents = [parent] if parent and not self.subagent else []        # a branch copies, a compression goes on
        for message in objects(session.get("messages")):
            self.seq += 1
            self._message(message)

    def _message(self, message: dict[str, Any]) -> None:
        content, id = message.get("content"), name(message.get("id"))
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
            self.say(str(message.get("role")), text, moment(message.get("timestamp")), id and f"{self.id}:{id}")


class ChatGpt(Chat):
    """ChatGPT's export: conversations whose "mapping" is a tree of messages; what stands on the shown branch."""

    agent, whole = "chatgpt", True

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        return isinstance(first.get("mapping"), dict)

    def take(self, session: dict[str, Any]) -> None:
        self.id = name(session.get("conversation_id")) or name(session.get("id"))
        for message in self._branch(mapping(session.get("mapping")), session.get("current_node")):
            self.seq += 1
            content, about = mapping(message.get("content")), mapping(message.get("metadata"))
            if about.get("is_visually_hidden_from_conversation") or message.get("recipient", "all") not in ("all", None):
                self.skip("hidden")
            elif content.get("content_type") not in ("text", "multimodal_text"):
                self.skip(name(content.get("content_type")))
            else:
                pieces = content.get("parts")
                texts = [piece if isinstance(piece, str) else mapping(piece).get("text")
                         for piece in (pieces if isinstance(pieces, list) else ())]
                words = "\n".join(text for text in texts if isinstance(text, str))
                self.say(str(mapping(message.get("author")).get("role")), words, moment(message.get("create_time")),
                         name(message.get("id")))

    def _branch(self, nodes: dict[str, Any], current: Any) -> list[dict[str, Any]]:
        """The messages from the root to the current node, or all by their time when there is no such node."""
        line: dict[str, dict[str, Any]] = {}                   # a parent may be its own child in a broken file
        while isinstance(current, str) and current in nodes and current not in line:
            line[current] = mapping(nodes[current])
            current = line[current].get("parent")
        found = [mapping(mapping(node).get("message")) for node in (reversed(line.values()) if line else nodes.values())]
        if not line:
            found.sort(key=lambda message: moment(message.get("create_time"), "milliseconds"))
        return [message for message in found if message]


class ShareGpt(Chat):
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


class CursorAgent(Chat):
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


class Cline(Chat):
    """Cline's api_conversation_history.json: messages that hold results of tools and the state of the editor, too."""

    agent = "cline"
    NAME = "api_conversation_history.json"                     # of every log; its folder is the task
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


class Transcript(Chat):
    """A plain or Markdown text that names who speaks."""

    agent = "text"

    @staticmethod
    def claims(first: dict[str, Any]) -> bool:
        return isinstance(first.get("transcript"), list)

    def take(self, record: dict[str, Any]) -> None:
        super().take({"messages": objects(record.get("transcript"))})


GENERATION = re.compile(r"session(?:\.v(\d{1,4}))?\.jsonl(?:\.zstd?)?")
READERS = (Dsh, Claude, Codex, Gemini, OpenCode, Hermes, ChatGpt, ShareGpt, CursorAgent, Cline, Transcript, Chat)
GENERIC = (ShareGpt, Transcript, Chat)                  # a file without a turn is none of these


def unrecognised(path: str, fault: str = "") -> Unknown:
    """That nobody can be seen to speak in a file."""
    known = ", ".join(reader.agent for reader in READERS)
    return Unknown(f"{path}: no conversation was recognised{fault and f': {fault}'}", f"known formats: {known}")


def reader_for(first: dict[str, Any] | None, path: str, agent: str = "", fault: str = "") -> Chat:
    """A fresh reader for the log that begins with this record; where it lies helps when that tells nothing, or is not there yet."""
    for reader in READERS:
        if first and reader.claims(first):
            return reader()
    place = Dsh.agent if GENERATION.fullmatch(os.path.basename(path)) else agent
    for reader in READERS:
        if reader.agent == place and not reader.whole:
            return reader()
    raise unrecognised(path, fault)


def read_session(path: str, subagents: bool = True, session: str = "", agent: str = "") -> Session:
    """The conversation in a log file, or the one of this name in a file of many; see `read_sessions`."""
    found = next(read_sessions(path, subagents, session, agent), None)
    if found is None:
        raise am.LogUnreadable(f"{path}: no session {session}".rstrip(), "name another file")
    return found


def read_sessions(path: str, subagents: bool = True, only: str = "", agent: str = "") -> Iterator[Session]:
    """The conversations in a file, by its place of `agent`, oldest first, or `only` one of them; `subagents=False` reads of a
    sub-agent's no more than its header."""
    from itertools import chain
    log = source(path, only)
    records = log.records()
    first = next(records, None)
    if first is None and isinstance(log, Database):
        if only:
            return
        raise unrecognised(path, "it holds no session")
    reader = reader_for(first, path, agent, log.fault)
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
    yield session_of(reader, path, log)


def whole_sessions(path: str, log: Log | Database | Tree, records: Iterable[dict[str, Any]], only: str) -> Iterator[Session]:
    """The sessions of a file whose records are one each, that spoken in last at the end; they are told apart by path#session."""
    readers: list[Chat] = []
    for record in records:
        kind = next((kind for kind in READERS if kind.claims(record)), Chat)
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
            yield session_of(reader, f"{path}#{reader.id}" if many else path, log)
            log = Log(path)                                    # what could not be read is told of once


def session_of(reader: Chat, path: str, log: Log | Database | Tree) -> Session:
    """What a reader made of its log."""
    reader.finish()
    signs = {"torn": log.torn, "bad": log.bad > 0, "newer": reader.version > reader.newest,
             "empty": bool(reader.skipped) and not (reader.turns or reader.subagent)}
    name, folder = os.path.basename(path), os.path.basename(os.path.dirname(os.path.abspath(path)))
    named = folder if GENERATION.fullmatch(name) or name == Cline.NAME else name
    return Session(path, reader.agent, reader.id or named, reader.version, tuple(reader.turns), reader.skipped, log.torn,
                   reader.subagent or folder == "subagents", reader.own, log.bad, tuple(key for key, on in signs.items() if on),
                   reader.cwd, tuple(reader.parents), bool(reader.id))


# ── Finding ──────────────────────────────────────────────────────────────────

class Held(am.Record):
    """A session that someone keeps: a file, or one of those in a database."""

    path: str
    agent: str                             # "" when its place does not tell
    session: str = ""                      # its id in the database; "" for a file
    changed: int = 0                       # nanoseconds since 1970
    size: int = 0


def held(path: str, agent: str = "") -> Held | None:
    """A log file as it is now; None when there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return Held(path, agent, "", stat.st_mtime_ns, stat.st_size) if S_ISREG(stat.st_mode) else None


def newest_first(logs: Iterable[Held]) -> list[Held]:
    """Sessions by when they were last written, ties by path."""
    return sorted(logs, key=lambda log: (-log.changed, log.path, log.session))


def still(path: str) -> str:
    """The path of a log, or what it became while nobody looked: compressed, or unpacked to be written again."""
    other = path.removesuffix(".zst") if path.endswith(".zst") else f"{path}.zst"
    return other if not os.path.exists(path) and os.path.isfile(other) else path


# Which session a file holds and which copy of it is to be preferred, the greatest; None: it is no log.

def dsh_copy(path: str) -> tuple[str, int] | None:
    """An upgrade leaves the logs of older formats in the directory of the session."""
    match = GENERATION.fullmatch(os.path.basename(path))
    return (os.path.dirname(path), int(match[1] or 0)) if match else None


def claude_copy(path: str) -> tuple[str, int] | None:
    """One file a session; the run that wrote a summary is nobody's."""
    return None if os.path.basename(path).startswith("agent-acompact") else (path, 0)


def codex_copy(path: str) -> tuple[str, int] | None:
    """While a log is compressed or archived both are there: plain before packed, live before archived."""
    match = re.fullmatch(r"rollout-.*?([0-9a-f-]{36})?\.jsonl(\.zst)?", os.path.basename(path))
    return (match[1] or path, 2 * (f"{os.sep}archived_sessions{os.sep}" not in path) + (not match[2])) if match else None


def gemini_copy(path: str) -> tuple[str, int] | None:
    """A resume rewrites an old .json as .jsonl beside it."""
    stem, suffix = os.path.splitext(path)
    return (stem, int(suffix == ".jsonl")) if suffix in (".json", ".jsonl") else None


def one_each(paths: Iterable[str], agent: str, copy: Callable[[str], tuple[str, int] | None]) -> list[Held]:
    """The log of each session: of copies the preferred, of equals the one that was written last."""
    found = [(*told, log) for path in paths if (told := copy(path)) and (log := held(path, agent))]
    found.sort(key=lambda one: (one[1], one[2].changed, one[2].path))
    return list({session: log for session, _, log in found}.values())      # the last of a session is the best


def matching(home: str, pattern: str) -> Iterator[str]:
    """The paths below a home that a pattern names; each folder of a ** is looked at once, however many links lead to it."""
    from fnmatch import fnmatchcase
    from glob import escape, glob
    above, _, name = pattern.rpartition("/**/")
    if not above:
        yield from glob(os.path.join(escape(home), pattern), include_hidden=True)
        return
    seen = set[tuple[int, int]]()
    for start in glob(os.path.join(escape(home), above), include_hidden=True):
        for folder, below_it, names in os.walk(start, followlinks=True):
            stat = os.stat(folder)
            if (stat.st_dev, stat.st_ino) in seen:
                below_it.clear()
                continue
            seen.add((stat.st_dev, stat.st_ino))
            yield from (os.path.join(folder, one) for one in names if fnmatchcase(one, name))


class Files:
    """An agent that keeps each session in a file, below its home where `logs` say."""

    def __init__(self, name: str, variable: str, home: str, copy: Callable[[str], tuple[str, int] | None], *logs: str) -> None:
        self.name, self._variable, self._home, self._copy, self._logs = name, variable, home, copy, logs

    @property
    def home(self) -> str:
        """Where this agent keeps its things."""
        return os.path.expanduser(os.environ.get(self._variable) or self._home)

    def found(self) -> Iterable[Held]:
        """Its sessions."""
        return one_each((path for logs in self._logs for path in matching(self.home, logs)), self.name, self._copy)


class Bases(Files):
    """An agent that keeps its sessions in a database; what it kept before in files is left behind there."""

    def __init__(self, name: str, variable: str, home: str, base: str, *logs: str) -> None:
        super().__init__(name, variable, home, lambda path: (path, 0), *logs)           # there are no copies
        self._base = base

    def found(self) -> Iterable[Held]:
        """Its sessions."""
        path = os.path.join(self.home, self._base)
        if not (base := held(path, self.name)):
            return super().found()
        try:
            return [Held(path, self.name, kept.session, kept.changed, kept.size) for kept in Database(path).kept()]
        except am.LogUnreadable:
            return [base]                                      # whoever reads it says why


AGENTS = {agent.name: agent for agent in (
    Files("dsh", "DSH_HOME", "~/.dsh", dsh_copy, "sessions/*/*/session*"),
    Files("claude-code", "CLAUDE_CONFIG_DIR", "~/.claude", claude_copy,
          "projects/*/*.jsonl", "projects/*/*/subagents/**/agent-*.jsonl"),
    Files("codex", "CODEX_HOME", "~/.codex", codex_copy, "sessions/**/rollout-*", "archived_sessions/**/rollout-*"),
    Files("gemini", "GEMINI_CLI_HOME", "~", gemini_copy, ".gemini/tmp/*/chats/session-*", ".gemini/tmp/*/chats/*/*"),
    Bases("opencode", "XDG_DATA_HOME", "~/.local/share", "opencode/opencode.db", "opencode/storage/session/*/ses*.json"),
    Bases("hermes", "HERMES_HOME", "~/.hermes", "state.db", "sessions/session_*.json"),
)}
SUBAGENTS = {"claude-code": re.compile(r"/agent-[^/]*$"), "gemini": re.compile(r"/chats/[^/]+/[^/]+$")}
LOG = re.compile(r".+\.(?:jsonl?|md|txt|db)(?:\.zstd?)?", re.IGNORECASE)


def by_subagent(log: Held) -> bool:
    """Whether its place tells that a sub-agent wrote it."""
    place = SUBAGENTS.get(log.agent)
    return bool(place and place.search(log.path.replace(os.sep, "/")))


def any_copy(path: str) -> tuple[str, int] | None:
    """By the name of the file, when its place tells nothing."""
    return dsh_copy(path) or codex_copy(path) or claude_copy(path)


def logs_below(folder: str, closed: Callable[[am.LogUnreadable], object]) -> Iterator[Held]:
    """What may be a log in a directory, whoever wrote it; `closed` hears of a folder that is not there or not to be read."""
    def told(trouble: OSError) -> None:
        closed(am.LogUnreadable(f"{trouble.filename}: {trouble.strerror}", "is it there, and may this user read it?"))

    for place, _, names in os.walk(os.path.expanduser(folder), onerror=told):
        yield from one_each((os.path.join(place, name) for name in names if LOG.fullmatch(name)), "", any_copy)


def logs_in(folder: str) -> list[str]:
    """The log of a session directory."""
    from glob import escape, glob
    return [log.path for log in one_each(glob(os.path.join(escape(folder), "session*")), "", dsh_copy)]


def named_log(path: str) -> Held:
    """The log a person named: a file, or the newest generation in a session directory."""
    path = os.path.expanduser(path)
    log = next(filter(None, map(held, [path, *logs_in(path)])), None)
    if not log:
        raise am.LogUnreadable(f"{path}: no session log there", "name a log file or a session directory")
    return log


def readable(path: str) -> bool:
    """Whether a file that a person named holds a conversation; "" stands for whatever there is."""
    try:
        return not path or next(read_sessions(named_log(path).path), None) is not None
    except am.LogUnreadable:
        return False


# ── Cursor ───────────────────────────────────────────────────────────────────

class Cursor:
    """What earlier runs consumed, as keyed fingerprints of masked turns: nothing can be read from it.

    Turns are told by what was said, not by an offset: zstd logs cannot be
    seeked, and so a log that grew, shrank, was replaced, moved, copied or
    upgraded to a newer format gives exactly its unseen turns.
    A record that has an id of its own is told by that: wherever it was copied
    to, it was read.  A fork may begin with what its parent said, without ids.
    `logs` is only a shortcut: an unchanged file need not be opened.
    """

    def __init__(self, slot: Any) -> None:
        self._slot = slot
        state = slot.read()
        key, logs, sessions = state.get("key"), mapping(state.get("logs")), mapping(state.get("sessions"))
        records = state.get("records")
        whole = isinstance(key, str) and re.fullmatch("[0-9a-f]{32}", key)      # of another key's prints nothing can be known
        self._state: dict[str, Any] = {
            "key": key if whole else os.urandom(16).hex(), "last": state.get("last"),
            "logs": {log: entry for log, entry in logs.items() if isinstance(entry, list) and len(entry) == 3} if whole else {},
            "sessions": {name: marks for name, marks in sessions.items() if isinstance(marks, list)} if whole else {},
            "records": list(filter(word, records)) if whole and isinstance(records, list) else []}
        self._records = set(self._state["records"])

    def known(self, log: Held) -> str | None:
        """"" or why it was passed over, if this very log was read to its end; else None."""
        entry = self._state["logs"].get(self._place(log))
        return entry[2] if entry and entry[:2] == [log.size, log.changed] else None

    def unseen(self, session: Session) -> list[Turn]:
        """The turns that were not consumed; the same words said twice are two turns."""
        from collections import Counter
        seen = Counter(self._marks(session.agent, session.session))
        seen.update(self._marks(*self._own(session)) if not session.named else ())
        copied = Counter(mark for parent in session.parents for mark in self._marks(session.agent, parent))
        new = []
        for turn in session.turns:
            mark = self._mark(session, turn)
            if turn.key:
                if mark not in self._records:
                    new.append(turn)
            elif copied[mark] > 0:
                copied[mark] -= 1
            else:
                copied.clear()             # what was copied comes first; the same words further on are its own
                seen[mark] -= 1
                if seen[mark] < 0:
                    new.append(turn)
        return new

    def consume(self, session: Session, turns: Iterable[Turn], at_once: bool = True) -> None:
        """The memories of these turns are on disk; what need not be noted at once is by the next note of any."""
        for turn in turns:
            mark = self._mark(session, turn)
            if not turn.key:
                self._state["sessions"].setdefault(self._print(*self._own(session)), []).append(mark)
            elif mark not in self._records:
                self._records.add(mark)
                self._state["records"].append(mark)
        if at_once:
            self._slot.write(self._state)

    def close(self, log: Held, passed: str = "") -> None:
        """This log was read to its end."""
        self._state["logs"][self._place(log)] = [log.size, log.changed, passed]

    def record(self, last: dict[str, Any]) -> None:
        """How the run went, for `doctor` and `stats`."""
        self._state["last"] = last
        self._slot.write(self._state)

    def _marks(self, *who: str) -> list[str]:
        marks: list[str] = self._state["sessions"].get(self._print(*who), [])
        return marks

    def _own(self, session: Session) -> list[str]:
        """Who a session is; of many a chat.md each begins with other words."""
        return [session.agent, session.session, *([] if session.named else [turn.text for turn in session.turns[:1]])]

    def _mark(self, session: Session, turn: Turn) -> str:
        return self._print(session.agent, "record", turn.key) if turn.key else self._print(turn.role, turn.text)

    def _place(self, log: Held) -> str:
        return self._print(os.path.realpath(log.path), *filter(None, [log.session]))

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
        self._archives = options.archive == "on" or options.archive is None and memory.settings["digest"]["archive"]
        self._logs = self._unknown = 0
        self.data: list[dict[str, Any]] = []
        self.errors: dict[str, am.AgentMemoryError] = {}

    def run(self) -> None:
        """Digest every chosen log; one that cannot be read does not stop the others."""
        fatal = "interrupted"
        try:
            for log in self._chosen():
                try:
                    done = self._log(log)
                except am.LogUnreadable as trouble:
                    self._failed(log.path, trouble)
                    continue
                if done and self._options.mode == "latest":
                    break
            self._tell()
            if self._options.apply:
                self._memory.expire()      # also where nothing more is archived
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

    def _chosen(self) -> Iterator[Held]:
        """The logs to look at, in order."""
        options = self._options
        for path in options.session or ():
            try:
                yield named_log(still(os.path.expanduser(path)))
            except am.LogUnreadable:
                self._note("gone", path=path)
        for path in options.file or ():
            try:
                yield named_log(path)
            except am.LogUnreadable as trouble:
                self._failed(path, trouble)
        if options.mode in ("latest", "all"):
            logs = newest_first(log for log in self._found() if options.include_subagents or not by_subagent(log))
            self._logs = len(logs)
            yield from logs if options.mode == "latest" else reversed(logs)     # oldest first: later words win

    def _found(self) -> Iterator[Held]:
        for folder in self._options.dir or ():
            yield from logs_below(folder, self._closed)
        if not self._options.dir:
            for agent in self._agents():
                yield from agent.found()

    def _agents(self) -> list[Files]:
        return [agent for name, agent in AGENTS.items() if name in (self._options.agent or AGENTS)]

    def _failed(self, path: str, trouble: am.LogUnreadable) -> None:
        """Go on after a log that cannot be read; a directory may well hold files that are none, and a new session nothing yet."""
        if self._options.dir and isinstance(trouble, Unknown):
            self._unknown += 1
        elif self._options.session and isinstance(trouble, Unknown):
            self._note("gone", path=path)
        else:
            self._closed(trouble)

    def _closed(self, trouble: am.LogUnreadable) -> None:
        self.errors[trouble.message] = trouble

    def _tell(self) -> None:
        """What is to be said of a run over many logs when all were looked at."""
        options = self._options
        if self._unknown:
            self._note("unknown", count=self._unknown, warn=False)
        if options.mode in ("latest", "all") and not self.data and not self.errors and not (self._logs and options.mode == "all"):
            homes = options.dir or [agent.home for agent in self._agents()]
            self._note("none", home=", ".join(homes), logs=self._logs)

    def _log(self, log: Held) -> bool:
        """Read and digest one log; False when it is none to learn from or was read before."""
        options, named = self._options, self._options.mode == "file"
        known = None if named else self._cursor.known(log)
        if known == "" and options.mode != "latest" or known and not (known == "subagent" and options.include_subagents):
            return False
        told = [self._told(session, named and session.path == log.path)                     # of many, none is named
                for session in read_sessions(still(log.path), options.include_subagents, log.session, log.agent)]
        if not {"other", "waiting"} & set(told):
            self._cursor.close(log, told[0] if len(set(told)) == 1 else "")
        return bool({"", "waiting"} & set(told))

    def _told(self, session: Session, named: bool) -> str:
        """Digest a session; "" or why that was not done, or not to its end.  A person may name one nobody would learn from."""
        options = self._options
        if not self._wanted(session):
            return "other"
        passed = standing(session, options.include_subagents)
        if passed == "subagent" and named:
            self._note("subagent", path=session.path)
        if passed == "blank" and options.mode in ("latest", "all"):
            self._warn(session)
        if passed == "subagent" or passed and not named:
            return passed
        return "" if self._session(session) else "waiting"

    def _wanted(self, session: Session) -> bool:
        """Whether it is of the agents and the project that were asked for."""
        options = self._options
        return ((not options.agent or session.agent in options.agent)
                and (not options.project or bool(session.cwd) and below(session.cwd, options.project)))

    def _warn(self, session: Session) -> None:
        for key in session.warnings:
            self._note(key, path=session.path, version=session.version, bad=session.bad,
                       records=sum(session.skipped.values()), kinds=most(session.skipped))

    def _session(self, session: Session) -> bool:
        """Digest what is new in a session; False when --max left some of it for the next run."""
        clean = self._memory.clean
        session = masked(session, self._memory)
        new = self._cursor.unseen(session)
        entry = {"path": clean(session.path), "agent": session.agent, "session": session.alias,
                 "read": len(session.turns), "turns": [{"role": turn.role, "text": turn.text} for turn in new],
                 "facts": [], "applied": [], "withheld": 0, "skipped": {clean(kind): n for kind, n in session.skipped.items()},
                 "torn": session.torn, "bad": session.bad, "subagent": session.subagent}
        self.data.append(entry)
        if new or self._options.mode in ("latest", "file"):
            self._note("took", path=session.path, new=len(new), read=len(session.turns), warn=False)
        self._warn(session)
        waiting = len(new)
        rules = self._memory.settings["digest"]
        for batch in batches(new, rules["window"], rules["roles"]):
            if self._left == 0:
                self._note("full", turns=waiting)
                return False
            self._batch(session, batch, entry)
            waiting -= len(batch)
        return True

    def _batch(self, session: Session, batch: list[Turn], entry: dict[str, Any]) -> None:
        """Digest a run of turns; they count as read once what they hold is on disk, so nothing of it is left out."""
        options, roles = self._options, self._memory.settings["digest"]["roles"]
        result = self._memory.digest(talk(batch, roles), apply=options.apply, verified=options.verified,
                                     origin=lambda fact: self._provenance(session, batch, fact))
        entry["facts"] += [fact.to_dict() for fact in result.facts]
        entry["applied"] += [kept.to_dict() for kept in result.applied]
        entry["withheld"] += result.withheld
        if self._left is not None:
            self._left = max(0, self._left - len(result.facts))
        if result.degraded:
            self._note("weak", why=result.degraded)
        if options.apply:
            if self._archives:
                self._memory.archive(session.agent, session.alias, [turn.to_dict() for turn in batch])
            # What gave nothing costs nothing to read again, and the state is written whole: fifty thousand times took hours.
            self._cursor.consume(session, batch, at_once=bool(result.facts or result.usage))

    def _provenance(self, session: Session, batch: Sequence[Turn], fact: am.Fact) -> dict[str, Any]:
        """Where a fact comes from: the turn, its speaker and time, the session, and the project unless it is of the person."""
        turn = origin(fact.content, batch)
        place = turn.seq if turn else f"{batch[0].seq}-{batch[-1].seq}"
        known = {"source": f"{session.agent}:{session.alias}#{place}", "session": session.alias,
                 "project": None if fact.category in self._memory.settings["digest"]["personal"] else am.project_of(session.cwd)}
        if turn is None:
            return known
        ahead = (am.age(turn.at, self._memory.now()) or 0) < -1          # by a clock that was wrong: nothing is the newest for that
        return known | {"seq": turn.seq, "speaker": turn.role, "said_at": None if ahead else turn.at or None}


# ── Command line ─────────────────────────────────────────────────────────────

def parser(lang: str) -> ArgumentParser:
    """The command line of auto_sediment."""
    parse = am.strict_parser(lang, description="Turn session logs into memories, each turn once.")
    which = parse.add_mutually_exclusive_group()
    which.add_argument("--latest", dest="mode", action="store_const", const="latest", help="the newest session (default)")
    which.add_argument("--all", dest="mode", action="store_const", const="all", help="every session, oldest first")
    which.add_argument("--file", action="append", metavar="PATH", help="this log or session directory; repeatable")
    which.add_argument("--session", action="append", metavar="PATH", help="this log if it is there and has news; for hooks")
    parse.add_argument("--agent", action="append", choices=tuple(AGENTS), help="only sessions of this agent; repeatable")
    parse.add_argument("--dir", action="append", metavar="DIR", help="not what agents keep but every log below DIR; repeatable")
    parse.add_argument("--project", metavar="CWD", help="only sessions that worked in CWD or below")
    act = parse.add_mutually_exclusive_group()
    act.add_argument("--apply", action="store_true", help="keep what is found")
    act.add_argument("--dry-run", action="store_true", help="only show it (default)")
    parse.add_argument("--verified", action="store_true", help="keep the facts as verified")
    parse.add_argument("--include-subagents", action="store_true", help="read what sub-agents were told, too")
    parse.add_argument("--archive", choices=("on", "off"), help="keep the digested turns for `source` (default: digest.archive)")
    parse.add_argument("--max", type=am.at_least_one, metavar="N", help="read no further once N facts were found; the rest waits")
    parse.add_argument("--root", metavar="DIR", help="the data root")
    parse.add_argument("--lang", choices=("en", "zh"), help="language of messages")
    parse.add_argument("--json", action="store_true", help="one JSON document on stdout, notes on stderr")
    parse.add_argument("--quiet", action="store_true", help="say nothing but errors")
    parse.add_argument("--version", action="version", version=f"auto_sediment {am.__version__}")
    return parse


def mode(options: Namespace) -> str:
    """Which sessions are meant: "file", "session", "all" or "latest"."""
    named = "file" if options.file else "session" if options.session else ""
    if named and options.dir:
        raise am.UsageError(f"--{named} names a log and --dir looks for some", "one or the other")
    return named or options.mode or ("all" if options.dir else "latest")


class Voice:
    """Notes on stderr, results on stdout, both masked."""

    def __init__(self, json_wanted: bool) -> None:
        self.json, self.quiet, self.lang = json_wanted, False, "en"
        self.warnings: list[str] = []
        self.clean: Callable[[str], str] = am.redact           # by the rules of the user once there is a memory

    def note(self, key: str, warn: bool = True, **values: object) -> None:
        """Something to know on stderr; a warning is told once, and part of the JSON answer."""
        if self.lang == "zh" and "why" in values:
            values["why"] = am.in_chinese(str(values["why"]))
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
    for entry in (entry for entry in sessions if entry["facts" if data["applied"] else "turns"]):
        yield f"{entry['agent']}:{entry['session']}"
        for turn in () if data["applied"] else entry["turns"]:
            text = " ".join(turn["text"].split())
            yield f"{padded(in_words(turn['role'], lang))} {text[:160]}{'…' if len(text) > 160 else ''}"
        outcomes = [kept["outcome"] for kept in entry["applied"]] or ["+"] * len(entry["facts"])
        for outcome, fact in zip(outcomes, entry["facts"]):
            yield f"{padded(in_words(outcome, lang))} [{fact['category']} {fact['importance']}] {fact['content']}"
    kept = [kept["outcome"] for entry in sessions for kept in entry["applied"]]
    counts = ", ".join(f"{kept.count(outcome)} {in_words(outcome, lang)}" for outcome in dict.fromkeys(kept))
    yield message("done", lang, sessions=len(sessions), turns=sum(len(entry["turns"]) for entry in sessions),
                  facts=sum(len(entry["facts"]) for entry in sessions),
                  outcomes=counts and message("kept", lang, counts=counts))
    if withheld := sum(entry["withheld"] for entry in sessions):
        yield message("withheld", lang, n=withheld)


def sediment(options: Namespace, voice: Voice) -> int:
    """Do what the options ask and print it; the exit code."""
    from contextlib import ExitStack
    with ExitStack() as held:
        memory = held.enter_context(am.AgentMemory(options.root))
        voice.clean = memory.clean
        voice.lang = memory.settings.language(options.lang)
        data: dict[str, Any] = {"sessions": [], "applied": options.apply}
        if options.apply and not (memory.exists() or any(map(readable, options.file or [""]))):
            options.apply = False                              # no data root is made for files that hold nothing
        elif options.apply:
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
        errors = [am.trouble(fault, voice.lang, memory.clean) for fault in run.errors.values()]
        for why in memory.warnings:
            voice.note("told", why=why)
        data["sessions"] = run.data if options.mode in ("latest", "file") else [entry for entry in run.data if entry["turns"]]
        voice.answer(data, errors[0] if errors else None)
        return 1 if errors else 0


def unless_nested(words: list[str], voice: Voice) -> int:
    """Run the command, unless it was a digest that started us."""
    options = parser(voice.lang).parse_args(words)
    options.mode, voice.quiet = mode(options), options.quiet
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
    voice.lang = am.language_of(words)

    def failed(fault: am.AgentMemoryError) -> int:
        error = am.trouble(fault, voice.lang, voice.clean)
        if voice.json:
            voice.answer({"sessions": []}, error)
        return fault.exit_code

    return am.guarded(lambda: unless_nested(words, voice), failed, os.environ)


if __name__ == "__main__":
    sys.exit(main())
