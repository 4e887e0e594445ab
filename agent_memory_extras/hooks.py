"""An agent's hooks: one JSON event on standard input, one line of JSON or nothing on standard output.

    event                              agents                      what it does
    SessionStart                       Claude Code, Codex, Gemini  tells what matters whatever is asked
    UserPromptSubmit, BeforeAgent      Claude Code, Codex; Gemini  tells what the prompt brings up
    pre_llm_call                       Hermes                      the same; with what matters always at the first turn
    Stop, AfterAgent, on_session_end   each of them, every turn    has the session digested, once in `context.debounce` seconds
    PreCompact, PreCompress            Claude Code, Codex; Gemini  has it digested; the next prompt tells all anew
    SessionEnd                         Claude Code, Codex, Gemini  has it digested
    --codex-notify                     Codex, every turn           as Stop

DSH's bridge speaks as Claude Code does.  Every other event does nothing.  An agent waits for us: whatever is wrong, the exit
code is 0 and nothing is printed, on no stream; hook.log in the data root says what it was, and no word of a prompt.
Nothing is remembered here: a process of its own, which outlives us, reads the session.
"""
from __future__ import annotations

import os
import sys

import agent_memory as am

from . import context, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Sequence
    from types import SimpleNamespace as Namespace
    from typing import Any
else:
    re = am.re                           # imported when it is needed: an agent waits for us

CLAUDE = frozenset(("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"))
EVENTS = {
    "claude-code": CLAUDE, "codex": CLAUDE, "dsh": CLAUDE,
    "gemini": frozenset(("SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd")),
    "hermes": frozenset(("pre_llm_call", "on_session_end")),
}
PROMPTS = frozenset(("UserPromptSubmit", "BeforeAgent", "pre_llm_call"))
TURNS = frozenset(("Stop", "AfterAgent", "on_session_end"))
COMPACTIONS = frozenset(("PreCompact", "PreCompress"))
GUARD = "AGENT_MEMORY_DIGESTING"         # that of auto_sediment, which capturing need not import
LARGEST = 1 << 20                        # bytes of an event; larger ones are left alone
PROMPT = 500                            # characters of a prompt's beginning that are looked up, and as many of its end
AGAIN = 0.2                              # seconds after which what goes on all the same is stopped anew
LOG = 1 << 16                            # bytes of hook.log, after which its older half goes
PAUSES = (0.01, 0.02, 0.04, 0.08, 0.16, 0.0)  # seconds, while another hook keeps its own in mind; it takes it 5 ms
SESSIONS, TOLD = 64, 512                 # sessions, and memories of one, that are kept in mind


# ── the event ──

def event_of(data: bytes) -> dict[str, Any]:
    """An event as its fields.  UsageError when it is none."""
    try:
        event = am.from_json(data.decode("utf-8", "replace"))
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise am.UsageError("that is no event", "an agent sends a JSON object")
    return event


def text(event: dict[str, Any], name: str) -> str:
    """A field that is text, fit to be hashed and sent; else ""."""
    said = event.get(name)
    return said.encode("utf-8", "replace").decode() if isinstance(said, str) else ""


def asked(prompt: str) -> str:
    """What a prompt asks, its beginning and end where it is long; "" for a slash command and for what was only injected."""
    said = am.without_blocks(prompt).strip()
    if said[:1] == "/" and re.match(r"/[\w:.-]+(?:\s|$)", said):
        return ""
    return said if len(said) <= 2 * PROMPT else f"{said[:PROMPT]}\n{said[-PROMPT:]}"


def received() -> dict[str, Any]:
    """The event on standard input; who sends it need not close its end.  UsageError when it is none."""
    data, descriptor = b"", sys.stdin.fileno()
    while len(data) <= LARGEST:
        more = os.read(descriptor, 1 << 16)
        data += more
        if not more:
            return event_of(data)
        if data.rstrip().endswith(b"}"):
            try:
                return event_of(data)
            except am.UsageError:
                pass                                           # there is more to come
    raise am.UsageError("an event of more than 1 MB was left alone")


# ── what is kept in mind ──

