"""An agent's own settings, so that it uses this memory: hooks, MCP entry, skill; shown first, written when asked, taken out whole.

What is ours is known by its command (agent-memory … hook or mcp, with --root), so another interpreter or root replaces it.
Everything else in a file stays as it is, byte by byte; a file that cannot be understood is left alone, and says why.
"""
from __future__ import annotations

import json
import os
import re
import shlex
import sys
from contextlib import suppress
from functools import partial

import agent_memory as am

from . import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import SimpleNamespace as Namespace
    from typing import Any

    Edit = Callable[[str, bool], str]        # the text of a file, whether to take ours out → the text that should stand there

NAME = "agent_memory"                        # of the MCP server and the provider: letters that all of them take
BEGIN, END = "# agent-memory:begin", "# agent-memory:end"
OURS = "written by agent-memory integrate"   # in each file that is wholly ours
HERE = os.path.dirname(os.path.abspath(__file__))


class Site(am.Record):
    """What the entries are made of."""

    env: Mapping[str, str]
    program: tuple[str, ...]                 # how this program is started
    root: str
    chinese: bool
    project: str | None

    def home(self, variable: str, *default: str) -> str:
        """An agent's folder: its own variable, or under the user's home."""
        named = self.env.get(variable, "").strip()
        return os.path.abspath(os.path.expanduser(named)) if named else os.path.join(self.user, *default)

    @property
    def user(self) -> str:
        """The user's home."""
        return self.env.get("HOME") or os.path.expanduser("~")

    def argv(self, verb: str) -> list[str]:
        """One of our commands, with the root that all agents are to share."""
        return [*self.program, verb, "--root", self.root]


class Place(am.Record):
    """A file of an agent, and how ours gets in and out of it."""

    path: str
    kind: str                                # "hooks", "mcp", "skill" or "provider": what --no-… leaves out
    edit: Edit
    whole: bool = False                      # all of the file is ours
    shared: bool = False                     # other agents read it too


class Agent(am.Record):
    """An agent: where it keeps things, what of ours goes there, what its user should know."""

    home: Callable[[Site], str]
    program: str
    places: Callable[[Site], Iterator[Place]]
    notes: tuple[str, ...] = ()


class Change(am.Record):
    """What happens to one file."""

    path: str
    change: str                              # "added", "unchanged", "removed", "refused", "would add"
    backup: str = ""
    why: str = ""
    text: str = ""                           # what of ours goes into it, or is to be put there by hand
    whole: bool = False


