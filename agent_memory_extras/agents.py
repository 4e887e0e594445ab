"""The agents on this machine, as `doctor` tells of them: whose sessions there are, what of them is new, and who reads them."""
from __future__ import annotations

import json
import os

import agent_memory as am
import auto_sediment as sediment

from . import integrate, schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MOST = 16 << 20                            # bytes of unread logs that are read to count their turns; more take seconds
CLEANUP_DAYS = 30                          # after which Claude Code deletes a log unless cleanupPeriodDays says otherwise


def findings(memory: am.AgentMemory) -> Iterator[am.Finding]:
    """What there is to know, agent by agent, and of the timers; trouble where logs may go unread."""
    cursor = sediment.Cursor(memory.slot("sediment"))
    site = integrate.Site(memory.settings.environment, integrate.program(), os.path.abspath(memory.root), False, None)
    for name, agent in sediment.AGENTS.items():
        held = [log for log in agent.found() if not sediment.by_subagent(log)]
        unread = [log for log in held if cursor.known(log) is None]
        if held:
            yield am.Finding("agent", name, _counted(held, unread, cursor, memory), trouble=False)
        elif integrate.integrated(name, site):
            yield am.Finding("agent", name, "integrated; it has no session yet", trouble=False)
        if held and name == "claude-code":
            yield _vanishing(unread, agent.home, memory)
    yield from _timers(memory)


def _counted(held: list[sediment.Held], unread: list[sediment.Held], cursor: sediment.Cursor, memory: am.AgentMemory) -> str:
    """How many sessions there are, how many have something new, and how much."""
    told = f"{len(held)} sessions, {len(unread)} with something new"
    if not unread or sum(log.size for log in unread if not log.session) > MOST:
        return told
    turns = 0
    for log in unread:
        try:
            for session in sediment.read_sessions(sediment.still(log.path), False, log.session, log.agent):
                turns += len(cursor.unseen(sediment.masked(session, memory))) if not sediment.standing(session, False) else 0
        except am.LogUnreadable:
            continue                       # the next run names it
    return f"{told}: {turns} turns"


def _vanishing(unread: list[sediment.Held], home: str, memory: am.AgentMemory) -> am.Finding:
    """Claude Code deletes its logs: trouble once half of that time has passed for one nobody has read."""
    days = cleanup_days(home)
    oldest = max((memory.now().timestamp() - log.changed / 1e9 for log in unread), default=0.0) / 86_400
    what = f"deletes its logs after {days} days (cleanupPeriodDays)"
    if oldest <= days / 2:
        return am.Finding("logs vanish", "claude-code", what, trouble=False)
    return am.Finding("logs vanish", "claude-code", f"{what}; one that was never read is {int(oldest)} days old: "
                                                    "auto_sediment.py --all --apply")


def cleanup_days(home: str) -> int:
    """How long Claude Code keeps a log."""
    path = os.path.join(home, "settings.json")
    try:
        with open(path if os.path.isfile(path) else os.devnull, encoding="utf-8") as file:      # a pipe would be waited for
            days: Any = json.load(file).get("cleanupPeriodDays")
    except (OSError, ValueError, AttributeError):
        days = None
    return days if isinstance(days, int) and days > 0 else CLEANUP_DAYS


def _timers(memory: am.AgentMemory) -> Iterator[am.Finding]:
    """What runs by itself, and how that went last."""
    last = memory.last_digest()
    root = os.path.abspath(memory.root)
    plan = schedule.Plan(memory.settings.environment, root, schedule.jobs(root, "15m"))
    try:
        state = schedule.status(plan, last, memory.now())
    except am.AgentMemoryError as fault:
        yield am.Finding("timer", "schedule", fault.message)
        return
    yield am.Finding("timer", state.kind or "none", "logs are read by themselves" if state.kind else
                     "nothing reads logs by itself: schedule install", trouble=False)
    if state.kind:
        yield from (finding for finding in state.findings if finding.trouble)
    if last:
        yield am.Finding("last run", str(last.get("time")), f"{last.get('sessions')} sessions, {last.get('added')} memories added",
                         trouble=False)
