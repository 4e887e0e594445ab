"""The conversation a memory comes from: its turns, out of the log while that is there, else out of the archive."""
from __future__ import annotations

import os
import re

import agent_memory as am
import auto_sediment as sediment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import SimpleNamespace as Namespace
    from typing import Any

REFERENCE = re.compile(r"([a-z-]+):(.+)#(\d+)(?:-(\d+))?", re.DOTALL)      # agent:session#turn or #first-last


class Origin(am.Record):
    """Where a memory comes from, and what was said there.

    found  "log"      the turns stand in the log at `path`
           "archive"  the log is gone; the turns were kept (digest.archive)
           "gone"     both are
           "none"     it comes from no conversation
    """

    id: str
    source: str | None
    found: str
    path: str | None = None
    turns: tuple[dict[str, Any], ...] = ()                 # {"seq", "role", "at", "text", "said"}


def origin(memory: am.AgentMemory, id: str, file: str | None = None, around: int = 1) -> Origin:
    """The turns a memory comes from, masked, with so many before and after; `file` names a log that is not in its usual place."""
    kept = memory.get(id)
    told = REFERENCE.fullmatch(kept.source or "")
    if not told:
        return Origin(kept.id, kept.source, "none")
    agent, session, first, last = told[1], told[2], int(told[3]), int(told[4] or told[3])
    for path, turns in logged(memory, agent, session, file):
        if shown := excerpt(memory, turns, first, last, around):
            return Origin(kept.id, kept.source, "log", memory.clean(path), shown)
    if shown := excerpt(memory, memory.archived(agent, session), first, last, around):
        return Origin(kept.id, kept.source, "archive", None, shown)
    return Origin(kept.id, kept.source, "gone")


def logged(memory: am.AgentMemory, agent: str, session: str, file: str | None) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The logs of a session, with their turns: those named for it first, for a resumed one may stand in a file named otherwise."""
    known = sediment.AGENTS.get(agent)
    held = [sediment.named_log(file)] if file else sediment.newest_first(known.found() if known else ())
    held.sort(key=lambda log: session not in (log.session, os.path.basename(os.path.dirname(log.path)))
              and session[:8] not in os.path.basename(log.path))
    for log in held:
        if log.session and sediment.alias(log.session, memory.clean) != session:
            continue
        try:
            for told in sediment.read_sessions(sediment.still(log.path), True, log.session, log.agent):
                if sediment.alias(told.session, memory.clean) == session:
                    yield told.path, [turn.to_dict() for turn in told.turns]
        except am.LogUnreadable:
            if file:
                raise


def excerpt(memory: am.AgentMemory, turns: Sequence[dict[str, Any]], first: int, last: int,
            around: int) -> tuple[dict[str, Any], ...]:
    """The turns from `first` to `last`, with some before and after; none when they are not there."""
    meant = [at for at, turn in enumerate(turns) if first <= turn["seq"] <= last]
    if not meant:
        return ()
    return tuple({"seq": turn["seq"], "role": turn["role"], "at": turn.get("at", ""), "text": memory.clean(turn["text"]),
                  "said": first <= turn["seq"] <= last}
                 for turn in turns[max(0, meant[0] - around):meant[-1] + around + 1])


def _show(told: Origin, say: am.Say) -> Iterator[str]:
    if told.found == "none":
        yield say("{id} comes from no conversation", id=told.id) + (f": {say.word(told.source)}" if told.source else "")
        return
    yield am.shown(f"{told.source}  {told.path or ''}".rstrip())
    if told.found == "archive":
        yield say("its log is no longer in its place; this was kept of it")
    elif told.found == "gone":
        yield say("its log is no longer in its place, and nothing was kept of it; --file names it if it is elsewhere")
    for turn in told.turns:
        head = f"{sediment.padded(say.word(turn['role']))} {turn['at'][:16].replace('T', ' ')}".rstrip()
        yield say.strong(head) if turn["said"] else head
        yield from (line if turn["said"] else say.dim(line) for line in am.quoted(turn["text"], say.max_chars, say))


@am.command("source", am.arg("id", help="an id, a unique part of one (4 characters or more), or a page's name"),
            am.arg("--around", type=am.none_or_more, default=1, metavar="N", help="turns before and after, too (1)"),
            am.arg("--file", metavar="LOG", help="the log, where it is not in its usual place"),
            am.arg("--max-chars", type=am.at_least_one, metavar="N", help="characters of a turn to show"), show=_show)
def _source(memory: am.AgentMemory, args: Namespace) -> Origin:
    """Show the turns of a conversation that a memory comes from."""
    return origin(memory, args.id, args.file, args.around)


am.CHINESE.update({
    "{id} comes from no conversation": "{id} 并非来自会话",
    "its log is no longer in its place; this was kept of it": "日志已不在原处；以下是当时保存的部分",
    "its log is no longer in its place, and nothing was kept of it; --file names it if it is elsewhere":
        "日志已不在原处，也没有保存过内容；若移到了别处，用 --file 指明",
})