class Integrated(am.Examined):
    """What was done for an agent; a file that was refused is trouble, which is the exit code."""

    findings: tuple[am.Finding, ...]
    fixed: bool = False
    agent: str = ""
    action: str = "print"
    files: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Without the findings, which repeat the files."""
        return {key: value for key, value in super().to_dict().items() if key not in ("findings", "fixed")}


class Known(am.Record):
    """The agents we know, and which of them are on this machine."""

    agents: tuple[dict[str, Any], ...]


# ── our command ──────────────────────────────────────────────────────────────

def program(name: str = "agent-memory") -> tuple[str, ...]:
    """How we are started: as the installed command, the installed module, or this very script; absolute, whatever $PATH is."""
    module, beside = name.replace("-", "_"), partial(os.path.join, os.path.dirname(sys.executable))
    place = os.path.dirname(os.path.abspath(am.__file__))
    installed = os.path.basename(place) in ("site-packages", "dist-packages")
    # A command beside the interpreter may belong to another copy than the one that runs now.
    if os.access(beside(name), os.X_OK) and (installed or os.path.abspath(sys.argv[0]) == beside("agent-memory")):
        return (beside(name),)
    # -P: else a file agent_memory.py in the folder where an agent works would run instead of us.
    if installed:
        return (sys.executable, "-P", "-m", module)
    quick = os.path.join(HERE, name)         # the script itself would be compiled at each start
    return (sys.executable, quick if os.path.exists(quick) else os.path.join(place, f"{module}.py"))


def is_ours(words: Sequence[object], verb: str) -> bool:
    """Whether a command line is one of ours, of whatever version, place and root."""
    before = words[words.index(verb) - 1] if verb in words[1:] else None
    names = ("agent-memory", "agent_memory.py", "agent_memory")
    return "--root" in words and isinstance(before, str) and os.path.basename(before) in names


def _hook_is_ours(hook: object) -> bool:
    """Whether a hook is ours and nothing more: what the user has run before or behind it is his."""
    command = str(hook.get("command")).strip() if isinstance(hook, dict) else ""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:                                       # an open quote
        return False
    return is_ours(words, "hook") and "\n" not in command and not any(set(word) <= set(";&|") for word in words)


def _server_is_ours(entry: object) -> bool:
    if not isinstance(entry, dict):
        return False
    command, more = entry.get("command"), entry.get("args")
    return is_ours([*(command if isinstance(command, list) else [command]), *(more if isinstance(more, list) else [])], "mcp")


# ── edits: (text, whether to take ours out) → text ───────────────────────────

def _hooks(path: str, wanted: Mapping[str, Any], text: str, remove: bool) -> str:
    """Hooks as Claude Code, Codex and Gemini CLI write them: event → groups → commands."""
    wanted, settled = {} if remove else wanted, set[str]()
    groups = _groups(path, text)
    for event, number, group in reversed(groups):            # the last first: the places of the others stay
        mine = [n for n, hook in enumerate(group["hooks"]) if _hook_is_ours(hook)]
        if mine and len(mine) == len(group["hooks"]) and event in wanted and event not in settled:
            settled.add(event)
            text = text if group == wanted[event] else files.placed(text, ("hooks", event, number), wanted[event])
        elif len(mine) == len(group["hooks"]) and mine:
            text = files.taken(text, ("hooks", event, number))
        else:
            for n in reversed(mine):
                text = files.taken(text, ("hooks", event, number, "hooks", n))
    for event in wanted:
        if event not in settled:
            there = files.parsed(text, path).get("hooks", {}).get(event, [])
            text = files.placed(text, ("hooks", event, len(there)), wanted[event])
    return text


def _groups(path: str, text: str) -> list[tuple[str, int, dict[str, Any]]]:
    """(event, number, group) of all groups of hooks in a file.  UsageError when they are not of the form that agents read."""
    hooks = files.parsed(text, path).get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise am.UsageError(f"{path}: its \"hooks\" are not events with lists of hooks", "mend the file by hand")
    return [(event, number, group) for event, groups in hooks.items() for number, group in enumerate(groups)
            if isinstance(group, dict) and isinstance(group.get("hooks"), list)]


def _server(path: str, key: str, wanted: Mapping[str, Any], text: str, remove: bool) -> str:
    """The MCP entry in a JSON file; what the user added to ours, such as a timeout, stays."""
    servers = files.parsed(text, path).get(key, {})
    if not isinstance(servers, dict):
        raise am.UsageError(f"{path}: its {json.dumps(key)} is no object", "mend the file by hand")
    mine = [name for name, entry in servers.items() if _server_is_ours(entry)]
    if not remove and NAME in servers and NAME not in mine:
        raise am.UsageError(f"{path} has a server {NAME} of your own", "rename it, then try again")
    for name in mine:
        if remove or name != NAME:
            text = files.taken(text, (key, name))
    if remove:
        return text
    if NAME not in mine:
        return files.placed(text, (key, NAME), wanted)
    for name, value in wanted.items():
        old = servers[NAME]
        if name not in old or name in ("command", "args") and old[name] != value:
            text = files.placed(text, (key, NAME, name), value)
    return text


# Codex writes its settings anew, and a comment of ours then stands before what it wrote last, or nowhere: all that tells our
# table from the user's is its command.  `[mcp_servers.agent_memory.tools.x]` goes with it, for alone it is a fault to Codex.
_TABLE = re.compile(rf"""\s*\[\s*mcp_servers\s*\.\s*(["']?){NAME}\1\s*[.\]]""")


def _toml(path: str, wanted: Mapping[str, Any], text: str, remove: bool) -> str:
    """Our table in Codex's settings; what else the file says is the same afterwards, or nothing is written."""
    others, entry = _toml_read(path, text)
    if entry is not None and not _server_is_ours(entry):
        if remove:
            return text
        raise am.UsageError(f"{path} has its own [mcp_servers.{NAME}]", "rename it, then try again")
    line_end = "\r\n" if "\r\n" in text else "\n"
    lines = [line for line in text.splitlines(keepends=True) if line.strip() not in (BEGIN, END)]
    said = {key: f"{key} = {json.dumps(value, ensure_ascii=False)}{line_end}" for key, value in wanted.items()}     # TOML is alike
    if remove:
        for start, stop in reversed(_tables(lines)):
            del lines[start - (start > 0 and not lines[start - 1].strip()):stop]
    elif entry is None:
        ended = [] if not lines or lines[-1].endswith("\n") else [line_end]
        lines += [*ended, *([line_end] if lines else []), f"[mcp_servers.{NAME}]{line_end}", *said.values()]
    else:
        for start, stop in _tables(lines)[:1]:
            for n in reversed(range(start + 1, stop)):
                key = lines[n].partition("=")[0].strip()
                if key in ("command", "args") and entry.get(key) != wanted[key]:
                    lines[n:_toml_end(lines, n)] = [said[key]]
    new = "".join(lines)
    kept, now = _toml_read(path, new)
    done = now is None if remove else now and all(now.get(key) == wanted[key] for key in ("command", "args"))
    if kept != others or not done:
        raise am.UsageError(f"{path} has [mcp_servers.{NAME}] in a form we do not know", "change it by hand")
    return new


def _toml_read(path: str, text: str) -> tuple[dict[str, Any], Any]:
    """What a file of settings says but for our server, and that server, None for none."""
    import tomllib
    try:
        said = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as fault:
        raise am.UsageError(f"{path} is no TOML that can be added to: {fault}", "mend the file by hand") from None
    servers = said.pop("mcp_servers", {})
    if not isinstance(servers, dict):
        raise am.UsageError(f"{path}: its mcp_servers is no table", "mend the file by hand")
    ours = servers.pop(NAME, None)
    return {**said, **({"mcp_servers": servers} if servers else {})}, ours


def _toml_end(lines: Sequence[str], start: int) -> int:
    """Where a key and its value end; a list may stand on several lines."""
    import tomllib
    for stop in range(start + 1, len(lines) + 1):
        with suppress(tomllib.TOMLDecodeError):
            tomllib.loads("".join(lines[start:stop]))
            return stop
    return start + 1


def _tables(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Where our table and those below it begin and end; comments before the next one are that one's."""
    heads, spans = [n for n, line in enumerate(lines) if line.lstrip(" \t\ufeff").startswith("[")], []
    for start, stop in zip(heads, [*heads[1:], len(lines)]):
        while lines[stop - 1].lstrip().startswith("#") or not lines[stop - 1].strip():
            stop -= 1
        if _TABLE.match(lines[start].lstrip("\ufeff")):
            spans.append((start, stop))
    return spans


def _yaml_list(path: str, body: str, text: str, remove: bool) -> str:
    """A block of a YAML list whose items stand at the margin."""
    outside = files.between(text, None, BEGIN, END, path)
    heads = [line for line in outside.removeprefix("\ufeff").splitlines() if line.strip() and line[0] not in " \t#"]
    if any(not re.match(r"-(\s|$)", line) for line in heads if line.rstrip() != "---" or line is not heads[0]):
        raise am.UsageError(f"{path} is not a YAML list with its items at the margin", "add the lines by hand")
    if re.search(r"(?m)^[ \t]+[^#\s]", outside) and not heads:
        raise am.UsageError(f"{path} is a YAML list that is indented", "add the lines by hand")
    return outside if remove else files.between(text, body, BEGIN, END, path)


def _yaml_key(path: str, key: str, body: str, text: str, remove: bool) -> str:
    """One key of Hermes' settings, where the user has not set it himself: to add to his, we would have to understand YAML."""
    begin, end = (f"{mark}:{key}" for mark in (BEGIN, END))
    outside = files.between(text, None, begin, end, path)
    lines = outside.removeprefix("\ufeff").splitlines()
    at = next((n for n, line in enumerate(lines) if re.match(rf"[\"']?{key}[\"']?\s*:", line)), len(lines))
    below = [*lines[at + 1:], "end"]
    below = below[:next(n for n, line in enumerate(below) if re.match(r"[^\s#]", line))]
    # Hermes drops comments when it writes its settings, and sets our line in its own way.
    ours = any(re.search(rf"\b{NAME}\b", line) for line in below)
    if remove and ours:
        raise am.UsageError(f"{path} names {NAME} under {key}", "take that out by hand")
    if remove:
        return outside
    if at < len(lines):
        words = re.findall(r'"((?:[^"\\]|\\.)*)"', body) or [NAME]
        if ours and all(word in "\n".join(below) for word in words):
            return text
        raise am.UsageError(f"{path} has a key {key} of your own", "put our line under it by hand")
    if any(re.match(r"[{\[]|\.\.\.|---", line) for line in lines if line.rstrip() != "---" or line is not lines[0]):
        raise am.UsageError(f"{path} is not a plain YAML mapping", "add the lines by hand")
    return files.between(text, body, begin, end, path)


def _whole(path: str, wanted: str, text: str, remove: bool) -> str:
    """A file that is ours from its first line to its last."""
    if text and OURS not in text:
        raise am.UsageError(f"{path} was not written by us", "move it away, then try again")
    return "" if remove else wanted


# ── the agents ───────────────────────────────────────────────────────────────

def _events(site: Site, seconds: Mapping[str, int], unit: int = 1, matcher: str = "") -> dict[str, Any]:
    """Event → the group of hooks that calls us."""
    command = shlex.join(site.argv("hook"))
    groups = {event: {"hooks": [{"type": "command", "command": command, "timeout": limit * unit}]}
              for event, limit in seconds.items()}
    return {event: {"matcher": matcher, **group} if matcher and event == "SessionStart" else group
            for event, group in groups.items()}


_SECONDS = {"SessionStart": 10, "UserPromptSubmit": 5, "Stop": 5, "SessionEnd": 3, "PreCompact": 5}
_MATCHER = "startup|resume|clear|compact"                    # without compact, memory is gone after a compaction


def _stdio(site: Site) -> dict[str, Any]:
    command, *more = site.argv("mcp")
    return {"command": command, "args": more}


def _own(name: str, replaced: Mapping[str, str]) -> str:
    """A file that comes with us, with what belongs to this machine written in."""
    text = files.read(os.path.join(HERE, *name.split("/")))
    for mark, value in replaced.items():
        text = text.replace(mark, value)
    return text


def _skill(site: Site, folder: str, shared: bool = True) -> Place:
    """The skill: one folder is read by Codex, Gemini CLI, DSH and OpenCode, another by Claude Code."""
    path = os.path.join(folder, "skills", "agent-memory", "SKILL.md")
    name = f"skill/agent-memory/SKILL{'.zh-CN' if site.chinese else ''}.md"
    text = _own(name, {"{{command}}": shlex.join([*site.program, "--root", site.root])})
    return Place(path, "skill", partial(_whole, path, text), True, shared)


def _claude(site: Site) -> Iterator[Place]:
    home = site.home("CLAUDE_CONFIG_DIR", ".claude")
    settings = os.path.join(home, "settings.json")
    yield Place(settings, "hooks", partial(_hooks, settings, _events(site, _SECONDS, matcher=_MATCHER)))
    own = home if site.env.get("CLAUDE_CONFIG_DIR", "").strip() else site.user
    servers = os.path.join(site.project, ".mcp.json") if site.project else os.path.join(own, ".claude.json")
    yield Place(servers, "mcp", partial(_server, servers, "mcpServers", {"type": "stdio", **_stdio(site)}))
    yield _skill(site, home, shared=False)


def _codex(site: Site) -> Iterator[Place]:
    home = site.home("CODEX_HOME", ".codex")
    hooks, config = os.path.join(home, "hooks.json"), os.path.join(home, "config.toml")
    yield Place(hooks, "hooks", partial(_hooks, hooks, _events(site, _SECONDS, matcher=_MATCHER)))
    yield Place(config, "mcp", partial(_toml, config, {**_stdio(site), "startup_timeout_sec": 10}))
    yield _skill(site, os.path.join(site.user, ".agents"))


def _gemini(site: Site) -> Iterator[Place]:
    home = site.home("GEMINI_CLI_HOME")
    settings = os.path.join(home, ".gemini", "settings.json")
    # Milliseconds here, and a matcher of this event is a word, not a pattern: none means all.
    seconds = {"SessionStart": 10, "BeforeAgent": 5, "AfterAgent": 5, "SessionEnd": 3}
    yield Place(settings, "hooks", partial(_hooks, settings, _events(site, seconds, 1000)))
    yield Place(settings, "mcp", partial(_server, settings, "mcpServers", _stdio(site)))
    yield _skill(site, os.path.join(home, ".agents"))


def _opencode(site: Site) -> Iterator[Place]:
    home = _opencode_home(site)
    plain, commented = (os.path.join(home, f"opencode.{kind}") for kind in ("json", "jsonc"))
    path = commented if os.path.exists(commented) and not os.path.exists(plain) else plain
    entry = {"type": "local", "command": site.argv("mcp"), "enabled": True}
    yield Place(path, "mcp", partial(_server, path, "mcp", entry))
    yield _skill(site, os.path.join(site.user, ".agents"))


def _opencode_home(site: Site) -> str:
    return os.path.join(site.home("XDG_CONFIG_HOME", ".config"), "opencode")


def _dsh(site: Site) -> Iterator[Place]:
    path = os.path.join(site.home("DSH_HOME", ".dsh"), "cordis.patch.yml")
    config = {"serverName": NAME, "transport": "stdio", **_stdio(site), "env": {"AGENT_MEMORY_ROOT": site.root}}
    body = ["- insert:", "    - id: memory-agent-memory", "      name: '@deepseek-ai/dsh-mcp-client'", "      config:"]
    body += [f"        {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in config.items()]     # YAML reads JSON
    yield Place(path, "mcp", partial(_yaml_list, path, "\n".join(body)))
    yield _skill(site, os.path.join(site.user, ".agents"))


def _hermes(site: Site) -> Iterator[Place]:
    home = site.home("HERMES_HOME", ".hermes")
    written = {'"@CODE@"': repr(os.path.dirname(os.path.abspath(am.__file__))), '"@ROOT@"': repr(site.root)}
    for name in ("plugin.yaml", "__init__.py"):
        path = os.path.join(home, "plugins", NAME, name)
        yield Place(path, "hooks", partial(_whole, path, _own(f"hermes_provider/{name}", written)), True)
    path = os.path.join(home, "config.yaml")
    yield Place(path, "hooks", partial(_yaml_key, path, "memory", f"memory:\n  provider: {NAME}"))
    server = json.dumps(_stdio(site), ensure_ascii=False)    # on one line, so that it can be put in by hand as well
    yield Place(path, "mcp", partial(_yaml_key, path, "mcp_servers", f"mcp_servers:\n  {NAME}: {server}"))


_NO_HOOKS = "{agent} has no hooks: `schedule install` has its sessions digested, `context --write AGENTS.md` tells it what matters"
AGENTS = {
    "claude-code": Agent(lambda site: site.home("CLAUDE_CONFIG_DIR", ".claude"), "claude", _claude, (
        "a Claude Code that runs now may write over .claude.json; then: claude mcp add -s user agent_memory -- {mcp}",)),
    "codex": Agent(lambda site: site.home("CODEX_HOME", ".codex"), "codex", _codex, (
        "Codex skips hooks that nobody trusts, in `codex exec` silently: trust them with /hooks",
        "without trust: notify = {notify} at the top of config.toml")),
    "gemini": Agent(lambda site: os.path.join(site.home("GEMINI_CLI_HOME"), ".gemini"), "gemini", _gemini),
    "opencode": Agent(_opencode_home, "opencode", _opencode, (_NO_HOOKS,)),
    "dsh": Agent(lambda site: site.home("DSH_HOME", ".dsh"), "dsh", _dsh, (_NO_HOOKS,)),
    "hermes": Agent(lambda site: site.home("HERMES_HOME", ".hermes"), "hermes", _hermes),
}


# ── doing it ─────────────────────────────────────────────────────────────────

def found(agent: Agent, site: Site) -> bool:
    """Whether an agent is on this machine: its folder, or its program on $PATH."""
    from shutil import which
    return os.path.isdir(agent.home(site)) or which(agent.program, path=site.env.get("PATH", "")) is not None


def holds(place: Place) -> bool:
    """Whether something of ours is in a file."""
    try:
        text = files.read(place.path)
        return bool(text) and place.edit(text, True) != text
    except am.AgentMemoryError:
        return False


def integrated(name: str, site: Site) -> bool:
    """Whether an agent knows of this memory; a skill that others read too says nothing about it."""
    return any(holds(place) for place in AGENTS[name].places(site) if not place.shared)


def change(path: str, places: Sequence[Place], action: str, now: Any) -> Change:
    """What happens to one file: all of ours goes in or out at once; what cannot is told, and the rest is done."""
    try:
        old = files.read(path)
        if action == "remove" and not re.search("agent[-_]memory", old):         # nothing of ours, whatever else it is
            return Change(path, "unchanged")
        text, refused = _edited(old, places, action == "remove")
        why = "; ".join(dict.fromkeys(fault for _, fault in refused))
        by_hand = "\n".join(place.edit("", False).rstrip() for place, _ in refused if action != "remove" and not place.whole)
        if text == old:
            return Change(path, "refused" if refused else "unchanged", "", why, by_hand)
        if action == "print":
            # What is ours alone: the line that a new one is put into may hold a key of the user's.
            return Change(path, "would add", "", why, by_hand or _edited("", places, False)[0].rstrip(), places[0].whole)
        return Change(path, "removed" if action == "remove" else "added", _put(path, text, old, now, places[0].whole), why,
                      by_hand)
    except am.AgentMemoryError as fault:
        return Change(path, "refused", "", f"{fault.message} ({fault.hint})")
    except OSError as fault:                                 # its folder cannot be made
        return Change(path, "refused", "", f"{path}: {fault.strerror}")


def _edited(text: str, places: Sequence[Place], remove: bool) -> tuple[str, list[tuple[Place, str]]]:
    """A text with all edits that it takes, and those that it does not take with the reasons."""
    refused = []
    for place in places:
        try:
            text = place.edit(text, remove)
        except am.AgentMemoryError as fault:
            refused.append((place, f"{fault.message} ({fault.hint})"))
    return text, refused


def _put(path: str, text: str, was: str, now: Any, whole: bool) -> str:
    """Write a file, or take it away when nothing is left in it; the name of the copy of what stood there."""
    if text.strip(files.BLANK + "{}") or os.path.islink(path):
        return files.put(path, text, None if whole else now, 0o644 if whole else 0o600, was)
    os.unlink(path)
    folder = os.path.dirname(path)
    if whole and os.path.basename(folder) in ("agent-memory", NAME):
        import shutil
        shutil.rmtree(os.path.join(folder, "__pycache__"), ignore_errors=True)
    with suppress(OSError):                                  # up to the first that holds something else or is no agent's
        while re.fullmatch(r"\..+|skills|plugins|opencode|agent[-_]memory", os.path.basename(folder)):
            os.rmdir(folder)
            folder = os.path.dirname(folder)
    return ""


def integrate(name: str, site: Site, action: str, without: Sequence[str], now: Any, say: am.Say) -> Integrated:
    """Show, write or take out what an agent needs in order to use this memory."""
    by_path: dict[str, list[Place]] = {}
    for place in AGENTS[name].places(site):
        if place.kind not in without and not (action == "remove" and place.shared and _others(name, site)):
            by_path.setdefault(place.path, []).append(place)
    changes = tuple(change(path, places, action, now) for path, places in by_path.items())
    findings = tuple(am.Finding("integrate", one.path, one.why) for one in changes if one.why)
    facts = {"agent": name, "notify": json.dumps([*site.argv("hook"), "--codex-notify"], ensure_ascii=False),
             "mcp": shlex.join(site.argv("mcp"))}
    notes = [say(note, **facts) for note in AGENTS[name].notes if action != "remove"]
    return Integrated(findings, agent=name, action=action, files=changes, notes=tuple(notes))


def _others(name: str, site: Site) -> list[str]:
    """The other agents that read the same skill and know of this memory."""
    shared = {place.path for place in AGENTS[name].places(site) if place.shared}
    return [other for other in AGENTS if other != name and integrated(other, site)
            and shared & {place.path for place in AGENTS[other].places(site)}]


def _joined(all_of: Sequence[Integrated], action: str) -> Integrated:
    """What was done for all agents, as one; a file that several read, once."""
    files_of: dict[str, Change] = {}
    for file in (file for one in all_of for file in one.files):
        files_of.setdefault(file.path, file)
    return Integrated(tuple(finding for one in all_of for finding in one.findings), agent="all", action=action,
                      files=tuple(files_of.values()),
                      notes=tuple(dict.fromkeys(note for one in all_of for note in one.notes)))


def _show(done: Integrated | Known, say: am.Say) -> Iterator[str]:
    if isinstance(done, Known):
        yield from (f"{one['agent']:<12} {say('found' if one['found'] else 'not found')}"
                    + (f", {say('integrated')}" if one["integrated"] else "") for one in done.agents)
        return
    if not done.files:
        yield say("no agent that we know is here")
    for one in done.files:
        left = one.change == "removed" and os.path.exists(one.path)
        yield (f"{say('removed from' if left else one.change)}: {am.shown(one.path)}"
               + (f"  ({say('the old one is kept as {copy}', copy=one.backup)})" if one.backup else ""))
        if one.why:
            yield "   " + am.shown(say.told(one.why)) + (say("; by hand:") if one.text else "")
        if one.whole and one.text:
            yield "   " + say("a file of ours, lines: {n}", n=len(one.text.splitlines()))
        elif one.text:
            yield from ("   | " + am.shown(line) for line in one.text.splitlines())
    yield from ("* " + am.shown(note) for note in done.notes)
    if done.action == "print" and any(one.text for one in done.files):
        yield say("nothing was written; --write does it")
    if any(one.change == "added" for one in done.files):
        yield say("it counts from the agent's next session on; doctor tells what of its sessions is read")


@am.command("integrate", am.arg("agent", nargs="?", help="claude-code, codex, gemini, opencode, dsh, hermes, or all that are here"),
            am.arg("--print", action="store_true", help="only show what would be written (default)"),
            am.arg("--write", action="store_true", help="write it; the old files are kept beside the new"),
            am.arg("--remove", action="store_true", help="take out what is ours"),
            am.arg("--project", metavar="DIR", help="claude-code: the MCP entry into DIR/.mcp.json"),
            am.arg("--no-hooks", action="store_true", help="no hooks (hermes: no provider)"),
            am.arg("--no-mcp", action="store_true", help="no MCP entry"),
            am.arg("--no-skill", action="store_true", help="no skill"), show=_show, reads=False)
def _integrate(memory: am.AgentMemory, args: Namespace) -> Integrated | Known:
    """Tell an agent about this memory: hooks, MCP entry, skill."""
    env = memory.settings.environment
    chinese = memory.settings.language(args.lang) == "zh"
    site = Site(env, program(), os.path.abspath(memory.root), chinese, args.project and os.path.abspath(args.project))
    if args.print + args.write + args.remove > 1:
        raise am.UsageError("one of --print, --write and --remove")
    if not args.agent and (args.write or args.remove):
        raise am.UsageError("which agent?", f"{', '.join(AGENTS)}, or all that are here")
    if not args.agent:
        return Known(tuple({"agent": name, "found": found(agent, site), "integrated": integrated(name, site)}
                           for name, agent in AGENTS.items()))
    if args.agent not in (*AGENTS, "all"):
        raise am.UsageError(f"there is no agent {memory.clean(args.agent)!r} that we know", f"agents: {', '.join(AGENTS)}, all")
    action = "write" if args.write else "remove" if args.remove else "print"
    if action != "remove":
        files.nameable(site.root)
    if action == "write" and not memory.exists():
        memory.init()                                        # a hook is silent where there is no memory
    without = [kind for kind in ("hooks", "mcp", "skill") if getattr(args, f"no_{kind}")]
    names = [args.agent] if args.agent != "all" else [name for name, agent in AGENTS.items() if found(agent, site)]
    done = [integrate(name, site, action, without, memory.now(), args.say) for name in names]
    return done[0] if args.agent != "all" else _joined(done, action)


am.CHINESE.update({
    "no agent that we know is here": "本机没有已知的智能体",
    "a Claude Code that runs now may write over .claude.json; then: claude mcp add -s user agent_memory -- {mcp}":
        "正在运行的 Claude Code 可能覆盖 .claude.json；那时请执行：claude mcp add -s user agent_memory -- {mcp}",
    "; by hand:": "；请手动加入：",
    "found": "已找到", "not found": "未找到", "integrated": "已接入",
    "added": "已写入", "removed": "已移除", "removed from": "已移出",
    "unchanged": "无需改动", "refused": "未改动", "would add": "将写入",
    "the old one is kept as {copy}": "旧文件保存为 {copy}",
    "a file of ours, lines: {n}": "本程序的文件，共 {n} 行",
    "nothing was written; --write does it": "未写入；加 --write 写入",
    "it counts from the agent's next session on; doctor tells what of its sessions is read":
        "从该智能体的下一个会话起生效；doctor 会说它的会话读到了哪里",
    _NO_HOOKS: "{agent} 没有钩子：用 `schedule install` 定时沉淀会话，用 `context --write AGENTS.md` 告诉它要点",
    "Codex skips hooks that nobody trusts, in `codex exec` silently: trust them with /hooks":
        "Codex 会跳过未信任的钩子（`codex exec` 中不作提示）：请用 /hooks 信任它们",
    "without trust: notify = {notify} at the top of config.toml": "不经信任的办法：在 config.toml 顶部写 notify = {notify}",
})
