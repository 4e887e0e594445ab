"""How fast Agent Memory is, side by side with named peers, as ratios that hold on any machine.

    python3 bench/speed.py [--size 1000] [--runs 12] [--keep DIR] [--markdown]
    python3 bench/speed.py --sizes 1000,10000,100000           how it grows: a table and a plot
    python3 bench/speed.py --smoke                             both, tiny

Cold: a process of its own for every call, through an installed (compiled) module as the
command does it, in an environment without other packages, beside the floor every such
process pays, `import re, json`.  Warm: inside one process.  All times are CPU times; medians.  Nothing is asserted.
"""
from __future__ import annotations

import argparse
import gc
import itertools
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

BENCH = Path(__file__).resolve().parent
HERE = BENCH.parent
sys.path[:0] = [str(HERE), str(BENCH)]

import peers  # noqa: E402  it stands beside this file

import agent_memory as am  # noqa: E402  the module beside this folder, installed or not

RUN = "from agent_memory_extras.start import memory; import sys; sys.exit(memory())"          # as the installed command
FLOOR = 'python3 -c "import re, json"'
SMALL = 300                                           # memories for which whole tools are compared
WARM = 5                                              # warm calls for every cold process

# ── the corpus ──

LATIN = ["server", "database", "index", "cache", "deploy", "release", "branch", "merge", "review", "test", "build", "port",
         "bucket", "queue", "worker", "retry", "timeout", "region", "cluster", "backup", "restore", "schema", "migration",
         "client", "session", "login", "page", "report", "invoice"]
CHINESE = ["服务器", "数据库", "索引", "缓存", "部署", "发布", "分支", "合并", "评审", "测试", "构建", "端口", "队列", "重试",
           "超时", "区域", "集群", "备份", "恢复", "迁移", "客户端", "会话", "登录", "页面", "报表", "发票", "接口", "权限"]
QUERIES = ["数据库备份放在哪个区域", "which port does the cache use", "发布分支的评审流程", "retry timeout of the worker",
           "登录页面", "invoice"]


class Tongue(NamedTuple):
    """Words of one language, the sum of their frequencies so far, what joins them, and how many a text has at most."""

    words: list[str]
    sums: list[float]
    joint: str
    most: int

    def drawn(self, chosen: random.Random, count: int) -> list[str]:
        """Words as unevenly frequent as in real text."""
        return chosen.choices(self.words, cum_weights=self.sums, k=count)


def tongue(seed: int, own: list[str], parts: list[str], length: int, joint: str, most: int) -> Tongue:
    """Words of our own first, then two thousand made of parts; the nth has a frequency of 1/n."""
    chosen = random.Random(seed)
    words = own + ["".join(chosen.choices(parts, k=chosen.randrange(2, length))) for _ in range(2000)]
    return Tongue(words, list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1))), joint, most)


@cache
def tongues() -> tuple[Tongue, Tongue]:
    """Chinese and English, both invented."""
    syllables = [first + vowel for first in "bcdfghklmnprstvw" for vowel in "aeiou"]
    return (tongue(6, CHINESE, [chr(0x4E00 + 7 * n) for n in range(900)], 4, "", 90),
            tongue(5, LATIN, syllables, 5, " ", 42))


def sentence(number: int, chosen: random.Random) -> str:
    """40–300 characters, Chinese and English in turn; every tenth word carries a number."""
    spoken = tongues()[number % 2]
    parts = [f"{word}{chosen.randrange(10_000) if chosen.random() < 0.1 else ''}"
             for word in spoken.drawn(chosen, chosen.randrange(8, spoken.most))]
    return f"{number * 7919} " + spoken.joint.join(parts)[:chosen.randrange(40, 300)]


def sentences(count: int, first: int = 0) -> list[str]:
    """So many sentences, the same at every call; a million take a quarter of a minute.  From another `first` on come others."""
    chosen = random.Random(11 + first)
    return [sentence(number, chosen) for number in range(first, first + count)]


def questions(count: int) -> list[str]:
    """So many questions: six written by hand, then two to four words of Chinese, of English, of both."""
    chosen, (chinese, latin) = random.Random(7), tongues()
    kinds = itertools.cycle([(chinese,), (latin,), (chinese, latin)])
    made = (" ".join(spoken.joint.join(spoken.drawn(chosen, chosen.randrange(2, 5))) for spoken in kind) for kind in kinds)
    return [*QUERIES, *itertools.islice(made, max(0, count - len(QUERIES)))][:count]


# ── measuring ──

