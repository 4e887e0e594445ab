"""Session logs digested, and old memories let go, without anybody thinking of it: by cron or by systemd timers of the user.

    auto_sediment --all --apply --quiet    every 15 minutes
    agent-memory prune --yes               every day

A minimal environment is all that cron and systemd give, so every path is absolute, $PATH names the folder of zstd, and an
agent's own variables of today (CODEX_HOME …) are written in.  Only errors are logged; the log of today and the one before
it are kept, for the daily job begins a new one.
"""
from __future__ import annotations

import os
import re
import shlex

import agent_memory as am

from . import files
from .integrate import BEGIN, END, program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from types import SimpleNamespace as Namespace
    from typing import Any

OURS = "# written by agent-memory schedule"
NAMES = ("agent-memory", "agent-memory-prune")               # of the units; each a service and a timer
TIMERS = [f"{name}.timer" for name in NAMES]
_HOMES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME", "DSH_HOME", "HERMES_HOME")
_NO_CRON = "there is no program crontab"
_LATE_DAYS = 4                                               # since the last run: more than a weekend of a machine asleep
_DAILY = (37, 12)                                            # cron makes up for nothing, and at noon most machines are awake


class Job(am.Record):
    """A command, and when it runs as cron and as systemd say it."""

    argv: tuple[str, ...]
    cron: str
    calendar: str
    begins_log: bool = False                                 # it puts the log aside first
    spoken: bool = True                                      # what it prints is worth logging


class Scheduled(am.Examined):
    """What was done or stands; what is wrong with it is trouble, which is the exit code."""

    findings: tuple[am.Finding, ...]
    fixed: bool = False
    action: str = "status"
    kind: str = ""                                           # "cron", "systemd", both, or "" for neither
    lines: tuple[str, ...] = ()                              # to be put in place, or run, by hand
    last: Mapping[str, Any] | None = None                    # how the last run went
    log: str = ""


class Plan(am.Record):
    """All that a job needs to know of this machine and this memory."""

    env: Mapping[str, str]
    root: str
    jobs: tuple[Job, ...] = ()

    @property
    def log(self) -> str:
        """Where errors go."""
        return os.path.join(self.root, "sediment.log")

    @property
    def units(self) -> str:
        """Where the user's units are."""
        home = self.env.get("XDG_CONFIG_HOME") or os.path.join(self.env.get("HOME") or os.path.expanduser("~"), ".config")
        return os.path.join(home, "systemd", "user")

    def variables(self) -> dict[str, str]:
        """The environment of a job."""
        from shutil import which
        zstd = which("zstd", path=self.env.get("PATH"))
        folders = [os.path.dirname(zstd)] if zstd else []
        path = ":".join(dict.fromkeys([*folders, "/usr/local/bin", "/usr/bin", "/bin"]))
        return {"PATH": path, **{name: self.env[name] for name in _HOMES if self.env.get(name)}}


# ── what runs, and when ──────────────────────────────────────────────────────

def times(every: str) -> tuple[str, str]:
    """"15m" or "6h" as cron and as systemd say it.  UsageError where the day or the hour would not come out even."""
    found = re.fullmatch(r"(\d{1,4})\s*(m|min|h)?", every.strip())
    minutes = int(found[1]) * (60 if found[2] == "h" else 1) if found else 0
    if minutes and 60 % minutes == 0 and minutes < 60:
        return f"*/{minutes} * * * *", f"*:0/{minutes}"
    hours = minutes // 60
    if hours and minutes % 60 == 0 and 24 % hours == 0:
        return f"7 {'*' if hours == 1 else '4' if hours == 24 else f'*/{hours}'} * * *", \
            "*:07" if hours == 1 else "04:07" if hours == 24 else f"0/{hours}:07"
    raise am.UsageError(f"--every {every!r} cannot be kept by a clock",
                        "minutes that divide an hour or hours that divide a day: 15m, 6h")


def jobs(root: str, every: str) -> tuple[Job, ...]:
    """What is to run on a memory."""
    minute, hour = _DAILY
    return (Job((*program("auto-sediment"), "--all", "--apply", "--quiet", "--root", root), *times(every)),
            Job((*program(), "prune", "--yes", "--root", root), f"{minute} {hour} * * *", f"{hour}:{minute}", True, False))