class Mind:
    """What hooks know of the latest sessions, in a slot: memories told, whether all is due anew, when a log was last digested.

    Sessions and logs stand there as keyed fingerprints, latest last.  To lose it is no harm: something is told again.
    """

    def __init__(self, memory: am.AgentMemory) -> None:
        self._memory = memory
        state = memory.slot("hooks").read()
        key, sessions, logs = (state.get(name) for name in ("key", "sessions", "logs"))
        self._key = key if isinstance(key, str) and len(key) == 32 and {*key} <= {*"0123456789abcdef"} else os.urandom(16).hex()
        same = self._key == key
        self._sessions = {name: one for name, one in sessions.items() if isinstance(one, dict)} \
            if same and isinstance(sessions, dict) else {}
        self._logs = {name: at for name, at in logs.items() if isinstance(at, (int, float))} \
            if same and isinstance(logs, dict) else {}

    def told(self, session: str) -> list[str]:
        """The ids of the memories that a session was told."""
        ids = self._sessions.get(self._print(session), {}).get("told")
        return [id for id in ids if isinstance(id, str)] if isinstance(ids, list) else []

    def due(self, session: str) -> bool:
        """Whether a session was compacted, and nobody told it since what matters always."""
        return self._sessions.get(self._print(session), {}).get("due") is True

    def tell(self, session: str, told: Sequence[str], due: bool = False) -> None:
        """A session was told these memories, and these alone."""
        name = self._print(session)
        self._sessions.pop(name, None)
        self._sessions[name] = {"told": [*dict.fromkeys(told)][-TOLD:], **({"due": True} if due else {})}

    def recent(self, what: str, now: float, seconds: float) -> bool:
        """Whether work on a log, or on the cache, began so many seconds ago or less; a clock that was set back: long ago."""
        at = self._logs.get(self._print(what))
        return at is not None and 0 <= now - at < seconds

    def begin(self, what: str, now: float) -> None:
        """A log is being digested now, or the cache made anew."""
        name = self._print(what)
        self._logs.pop(name, None)
        self._logs[name] = int(now)

    def keep(self) -> None:
        """Write it down, whole; where that cannot be done it is forgotten."""
        # Not by the slot, which waits for the lock of the store: an agent waits for us, and `_keep` holds a lock of our own.
        state = {"key": self._key, "sessions": _latest(self._sessions), "logs": _latest(self._logs)}
        files.put(os.path.join(self._memory.root, ".hooks_state.json"), am.in_json(state) + "\n", mode=0o600)

    def _print(self, words: str) -> str:
        print_of, key = am.hash_of("blake2b"), bytes.fromhex(self._key)
        return str(print_of(words.encode("utf-8", "surrogateescape"), key=key, digest_size=8).hexdigest())


def _latest(known: dict[str, Any]) -> dict[str, Any]:
    return dict([*known.items()][-SESSIONS:])


def _keep(memory: am.AgentMemory, change: Callable[[Mind], None]) -> None:
    """Change what is kept in mind; where other hooks stay at it, or nothing can be written, that is forgotten."""
    from time import sleep
    for pause in PAUSES:
        try:
            with memory.alone("hooks"):
                mind = Mind(memory)
                change(mind)
                mind.keep()
            return
        except am.StoreBusy:
            sleep(pause)
        except (OSError, am.AgentMemoryError):
            return


# ── telling ──

def begun(memory: am.AgentMemory, event: dict[str, Any]) -> context.Block:
    """What a session that begins is told; after `clear` and `compact` it knows of nothing it was told before."""
    session, anew = text(event, "session_id"), text(event, "source") in ("clear", "compact")
    told = context.standing(memory, _project(memory, event))
    if session and (told.ids or anew):
        _keep(memory, lambda mind: mind.tell(session, [*(() if anew else mind.told(session)), *told.ids]))
    return told