class Entry(NamedTuple):
    """A line of the table before it is measured."""

    section: str
    name: str
    cold: Callable[[int], list[str]] | None = None            # the arguments of the nth process
    warm: Callable[[], Callable[[int], object]] | None = None  # opens what there is to open, and gives the nth call
    beside: str = ""                                          # the line of ours that does the same job
    rate: float | None = None                                 # rows a second while it was filled
    disk: int | None = None                                   # bytes
    writes: bool = False                                      # its processes run after all that only read


class Figures(NamedTuple):
    """What was measured for a line: milliseconds and bytes."""

    cold: float | None = None
    peak: float | None = None
    p50: float | None = None
    p95: float | None = None


BARE = Entry("", FLOOR, lambda _: ["-c", "import re, json"])


def interpreter(folder: str) -> str:
    """An interpreter with no package but ours, put where `pip install .` puts it: start-up files (.pth) of others can cost each
    process, the floor too, more than its work."""
    venv.create(folder, symlinks=True)
    [packages] = Path(folder).glob("lib/*/site-packages")
    for name in ("agent_memory.py", "auto_sediment.py"):
        shutil.copy2(HERE / name, packages)
    shutil.copytree(HERE / "agent_memory_extras", packages / "agent_memory_extras", ignore=shutil.ignore_patterns("__pycache__"))
    return os.path.join(folder, "bin", "python")


def environment() -> dict[str, str]:
    """Ours without what would change a measurement; one thread, since a waiting one counts as work."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "AGENT_MEMORY", "HERMES"))}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def cold(python: str, commands: list[Callable[[int], list[str]]], runs: int) -> list[tuple[float, float]]:
    """The median CPU milliseconds and peak bytes of each command.  They take turns, and the first round is not counted."""
    rounds = [[python, *command(number)] for number in range(runs + 1) for command in commands]
    done = subprocess.run([python, str(BENCH / "cold.py")], input=json.dumps(rounds), cwd=Path(python).parent, env=environment(),
                          check=True, stdout=subprocess.PIPE, text=True)
    spent = json.loads(done.stdout)[len(commands):]
    return [(statistics.median(seconds for seconds, _ in spent[at::len(commands)]) * 1000,
             statistics.median(peak for _, peak in spent[at::len(commands)])) for at in range(len(commands))]


def warm(call: Callable[[int], object], calls: int) -> tuple[float, float]:
    """The median and the 95th percentile of a call's CPU time, in milliseconds, after two that are not counted."""
    spent = []
    for number in range(-2, calls):
        began = time.process_time()
        call(max(0, number))
        spent.append((time.process_time() - began) * 1000)
    return statistics.median(spent[2:]), sorted(spent[2:])[int(calls * 0.95)]


