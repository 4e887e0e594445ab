"""Files of other programs, changed with care: read whole, replaced atomically, a copy of the old beside it."""
from __future__ import annotations

import os

from agent_memory import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime


def read(path: str) -> str:
    """The text of a file as it is, "" when there is none.  UsageError when it cannot be read as UTF-8."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text, and was left alone", "convert it, for instance with iconv") from None
    except OSError as fault:
        raise UsageError(f"{path}: {fault.strerror}", "check the path") from None


def put(path: str, text: str, now: datetime | None = None, mode: int = 0o644) -> str:
    """Replace a file in one step, through a link to what it means; `mode` is that of a new one.

    With `now` the old contents stay beside it under the name that is returned, "" when there was nothing to keep.
    """
    place = os.path.realpath(path)
    copy, fresh = "", f"{place}.{os.getpid()}.new"
    os.makedirs(os.path.dirname(place), exist_ok=True)
    try:
        old, mode = read(place), os.stat(place).st_mode & 0o7777
    except FileNotFoundError:
        old = ""
    if now and old and old != text:
        copy = f"{place}.{now:%Y%m%d-%H%M%S}.bak"
        _write(copy, old, mode)
    try:
        _write(fresh, text, mode)
        os.replace(fresh, place)
    except OSError as fault:
        if os.path.exists(fresh):
            os.unlink(fresh)
        raise UsageError(f"{path}: {fault.strerror}", "nothing was changed") from None
    return copy


def _write(path: str, text: str, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8", newline="") as file:
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