def prompted(memory: am.AgentMemory, event: dict[str, Any], prompt: str, first: bool = False) -> context.Block:
    """What a prompt brings up that its session was not told yet; what matters always as well, where that is due."""
    session, query = text(event, "session_id"), asked(prompt)
    if not query:
        return context.Block("", ())
    mind, project = Mind(memory), _project(memory, event)
    more = context.foremost(memory, project) if first or mind.due(session) else ()
    told = context.about(memory, query, project, told=mind.told(session), more=more)
    if session and told.ids:
        _keep(memory, lambda mind: mind.tell(session, [*mind.told(session), *told.ids]))
    return told


def _project(memory: am.AgentMemory, event: dict[str, Any]) -> str | None:
    return memory.settings.choice("PROJECT") or am.project_of(text(event, "cwd"))


def reply(memory: am.AgentMemory, event: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The answer to an event that may be told something, as its agent wants it; None when there is nothing to tell."""
    if not memory.exists():
        return None
    if name == "pre_llm_call":
        extra = event.get("extra")
        extra = extra if isinstance(extra, dict) else {}
        block = prompted(memory, event, text(extra, "user_message"), extra.get("is_first_turn") is True)
        return {"context": block.text} if block.text else None
    block = prompted(memory, event, text(event, "prompt")) if name in PROMPTS else begun(memory, event)
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": block.text}} if block.text else None


# ── capturing ──

def capture(memory: am.AgentMemory, name: str, log: str) -> None:
    """Have a session log digested by a process that outlives us; after a turn only if it was not a short while ago."""
    now, log = memory.now().timestamp(), os.path.expanduser(log)
    if not os.path.isabs(log) or not os.path.isfile(log):
        return
    if name in TURNS and Mind(memory).recent(log, now, memory.settings["context"]["debounce"]):
        return
    detach(memory.root, "auto_sediment.py", "--session", log, "--apply", "--quiet")
    _keep(memory, lambda mind: mind.begin(log, now))


def detach(root: str, name: str, *words: str) -> None:
    """Start a program of ours in a session of its own, so that it outlives the agent; its errors go to hook.log."""
    script = os.path.join(os.path.dirname(os.path.abspath(am.__file__)), name)
    if not os.path.isfile(script) or not sys.executable:
        raise am.UsageError("auto_sediment.py is not beside agent_memory.py", "pip install the project, or copy it there")
    errors = _log(root) if os.path.isdir(root) else os.open(os.devnull, os.O_WRONLY)
    if os.fork():                                              # to import subprocess takes as long as all the rest
        os.close(errors)
        return
    try:
        os.setsid()
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDWR)
        for old, new in ((nothing, 0), (nothing, 1), (errors, 2)):
            os.dup2(old, new)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))            # a pipe of the agent's that stayed open would keep it waiting
        os.environ.pop("PYTHONSAFEPATH", None)                 # it would not find agent_memory beside it
        os.execv(sys.executable, [sys.executable, script, *words, "--root", root])
    finally:
        os._exit(127)


def mend(memory: am.AgentMemory) -> None:
    """Have what makes answers fast made anew in the background, for this one came too late: its cache may be gone."""
    now = memory.now().timestamp()
    if memory.exists() and not Mind(memory).recent("cache", now, memory.settings["context"]["debounce"]):
        detach(memory.root, "agent_memory.py", "sync")
        _keep(memory, lambda mind: mind.begin("cache", now))


def log_of(event: dict[str, Any]) -> str:
    """The log of the session of an event, "" where it is not told; Hermes may write one where we know it."""
    if path := text(event, "transcript_path"):
        return path
    session, home = text(event, "session_id"), os.environ.get("HERMES_HOME") or "~/.hermes"
    known = text(event, "hook_event_name") == "on_session_end" and re.fullmatch(r"[\w-]+", session)
    return os.path.join(os.path.expanduser(home), "sessions", f"session_{session}.json") if known else ""


def rollout(event: dict[str, Any]) -> str:
    """The log of the thread of Codex's notification, the plain one if there are two; "" when there is none."""
    from glob import escape, glob
    thread, home = text(event, "thread-id"), os.path.expanduser(os.environ.get("CODEX_HOME") or "~/.codex")
    if text(event, "type") != "agent-turn-complete" or not re.fullmatch(r"[\w-]{8,64}", thread):
        return ""
    for day in sorted(glob(os.path.join(escape(home), "sessions", "*", "*", "*")), reverse=True):
        for end in ("", ".zst"):
            if found := glob(os.path.join(escape(day), f"*-{thread}.jsonl{end}")):
                return found[0]
    return ""


# ── trouble ──

def note(fault: am.AgentMemoryError, words: list[str]) -> None:
    """Write to hook.log what went wrong, masked and on one line; where that cannot be done, nobody is told."""
    named = words[words.index("--root") + 1:][:1] if "--root" in words else []
    root = am.find_root(named[0] if named else None, os.environ)
    if os.environ.get(GUARD) or not os.path.isdir(root):
        return
    reason = am.shown(" ".join(am.redact(fault.message).split()))[:500]
    try:
        with open(_log(root), "ab") as file:
            file.write(f"{am.stamp(am.utc_now())} {reason}\n".encode("utf-8", "replace"))
    except OSError:
        pass


def _log(root: str) -> int:
    """hook.log, open for one more line; digests write theirs in whatever encoding is the user's."""
    from contextlib import suppress
    path = os.path.join(root, "hook.log")
    with suppress(OSError, am.AgentMemoryError):
        if os.path.getsize(path) > LOG:
            with open(path, encoding="utf-8", errors="replace") as file:
                kept = file.read()[-LOG // 2:].partition("\n")[2]
            os.unlink(path)
            files.put(path, kept, mode=0o600)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


class Within:
    """For so many seconds; then TimeoutError, which a lock that is waited for and a service give way to.

    `late` tells whether that happened; what only fills the cache gives up, and there is an answer all the same.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self.late = seconds, False

    def __enter__(self) -> None:
        from errno import ETIMEDOUT
        from signal import ITIMER_REAL, SIGALRM, setitimer, signal

        def late(*_: object) -> None:
            self.late = True
            raise TimeoutError(ETIMEDOUT, f"it took longer than {self._seconds:g} s", "hook")

        signal(SIGALRM, late)
        setitimer(ITIMER_REAL, self._seconds, AGAIN)           # what takes a file that cannot be read for none goes on

    def __exit__(self, *_: object) -> None:
        from signal import ITIMER_REAL, setitimer
        setitimer(ITIMER_REAL, 0)


# ── the command ──

def answer(memory: am.AgentMemory, event: dict[str, Any], agent: str) -> dict[str, Any] | None:
    """Do what an event asks for; what its agent is to be told, or None."""
    name, session = text(event, "hook_event_name"), text(event, "session_id")
    if name not in EVENTS.get(agent, frozenset().union(*EVENTS.values())):
        return None
    if name in PROMPTS or name == "SessionStart":
        return reply(memory, event, name)
    if name in COMPACTIONS and session and memory.exists():
        _keep(memory, lambda mind: mind.tell(session, (), due=True))
    capture(memory, name, log_of(event))
    return None


def _show(answer: dict[str, Any] | None, say: am.Say) -> Iterator[str]:
    if answer:
        yield am.in_json(answer, ascii=True)


@am.command("hook", am.arg("--agent", choices=("auto", *EVENTS), default="auto", help="whose events it answers (auto: each one's)"),
            am.arg("--codex-notify", metavar="JSON", help="what Codex appends to `notify`; standard input is not read then"),
            show=_show, reads=False, failed=note)
def _hook(memory: am.AgentMemory, args: Namespace) -> dict[str, Any] | None:
    """Answer an agent's hook: an event on standard input, what it should know on standard output."""
    if memory.settings.environment.get(GUARD):
        return None
    event: dict[str, Any] = {}
    within = Within(memory.settings["context"]["seconds"])
    try:
        with within:
            if args.codex_notify is None:
                event = received()
                return answer(memory, event, args.agent)
            capture(memory, "Stop", rollout(event_of(args.codex_notify.encode("utf-8", "replace"))))
            return None
    finally:
        if within.late and event:
            from contextlib import suppress
            with suppress(OSError, am.AgentMemoryError), Within(AGAIN):
                mend(memory)