def processes(entries: list[Entry], options: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """What `cold` found for the entries that have processes."""
    starts = {entry.name: entry.cold for entry in entries if entry.cold}
    return dict(zip(starts, cold(options.python, list(starts.values()), options.runs)))


def measured(entries: list[Entry], options: argparse.Namespace) -> dict[str, Figures]:
    """{name: figures} of all entries: processes that read, processes that write, then one by one what is warm."""
    spent = {**processes([entry for entry in entries if not entry.writes], options),
             **processes([entry for entry in entries if entry.writes], options)}
    found = {}
    for entry in entries:
        calls = warm(entry.warm(), options.runs * WARM) if entry.warm else (None, None)
        found[entry.name] = Figures(*spent.get(entry.name, (None, None)), *calls)
        gc.collect()                                  # the index of one peer does not slow the next
    return found


def ledger(folder: Path) -> Path:
    """Where it is written how long a folder took to fill; there once it is full."""
    return folder.with_name(f"{folder.name}.json")


def built(folder: Path, prepare: Callable[[], Any], make: Callable[[Any, str], object]) -> float:
    """The seconds in which a folder was filled, now or, where it was kept, then; on a clock, for some fill with two cores."""
    record = ledger(folder)
    if not record.exists():
        shutil.rmtree(folder, ignore_errors=True)     # an interrupted run leaves half a folder
        folder.mkdir(parents=True)
        material = prepare()
        began = time.perf_counter()
        make(material, str(folder))
        record.write_text(json.dumps(time.perf_counter() - began))
    return float(json.loads(record.read_text()))


def occupied(folder: Path) -> int:
    """The bytes a folder takes on disk, in whole blocks."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


# ── ours ──

class Ours:
    """A store of our own, filled through the import."""

    def __init__(self, folder: Path, size: int, runs: int) -> None:
        self.size, self.texts = size, sentences(size)
        self.folder = folder / str(size) / "agent-memory"
        self.kept = ledger(self.folder).exists()
        self.rate = size / max(1e-9, built(self.folder, self.rows, self.fill))
        self.memory = am.AgentMemory(self.folder, environment={})
        self.questions = questions(runs * WARM)
        began = time.process_time()
        for search in (self.memory.recall, self.memory.vsearch):
            search(QUERIES[0])
        self.first = time.process_time() - began
        self.disk, self.held = occupied(self.folder), self.memory.stats().total
        self.new = sentences(runs * (WARM + 1) + 3, first=self.held)

    def rows(self) -> list[str]:
        """The texts as lines for the import."""
        return [json.dumps({"text": text, "importance": 6}) for text in self.texts]

    @staticmethod
    def fill(rows: list[str], root: str) -> None:
        """Import the rows into a new store."""
        refused = am.AgentMemory(root, environment={}).import_rows(rows, merge=True).refused
        if refused:
            print(f"{len(refused)} rows refused, the first: {refused[0]}", file=sys.stderr)

    def question(self, number: int) -> str:
        """The nth question, round and round."""
        return self.questions[number % len(self.questions)]

    def command(self, verb: str, text: str) -> list[str]:
        """One call as a process."""
        return ["-c", RUN, "--root", str(self.folder), verb, text]

    def entries(self, section: str) -> list[Entry]:
        """Recall, search by meaning, remember: cold and warm."""
        memory, ask = self.memory, self.question
        return [
            Entry(section, "recall", lambda n: self.command("recall", ask(n)),
                  lambda: lambda n: memory.recall(ask(n), touch=False), rate=self.rate, disk=self.disk),
            Entry(section, "vsearch", lambda n: self.command("vsearch", ask(n)), lambda: lambda n: memory.vsearch(ask(n))),
            Entry(section, "remember", lambda _: self.command("remember", self.new.pop()),
                  lambda: lambda _: memory.remember(self.new.pop()), writes=True)]


# ── theirs ──

def on_path(run: str) -> str:
    """Code for a process of the plain interpreter that finds our packages and `peers`, and runs this."""
    places = [str(BENCH), *(place for place in sys.path if place.endswith(("site-packages", "dist-packages")))]
    return f"import sys; sys.path += {places!r}; {run}"


def terms(text: str) -> list[str]:
    """Our terms of a text, each kept once for all texts."""
    return list(map(sys.intern, am.tokenize_terms(text)))


def vector(text: str) -> tuple[array[int], array[float]]:
    """The local vector of a text: the dimensions it touches, and their weights."""
    [found] = am.LocalHashVectorizer(peers.DIMENSIONS).embed([text])
    return array("H", map(int, found)), array("f", found.values())


class Job(NamedTuple):
    """Something peers do as well as we: what they are given, and the line of ours to hold against it."""

    title: str
    peers: Sequence[peers.Peer]
    prepared: Callable[[str], Any]
    beside: str


JOBS = [Job("by words", peers.BY_WORDS, terms, "recall"),
        Job("duplicates", peers.BY_TEXT, str, "remember"),
        Job("likeness", peers.BY_LIKENESS, vector, "vsearch")]


def opened(peer: peers.Peer, folder: Path, queries: list[Any]) -> Callable[[int], object]:
    """A peer with its index loaded, as the nth call."""
    peer.open(str(folder))
    return lambda n: peer.search(queries[n % len(queries)])


def rival(job: Job, peer: peers.Peer, ours: Ours) -> Entry:
    """A peer at the same corpus, as a line of the table; what goes by words starts cold as well."""
    folder = ours.folder.parent / peer.package
    seconds = built(folder, lambda: [job.prepared(text) for text in ours.texts], peer.build)
    queries = [job.prepared(text) for text in (ours.new if job.beside == "remember" else ours.questions)]
    entry = Entry(job.title, peer.name, warm=partial(opened, peer, folder, queries), beside=job.beside)
    if peer not in peers.BY_WORDS:
        return entry
    run = on_path("import peers; peers.ask(sys.argv[1], sys.argv[2], sys.argv[3:])")
    return entry._replace(cold=lambda n: ["-c", run, peer.name, str(folder), *queries[n % len(queries)]],
                          rate=ours.size / max(1e-9, seconds), disk=occupied(folder))


def tools(small: Ours) -> list[Entry]:
    """Whole commands at a few hundred memories: ours, then theirs."""
    section, tail = f"whole commands, {small.size} memories", f", {small.size}"
    recall, _, remember = (entry._replace(name=f"agent-memory {entry.name}{tail}", warm=None) for entry in small.entries(section))
    if not peers.TOOL.installed():
        return [recall, remember]
    tool, folder, new = peers.TOOL, small.folder.parent / peers.TOOL.package, list(small.new)
    seconds = built(folder, lambda: small.texts, tool.build)

    def command(verb: str, text: str) -> list[str]:
        return ["-c", on_path(tool.run), *tool.command(str(folder), verb, text)]

    return [recall, remember,
            Entry(section, f"{tool.name} search{tail}", lambda n: command("search", small.question(n)), beside=recall.name,
                  rate=small.size / max(1e-9, seconds), disk=occupied(folder)),
            Entry(section, f"{tool.name} add{tail}", lambda _: command("add", new.pop()), beside=remember.name, writes=True)]


# ── the table ──

HEAD = ["", "cold ms", "x floor", "peak MB", "warm p50 ms", "p95 ms", "x ours", "rows/s", "disk MB"]


def shown(value: float | None) -> str:
    """Two or three digits, and nothing for nothing."""
    if value is None:
        return ""
    return f"{value:,.{3 if value < 0.1 else 2 if value < 10 else 1 if value < 100 else 0}f}"


def per(one: float | None, other: float | None) -> float | None:
    """A ratio, where both are known."""
    return one / other if one is not None and other else None


def line(entry: Entry, found: dict[str, Figures]) -> list[str]:
    """The cells of a line; `x ours` compares what is warm, and whole commands by their processes."""
    mine, ours = found[entry.name], found.get(entry.beside, Figures())
    ratio = per(mine.p50, ours.p50) if mine.p50 is not None else per(mine.cold, ours.cold)
    figures = [mine.cold, per(mine.cold, found[FLOOR].cold), per(mine.peak, 1e6), mine.p50, mine.p95, ratio, entry.rate,
               per(entry.disk, 1e6)]
    return [f"  {entry.name}", *map(shown, figures)]


def table(entries: list[Entry], found: dict[str, Figures]) -> list[list[str]]:
    """All lines, with a line of its own for each section."""
    rows = [HEAD]
    for section, group in itertools.groupby(entries, lambda entry: entry.section):
        rows += [[section]] if section else []
        rows += [line(entry, found) for entry in group]
    return rows


def plain(rows: list[list[str]]) -> str:
    """A table for a terminal: the first column to the left, figures to the right."""
    widths = [max(len(row[at]) for row in rows if at < len(row)) for at in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) if at else cell.ljust(width)
                               for at, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows)


def markdown(rows: list[list[str]]) -> str:
    """A table for a README."""
    full = [[cell.strip() for cell in row] if len(row) > 1 else [f"**{row[0]}**", *[""] * (len(rows[0]) - 1)] for row in rows]
    full.insert(1, ["---", *["---:"] * (len(rows[0]) - 1)])
    return "\n".join(f"| {' | '.join(row)} |" for row in full)


NOTES = """\
cold: a process, load and one question; x floor: that against the floor; rows/s: by the clock, while filled; disk: whole blocks.
x ours: theirs / ours, warm p50 (whole commands: cold).  Above 1 ours is faster.
by words: the same terms, cut beforehand and off the clock; ours is the whole recall: masking, words, meaning, fusion.
duplicates: extractOne(fuzz.ratio, floor 85) over all texts; ours is the whole remember: masking, verdict, links, disk.
likeness: matrix @ question, cosine 0.30 and above, its vector made beforehand; ours is the whole vsearch.
whole commands: agentrecall-db takes what stands between blanks for a word, so it answers few Chinese questions."""


def compare(options: argparse.Namespace, folder: Path) -> None:
    """Ours beside everyone who is installed, in one table."""
    ours, small = (Ours(folder, size, options.runs) for size in (options.size, min(SMALL, options.size // 2)))
    rivals = [(job, peer) for job in JOBS for peer in job.peers]
    missing = [peer.name for peer in (*(peer for _, peer in rivals), peers.TOOL) if not peer.installed()]
    entries = [BARE, *ours.entries("agent-memory"), *(rival(job, peer, ours) for job, peer in rivals if peer.installed()),
               *tools(small)]
    found = measured(entries, options)
    for verb in ("recall", "remember"):               # once more, beside the whole commands
        entries.append(Entry(entries[-1].section, f"agent-memory {verb}, {ours.size}"))
        found[entries[-1].name] = Figures(found[verb].cold, found[verb].peak)
    rows = table(entries, found)
    print(f"{ours.size:,} texts, {ours.held:,} memories; CPU time; medians of {options.runs} processes, "
          f"{options.runs * WARM} warm calls\n")
    print(markdown(rows) if options.markdown else plain(rows))
    print(f"\n{NOTES}\n{filling(ours)}")
    if missing:
        print(f"not installed: {', '.join(missing)}; pip install '.[bench]'")


def filling(ours: Ours) -> str:
    """What else the filling cost, or that it was an earlier run's."""
    if ours.kept:
        return "the store was kept from an earlier run: rows/s are of that run."
    return f"the first recall and vsearch after the import took {ours.first * 1000:,.0f} ms together."


# ── growth ──

def growth(options: argparse.Namespace, folder: Path) -> None:
    """Ours alone at several sizes: a table, and the same as a plot."""
    columns = {size: grown(size, options, folder) for size in options.sizes}
    lines = {name: [column[name] for column in columns.values()] for name in next(iter(columns.values()))}
    rows = [["memories", *(f"{size:,}" for size in columns), "x in all"]]
    rows += [[name, *map(shown, figures), shown(per(figures[-1], figures[0]))] for name, figures in lines.items()]
    print(markdown(rows) if options.markdown else plain(rows))
    print(plot({name: figures for name, figures in lines.items() if "floor" not in name}, list(columns)))
    if options.keep:
        print(f"a store that was in {options.keep} already keeps the import time of the run that filled it.")


def grown(size: int, options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """The column of one size."""
    ours = Ours(folder, size, options.runs)
    found = measured([BARE, *ours.entries("")], options)
    column: dict[str, float | None] = {"import, ms a row": 1000 / ours.rate}
    for name in ("recall", "vsearch", "remember"):
        column |= {f"cold {name}, ms": found[name].cold, f"cold {name}, x floor": per(found[name].cold, found[FLOOR].cold)}
    for name in ("recall", "vsearch", "remember"):
        column |= {f"warm {name} p50, ms": found[name].p50, f"warm {name} p95, ms": found[name].p95}
    column |= {"peak of a cold recall, MB": per(found["recall"].peak, 1e6), "disk, MB": ours.disk / 1e6}
    return {name: figure for name, figure in column.items() if figure is not None}


def plot(lines: dict[str, list[float]], sizes: Iterable[int], width: int = 72) -> str:
    """A line for each figure on one logarithmic axis; 1 marks the first size, 2 the next, the larger one on top."""
    figures = [figure for line in lines.values() for figure in line]
    low, high = math.floor(math.log10(max(1e-3, min(figures)))), math.ceil(math.log10(max(figures)))
    step, label = width // max(1, high - low), max(map(len, lines))
    axis = "".join(f"{10.0 ** power:<{step},.10g}" for power in range(low, high + 1))
    drawn = [f"\n{'log scale':{label}}  {axis.rstrip()}"]
    for name, line in lines.items():
        cells = ["|" if at % step == 0 else " " for at in range(step * (high - low) + 1)]
        for mark, figure in enumerate(line, 1):
            cells[round((math.log10(max(1e-3, figure)) - low) * step)] = str(mark)
        drawn.append(f"{name:{label}}  {''.join(cells)}".rstrip())
    return "\n".join([*drawn, "   ".join(f"{mark} = {size:,}" for mark, size in enumerate(sizes, 1))])


# ── the command line ──

def arguments() -> argparse.Namespace:
    """The options; --smoke overrides sizes and runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1000, help="memories in the store (1000)")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")],
                        help="measure ours alone at each of these sizes, and show how it grows")
    parser.add_argument("--runs", type=int, default=12, help=f"processes per cold figure (12); warm calls are {WARM} times as many")
    parser.add_argument("--smoke", action="store_true", help="run everything once, with a handful of memories")
    parser.add_argument("--markdown", action="store_true", help="print the tables in Markdown")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the filled stores there, and use those that are there")
    return parser.parse_args()


def main() -> None:
    """Fill the stores, measure, print."""
    options = arguments()
    os.environ.update(environment())                  # before a peer imports NumPy
    if options.smoke:
        options.size, options.runs = 40, 1
    with tempfile.TemporaryDirectory() as folder:
        options.python, place = interpreter(os.path.join(folder, "python")), options.keep or Path(folder)
        if options.smoke or not options.sizes:
            compare(options, place)
        if options.smoke:
            options.sizes = [20, 60]
        if options.sizes:
            growth(options, place)


if __name__ == "__main__":
    main()