# ── cron ─────────────────────────────────────────────────────────────────────

def cron_lines(plan: Plan) -> str:
    """The jobs as lines of a crontab; a variable set on a line of its own would be set for the user's lines too."""
    log, given = shlex.quote(plan.log), " ".join(f"{name}={shlex.quote(value)}" for name, value in plan.variables().items())
    lines = []
    for job in plan.jobs:
        first = f"umask 077; mv -f {log} {log}.1 2>/dev/null; " if job.begins_log else "umask 077; "
        out = f">>{log} 2>&1" if job.spoken else f">/dev/null 2>>{log}"
        # cron reads a bare % as the end of the line.
        lines.append(f"{job.cron} " + f"{first}{given} {shlex.join(job.argv)} {out}".replace("%", r"\%"))
    return "\n".join(lines)


def ran(plan: Plan, *argv: str, text: str | None = None) -> tuple[int, str, str]:
    """What another program answers: exit code, output, errors; 127 when it is not there or does not answer."""
    import subprocess
    from shutil import which
    place = which(argv[0], path=plan.env.get("PATH", os.defpath))
    if place is None:
        return 127, "", f"there is no program {argv[0]}"
    try:
        done = subprocess.run([place, *argv[1:]], input=text or "", capture_output=True, text=True, timeout=30, check=False,
                              encoding="utf-8", errors="surrogateescape", env={**plan.env, "LC_ALL": "C"})
    except (OSError, subprocess.TimeoutExpired) as fault:
        return 127, "", str(fault)
    return done.returncode, done.stdout, " ".join(done.stderr.split())


def crontab(plan: Plan) -> str:
    """The user's crontab, "" without cron.  AgentMemoryError when nobody can tell what it is, for then it must stay."""
    code, text, said = ran(plan, "crontab", "-l")
    if code and said != _NO_CRON and not re.search(r"(?i)no crontab|no such file", said):
        raise am.AgentMemoryError(f"crontab -l failed: {said or code}", "nothing was changed")
    return "" if code else text


def set_crontab(plan: Plan, body: str | None) -> bool:
    """Put our lines into the crontab, or take them out; False when it is as it should be already."""
    old = crontab(plan)
    new = files.between(old, body, BEGIN, END, "crontab")
    if new == old:
        return False
    code, _, said = ran(plan, "crontab", "-", text=new) if new else ran(plan, "crontab", "-r")
    if code:
        raise am.AgentMemoryError(f"crontab refused the new lines: {said or code}", "nothing was changed")
    return True


def cron_commands(text: str) -> list[list[str]]:
    """The commands of our lines in a crontab."""
    lines = [line.strip() for line in text.splitlines()]
    ours = lines[lines.index(BEGIN) + 1:lines.index(END)] if BEGIN in lines and END in lines else []
    return [_split(line.replace(r"\%", "%")) for line in ours]


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return []


# ── systemd ──────────────────────────────────────────────────────────────────

def unit_texts(plan: Plan) -> dict[str, str]:
    """File name → text of the units."""
    found = {}
    for name, job in zip(NAMES, plan.jobs):
        found[f"{name}.service"] = _service(plan, job, f"{name}, run by {name}.timer")
        found[f"{name}.timer"] = "\n".join([
            OURS, "[Unit]", f"Description=When {name} runs", "", "[Timer]", f"OnCalendar={job.calendar}", "Persistent=true", "",
            "[Install]", "WantedBy=timers.target", ""])
    return found


def _service(plan: Plan, job: Job, what: str) -> str:
    """The unit that runs a job once."""
    log = plan.log.replace("%", "%%")
    lines = [OURS, "[Unit]", f"Description={what}", "", "[Service]", "Type=oneshot", "Nice=10", "UMask=0077"]
    lines += [f"Environment={_unit_word(f'{name}={value}')}" for name, value in plan.variables().items()]
    if job.begins_log:
        lines.append("ExecStartPre=-/bin/mv -f " + _command([plan.log, f"{plan.log}.1"]))
    lines += [f"ExecStart={_command(job.argv)}", f"StandardOutput={f'append:{log}' if job.spoken else 'null'}",
              f"StandardError=append:{log}", ""]
    return "\n".join(lines)


