"""Files of other programs, changed with care: read whole, replaced atomically, a copy of the old beside it."""
from __future__ import annotations

import os
from stat import S_ISREG

from agent_memory import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import json
    import re
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    Part = tuple[str | int, int, int, int]   # key, where it starts, where its value starts, where that ends
else:
    from agent_memory import json, re  # imported when they are needed


def nameable(path: str) -> None:
    """UsageError for a path that others' settings cannot name: with line breaks, control characters or bytes that are no text."""
    if re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", path):
        raise UsageError(f"{path!r} cannot be named in settings of others", "choose a folder without such characters in its name")


def read(path: str) -> str:
    """The text of a file as it is, "" when there is none.  UsageError when it cannot be read as UTF-8."""
    try:
        if not S_ISREG(os.stat(path).st_mode):                 # a device has no end, and would be replaced by a file
            raise UsageError(f"{path} is no plain file", "check the path")
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text, and was left alone", "convert it, for instance with iconv") from None
    except OSError as fault:
        raise UsageError(f"{path}: {fault.strerror}", "check the path") from None


def put(path: str, text: str, now: datetime | None = None, mode: int = 0o644, was: str | None = None) -> str:
    """Replace a file in one step, through a link to what it means; `mode` is that of a new one.

    With `now` the old contents stay beside it under the name that is returned, "" when there was nothing to keep.  Settings
    hold keys, and a copy is soon forgotten: it is for its owner alone.  UsageError where it is no longer as it `was`.
    """
    place = os.path.realpath(path)
    copy, fresh, owner = "", f"{place}.{os.getpid()}.new", None
    os.makedirs(os.path.dirname(place), exist_ok=True)
    try:
        old, stood = read(place), os.stat(place)
        mode, owner = stood.st_mode & 0o7777, (stood.st_uid, stood.st_gid)
    except FileNotFoundError:
        old = ""
    if was is not None and old != was:
        raise UsageError(f"{path} was changed by another program meanwhile", "try again in a second")
    if now and old and old != text:
        copy = f"{place}.{now:%Y%m%d-%H%M%S}.bak"
        while os.path.lexists(copy):                           # of the same second
            copy = f"{copy.removesuffix('.bak')}+.bak"
        _write(copy, old, mode & 0o700, owner)
    try:
        _write(fresh, text, mode, owner)
        os.replace(fresh, place)
    except OSError as fault:
        if os.path.exists(fresh):
            os.unlink(fresh)
        raise UsageError(f"{path}: {fault.strerror}", "nothing was changed") from None
    return copy


