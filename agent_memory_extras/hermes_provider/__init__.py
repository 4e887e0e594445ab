"""Agent Memory as Hermes' memory provider; written by agent-memory integrate.

Hermes shows what is prefetched to the model but does not store it, so nothing recalled is ever read back.
"""
from __future__ import annotations

import json
import os
import sys

CODE, ROOT = "@CODE@", "@ROOT@"            # integrate writes where we live, and the root that all agents share
if os.path.isdir(CODE) and CODE not in sys.path:
    sys.path.append(CODE)                  # last, so that nothing of Hermes is shadowed

from agent.memory_provider import MemoryProvider  # type: ignore[import-not-found]  # noqa: E402  of Hermes

import agent_memory as am  # noqa: E402
import auto_sediment as sediment  # noqa: E402
from agent_memory_extras import context, mcp  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TEXT = {"type": "string"}
TOOLS = (
    ("recall", "What was kept from earlier conversations about something. Use it before deciding.", {"query": _TEXT}, ["query"]),
    ("remember", "Keep a decision, preference, setting or outcome that outlives this session; one fact, no secrets.",
     {"text": _TEXT, "category": {**_TEXT, "description": "decision, preference, config, event, project or general"},
      "importance": {"type": "integer", "minimum": 1, "maximum": 10}}, ["text"]),
    ("verify", "Confirm a memory that you have seen to be true: it ran, it was checked, the user said so.", {"id": _TEXT}, ["id"]),
)


class Provider(MemoryProvider):  # type: ignore[misc]
    """What Hermes asks of a memory provider, answered by Agent Memory."""

    name = "agent_memory"

    def __init__(self) -> None:
        self._memory = am.AgentMemory(ROOT)
        self._session, self._writes = "", True

    def is_available(self) -> bool:
        """We are here, so we are."""
        return True

    def initialize(self, session_id: str, **more: Any) -> None:
        """A session begins; a sub-agent's, a cron job's or a flush's words are not the user's."""
        self._session, self._writes = session_id, more.get("agent_context", "primary") == "primary"

    def on_session_switch(self, new_session_id: str, **_: Any) -> None:
        """The same agent goes on under another session."""
        self._session = new_session_id

    def system_prompt_block(self) -> str:
        """What matters whatever is asked: the same bytes for the same memories, so that the prompt can be cached."""
        return context.standing(self._memory).text

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What a question brings up."""
        return context.about(self._memory, query).text

    def sync_turn(self, user_content: str, assistant_content: str, *, session_id: str = "", **_: Any) -> None:
        """Keep the facts of a turn.

        Hermes calls this on a thread of its own and hands over the words, so there is no log to find and nothing to
        detach; `on_session_end` and `on_pre_compress` have nothing left to do.  Who reads Hermes' own store later finds
        the same facts in the same words, and they merge.
        """
        said = (("user", user_content), ("assistant", assistant_content))
        turns = [sediment.Turn(role, sediment.spoken(text or ""), seq) for seq, (role, text) in enumerate(said)]
        session = session_id or self._session
        if self._writes and turns[0].text:
            talk = sediment.talk(turns, self._memory.settings["digest"]["roles"])
            self._memory.digest(talk, apply=True, source=f"hermes:{session}", session=session)

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """The tools of the model."""
        return [{"name": name, "description": what,
                 "parameters": {"type": "object", "properties": takes, "required": needs}} for name, what, takes, needs in TOOLS]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **_: Any) -> str:
        """The answer to a call; trouble is told to the model, with what to do about it."""
        try:
            return json.dumps(self._answer(tool_name, args), ensure_ascii=False)
        except (KeyError, am.AgentMemoryError) as fault:
            return json.dumps({"error": self._memory.clean(" ".join(map(str, [fault, getattr(fault, "hint", "")])).strip())})

    def _answer(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        if tool == "recall":
            return {"memories": context.about(self._memory, args["query"]).text or "nothing is known about this"}
        if tool == "remember":
            kept = self._memory.remember(args["text"], args.get("category") or "general", args.get("importance") or 5,
                                         source=f"hermes:{self._session}", session=self._session)
            return {"id": kept.id, "outcome": kept.outcome, "contradicts": [one.memory_id for one in kept.conflicts]}
        if "quarantined" in self._memory.get(str(args["id"])).flags:
            raise mcp.Held
        return {"verified": self._memory.verify(str(args["id"])).id}


def register(ctx: Any) -> None:
    """Hermes' way in."""
    ctx.register_memory_provider(Provider())