def _command(words: Sequence[str]) -> str:
    return " ".join(map(_unit_word, words)).replace("$", "$$")


def _unit_word(text: str) -> str:
    """A word as systemd reads it: quoted, a percent sign doubled."""
    return '"' + text.replace("\\", r"\\").replace('"', r"\"").replace("%", "%%") + '"'


def set_units(plan: Plan) -> None:
    """Write the units, all or none."""
    texts = {os.path.join(plan.units, name): text for name, text in unit_texts(plan).items()}
    for path in texts:
        if (old := files.read(path)) and not old.startswith(OURS):
            raise am.AgentMemoryError(f"{path} was not written by us", "move it away, then try again")
    for path, text in texts.items():
        files.put(path, text)


def our_units(plan: Plan) -> list[str]:
    """The units of ours that are there."""
    paths = [os.path.join(plan.units, f"{name}.{kind}") for name in NAMES for kind in ("service", "timer")]
    return [path for path in paths if files.read(path).startswith(OURS)]


def unit_commands(plan: Plan) -> list[list[str]]:
    """The commands of our units."""
    texts = [files.read(path) for path in our_units(plan)]
    return [_split(line.partition("=")[2].replace("%%", "%").replace("$$", "$"))
            for text in texts for line in text.splitlines() if line.startswith("ExecStart=")]


def answers(plan: Plan) -> bool:
    """Whether a systemd of this user is running."""
    return ran(plan, "systemctl", "--user", "show-environment")[0] == 0


# ── the command ──────────────────────────────────────────────────────────────

def install(plan: Plan, kind: str) -> Scheduled:
    """Put the jobs in place, by one kind only; where neither is there, say what to put where."""
    if kind == "auto":
        kind = "systemd" if answers(plan) else "cron" if ran(plan, "crontab", "-l")[0] != 127 else "none"
    if kind == "none":
        lines = [BEGIN, *cron_lines(plan).splitlines(), END]
        return Scheduled((am.Finding("schedule", "crontab", "neither systemd nor cron answers here"),),
                         action="install", lines=tuple(lines), log=plan.log)
    if kind == "cron":
        set_crontab(plan, cron_lines(plan))
        _remove_units(plan)
        return Scheduled((), action="install", kind=kind, log=plan.log)
    set_units(plan)
    _remove_lines(plan)
    return Scheduled(_enabled(plan), action="install", kind=kind, log=plan.log)


def _enabled(plan: Plan) -> tuple[am.Finding, ...]:
    """Have systemd start the timers; what is found when it does not."""
    for words in (["daemon-reload"], ["enable", "--now", *TIMERS]):
        code, _, said = ran(plan, "systemctl", "--user", *words)
        if code:
            return (am.Finding("schedule", "systemctl", said or f"exit code {code}"),)
    return ()


def remove(plan: Plan) -> Scheduled:
    """Take the jobs out, of whatever kind."""
    crontab(plan)                                            # one that is there and cannot be read is told
    kinds = [kind for kind, done in (("cron", _remove_lines(plan)), ("systemd", _remove_units(plan))) if done]
    return Scheduled((), action="remove", kind=", ".join(kinds), log=plan.log)


def _remove_lines(plan: Plan) -> bool:
    """Take our lines out of the crontab; one that cannot be read is left alone, and cannot be ours to mend."""
    return BEGIN in ran(plan, "crontab", "-l")[1] and set_crontab(plan, None)


def _remove_units(plan: Plan) -> bool:
    there = our_units(plan)
    if there:
        ran(plan, "systemctl", "--user", "disable", "--now", *TIMERS)      # where it does not answer, nothing runs either
        for path in there:
            os.unlink(path)
        ran(plan, "systemctl", "--user", "daemon-reload")
    return bool(there)