def _write(path: str, text: str, mode: int, owner: tuple[int, int] | None) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode & 0o700), "w", encoding="utf-8", newline="") as file:
        if owner and owner != (os.geteuid(), os.getegid()):    # root at work in the home of another
            from contextlib import suppress
            with suppress(OSError):
                os.fchown(file.fileno(), *owner)
        os.fchmod(file.fileno(), mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def between(text: str, body: str | None, begin: str, end: str, where: str) -> str:
    """The text with `body` between its lines `begin` and `end`, at its end where they are not; None takes all three out.

    Every other byte stays.  UsageError when the markers do not stand once each and in order, for then nobody
    knows what is ours; `where` names the file.
    """
    line_end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    begins, ends = ([n for n, line in enumerate(lines) if line.strip() == mark] for mark in (begin, end))
    if (len(begins), len(ends)) not in ((0, 0), (1, 1)) or begins > ends:
        raise UsageError(f"{where}: {begin!r} and {end!r} do not stand there once each", "mend the file by hand, or take them out")
    ours = "" if body is None else line_end.join([begin, *body.splitlines(), end]) + line_end
    if begins:
        before, after = "".join(lines[:begins[0]]), "".join(lines[ends[0] + 1:])
        if body is None and before.endswith(2 * line_end):
            before = before[:-len(line_end)]                   # the blank line that we put there
        return before + ours + after
    if not ours or not text:
        return text + ours
    return text + ("" if text.endswith("\n") else line_end) + line_end + ours


# ── JSON ─────────────────────────────────────────────────────────────────────
# Changed as text, not printed anew: whoever wrote [1, 2] on one line, 1e5 or \u00e9 finds it as it was.

BLANK = " \t\r\n\ufeff"                     # a byte order mark stands before the first value, if anywhere


def parsed(text: str, where: str) -> dict[str, Any]:
    """The object that a JSON text is, {} for none.  UsageError when it is another thing, or names a key twice."""
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise UsageError(f"{where}: a key stands twice in one object", "take one of them out by hand")
        return dict(pairs)

    if not text.strip(BLANK):
        return {}
    try:
        value = json.loads(text.strip(BLANK), object_pairs_hook=once)
    except (ValueError, RecursionError) as fault:
        line = f" in line {fault.lineno}" if isinstance(fault, json.JSONDecodeError) else ""
        raise UsageError(f"{where} is not plain JSON{line}: comments would be lost", "add the lines by hand") from None
    if not isinstance(value, dict):
        raise UsageError(f"{where} is JSON, but no object", "mend the file by hand")
    return value


def placed(text: str, path: Sequence[str | int], value: Any) -> str:
    """A JSON text with `value` at `path`, a number of the path being a place in an array; all else is as it was."""
    text = text if text.strip(BLANK) else "{}\n"
    at = _first(text, 0)
    for depth, key in enumerate(path):
        parts = _parts(text, at)
        here = next((part for part in parts if part[0] == key), None)
        if here is None:
            for outer in reversed(path[depth + 1:]):
                value = [value] if isinstance(outer, int) else {outer: value}
            return _added(text, at, parts, key, value)
        at = here[2]
    return text[:at] + _printed(text, value, _margin(text, at)) + text[here[3]:] if here else text


def taken(text: str, path: Sequence[str | int]) -> str:
    """A JSON text without what stands at `path`, nor the containers that are empty for it; all else is as it was."""
    at = _first(text, 0)
    for key in path[:-1]:
        at = next(part for part in _parts(text, at) if part[0] == key)[2]
    parts = _parts(text, at)
    number = [part[0] for part in parts].index(path[-1])
    if len(parts) == 1 and len(path) > 1:
        return taken(text, path[:-1])
    if len(parts) == 1:
        return text[:at + 1] + text[_first(text, parts[0][3]):]
    if number == 0:
        return text[:parts[0][1]] + text[parts[1][1]:]
    return text[:parts[number - 1][3]] + text[parts[number][3]:]


def _first(text: str, at: int) -> int:
    """Where the first character from `at` on stands that is not blank."""
    return at + len(text[at:]) - len(text[at:].lstrip(BLANK))


def _parts(text: str, at: int) -> list[Part]:
    """The members of the object or array that opens at `at`."""
    decode, parts = json.JSONDecoder().raw_decode, list[tuple[str | int, int, int, int]]()
    here = _first(text, at + 1)
    while text[here] not in "]}":
        start, key = here, len(parts)
        if text[at] == "{":
            key, here = decode(text, here)
            here = _first(text, _first(text, here) + 1)              # past the colon
        end = decode(text, here)[1]
        parts.append((key, start, here, end))
        here = _first(text, end)
        if text[here] == ",":
            here = _first(text, here + 1)
    return parts


def _added(text: str, at: int, parts: list[Part], key: str | int, value: Any) -> str:
    """One more member at the end of a container, set as its neighbours are."""
    named = "" if isinstance(key, int) else json.dumps(key, ensure_ascii=False) + ": "
    line_end = "\r\n" if "\r\n" in text else "\n"
    if parts:
        lead = text[at + 1:parts[0][1]]
        gap = text[parts[0][3]:parts[1][1]] if parts[1:] else "," + (lead if "\n" in lead else " ")
        before = text[:parts[-1][3]] + gap
        return before + named + _printed(text, value, _margin(before, len(before))) + text[parts[-1][3]:]
    margin = _margin(text, at)
    inner, outer = ("", "") if _on_one_line(text) else (line_end + margin + _unit(text), line_end + margin)
    body = named + _printed(text, value, margin + _unit(text))
    return text[:at + 1] + inner + body + outer + text[_first(text, at + 1):]


def _printed(text: str, value: Any, margin: str) -> str:
    """A value as JSON in the manner of a text, its further lines behind `margin`."""
    if _on_one_line(text):
        return json.dumps(value, ensure_ascii=False)
    line_end = "\r\n" if "\r\n" in text else "\n"
    return json.dumps(value, ensure_ascii=False, indent=_unit(text)).replace("\n", line_end + margin)


def _unit(text: str) -> str:
    """What a JSON text indents one level with."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _on_one_line(text: str) -> bool:
    """Whether a JSON text with anything in it has no line breaks."""
    body = text.strip(BLANK)
    return "\n" not in body and bool(body.strip("{} "))


def _margin(text: str, at: int) -> str:
    """What the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1:at]
    return line[:len(line) - len(line.lstrip(" \t"))]