def status(plan: Plan, last: Mapping[str, Any] | None, now: datetime) -> Scheduled:
    """What is installed, how it went last, and what is wrong."""
    lines = cron_commands(crontab(plan))
    units = unit_commands(plan)
    kinds = [kind for kind, there in (("cron", lines), ("systemd", units)) if there]
    wrong = [] if kinds else ["no job is installed: schedule install"]
    wrong += ["both cron and systemd run it: schedule install keeps one"] if len(kinds) > 1 else []
    for words in [*lines, *units]:
        wrong += _wrong_with(words, plan)
    if units and answers(plan) and any(ran(plan, "systemctl", "--user", "is-active", timer)[0] for timer in TIMERS):
        wrong.append("a timer does not run: schedule install starts it")
    if last:
        days = am.age(last.get("time"), now)
        wrong += [f"the last run was long ago: {last.get('time')}"] if days is None or days > _LATE_DAYS else []
        wrong += [f"the last run failed: {last['error']}"] if last.get("error") else []
    findings = [am.Finding("schedule", " and ".join(kinds), what) for what in dict.fromkeys(wrong)]
    findings += [am.Finding("schedule", plan.root, "it has not run yet", False)] if kinds and not last else []
    return Scheduled(tuple(findings), kind=", ".join(kinds), last=last, log=plan.log)


def _wrong_with(words: Sequence[str], plan: Plan) -> Iterator[str]:
    """What is wrong with an installed command: a program that is gone, another memory."""
    start = max((n + 1 for n, word in enumerate(words) if re.match(r"[A-Z_]+=", word)), default=0)      # behind the variables
    for word in words[start:]:
        if not word.startswith("/"):
            break
        if not os.path.exists(word):
            yield f"{word} is gone: schedule install names the one of today"
    root = words[words.index("--root") + 1:][:1] if "--root" in words else []
    if root != [plan.root]:
        yield f"it serves another memory: {' '.join(root)}"


def _show(found: Scheduled, say: am.Say) -> Iterator[str]:
    done = {"install": "installed: {kind}", "remove": "removed: {kind}", "status": "installed: {kind}"}[found.action]
    yield say(done, kind=found.kind or say("nothing"))
    if found.action != "remove" and found.kind:
        yield say("errors go to {log}", log=am.shown(found.log))
    if found.action == "install" and "systemd" in found.kind:
        yield say("timers run while you are logged in; `loginctl enable-linger` lets them run always")
        if found.findings:
            yield say("start them by hand: {command}", command=f"systemctl --user enable --now {' '.join(TIMERS)}")
    if found.last:
        yield say("last run: {time}, {sessions} sessions, {added} memories added", time=found.last.get("time"),
                  sessions=found.last.get("sessions"), added=found.last.get("added"))
    if found.lines:
        yield say("put these lines into a crontab, where there is one:")
        yield from (am.shown(line) for line in found.lines)
    for one in found.findings:
        what = am.shown(say.told(one.what))
        yield say("error: {what}", what=what) if one.trouble else say("warning: {what}", what=what)


@am.command("schedule", am.arg("what", help="install, status or remove"),
            am.arg("--every", default="15m", metavar="15m", help="how often logs are read: minutes (m) or hours (h)"),
            am.arg("--kind", choices=("auto", "cron", "systemd"), default="auto", help="auto: systemd where it answers, else cron"),
            show=_show, reads=False)
def _schedule(memory: am.AgentMemory, args: Namespace) -> Scheduled:
    """Have session logs digested by cron or by a systemd timer."""
    if args.what not in ("install", "status", "remove"):
        raise am.UsageError(f"schedule what? {args.what!r}", "install, status or remove")
    root = os.path.abspath(memory.root)
    plan = Plan(memory.settings.environment, root, jobs(root, args.every))
    if args.what == "status":
        return status(plan, memory.last_digest() or None, memory.now())
    if args.what == "remove":
        return remove(plan)
    files.nameable(root)
    if not memory.exists():
        memory.init()                                        # a job would fail where there is no memory
    return install(plan, args.kind)


am.CHINESE.update({
    "installed: {kind}": "已安装：{kind}", "removed: {kind}": "已移除：{kind}", "nothing": "无",
    "errors go to {log}": "错误写入 {log}",
    "timers run while you are logged in; `loginctl enable-linger` lets them run always":
        "定时器只在登录期间运行；执行 `loginctl enable-linger` 后一直运行",
    "start them by hand: {command}": "请手动启动：{command}",
    "last run: {time}, {sessions} sessions, {added} memories added": "上次运行：{time}，{sessions} 个会话，新增 {added} 条记忆",
    "put these lines into a crontab, where there is one:": "请把下面几行放进 crontab：",
})
