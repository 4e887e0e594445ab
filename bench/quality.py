"""How well Agent Memory finds what it was told, and keeps quiet about what it was not, beside named peers.

    python3 bench/quality.py [--half dev|test] [--peers] [--markdown | --json]      on our own questions
    python3 bench/quality.py FOLDER [--sets a,b] [--limit 400] [--peers]            on sets of a folder
    python3 bench/quality.py --smoke                                                a few questions, in a second

A set is a folder with `corpus.jsonl` (`id, text, time?, session?, speaker?`) and `queries.jsonl` (`id, text, relevant, kind`),
or one with such a pair for every part: each part has a store of its own, and their questions are pooled.  Ours is used
as a user would: texts through the import, questions through `recall`.  Peers get the same texts and questions.
Nothing is asserted, and nothing leaves the machine.
"""
from __future__ import annotations

import argparse
import importlib
import json
import logging
import re
import sqlite3
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from heapq import nlargest
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

BENCH = Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH.parent))

import agent_memory as am  # noqa: E402  the module beside this folder, installed or not

T = TypeVar("T")
OURS = "agent-memory"
TOP = 10
NOW = datetime(2026, 1, 1, tzinfo=UTC)                # one clock for every run: a text without a time is dated by it
APART = {"adversarial"}                               # kinds that do not count in the line of their set
NEVER = "never"                                       # the kind that has no answer
OPEN = {"min_score": 0.0, "memory": {"certain": {"needed": 0.0, "size": 0.0, "unheard": 0.0, "names": 0.0}},
        "seed": {"min_coverage": 0.0}}               # without a floor
SMOKE = 24                                            # questions of each sort


# ── sets ──

class Text(NamedTuple):
    """Something to be remembered."""

    id: str
    text: str
    time: str = ""
    session: str = ""
    speaker: str = ""


class Question(NamedTuple):
    """Something to be asked; where nothing is relevant, the right answer is none."""

    id: str
    text: str
    relevant: frozenset[str]
    kind: str


class Part(NamedTuple):
    """The texts of one store, and what is asked of it."""

    texts: list[Text]
    questions: list[Question]


def read(folder: Path, half: str) -> Part:
    """A corpus and its questions, or the half of them whose last digit is even (dev) or odd (test)."""
    def rows(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]

    def chosen(id: str) -> bool:
        return half == "all" or int((re.findall(r"\d", id) or "0")[-1]) % 2 == (half == "test")

    texts = [Text(**{field: row[field] for field in Text._fields if field in row}) for row in rows("corpus.jsonl")]
    return Part(texts, [Question(row["id"], row["text"], frozenset(row["relevant"]), row["kind"])
                        for row in rows("queries.jsonl") if row["text"] and chosen(row["id"])])


def sets(folder: Path, half: str) -> dict[str, list[Part]]:
    """{name: parts} of what lies in a folder, or of the folder where it is a set itself."""
    here = [folder] if (folder / "corpus.jsonl").exists() else sorted(path for path in folder.iterdir() if path.is_dir())
    found = {path.name: [read(corpus.parent, half) for corpus in sorted(path.rglob("corpus.jsonl"))] for path in here}
    return {name: parts for name, parts in found.items() if parts}


def language(text: str) -> str:
    """zh where a text has a Chinese character, else en."""
    return "zh" if re.search("[\u3400-\u9fff]", text) else "en"


def strangers(name: str, at: int, known: dict[str, list[Part]]) -> list[Question]:
    """Questions whose answer was never stored in a part, as many as it has of its own, or fewer.

        its own questions                the strangers
        some have nothing relevant       those
        none, and it has sibling parts   the next part's
        none, and it stands alone        other sets' in the language of its questions, where the two sets share no question

    Taking answers out of a store instead would leave the paragraph next to them, which a user is glad to get.
    """
    own = known[name][at].questions
    if mine := [question for question in own if not question.relevant]:
        return mine
    foreign = known[name][(at + 1) % len(known[name])].questions
    if len(known[name]) == 1:
        ids, spoken = {question.id for question in own}, {language(question.text) for question in own}
        pools = [[question for part in parts for question in part.questions] for parts in known.values()]
        foreign = [question for pool in pools if ids.isdisjoint(question.id for question in pool)
                   for question in pool if language(question.text) in spoken]
    return evenly([question._replace(relevant=frozenset(), kind=NEVER) for question in foreign
                   if question.relevant and question.kind not in APART], len(own))


def evenly(items: Sequence[T], count: int | None) -> list[T]:
    """At most so many of the items, drawn at even distances."""
    size = len(items)
    return list(items) if count is None or size <= count else [items[at * size // count] for at in range(count)]


# ── engines: each is filled with texts, and gives the best ten for a question, as they are and had it no floor ──

Ranking = list[frozenset[str]]                        # for each result, best first, the ids of all texts it stands for


def row(text: Text, at: int) -> dict[str, Any]:
    """A text as a row of the import; what else the import learns to take is added here.

    Where no session is given, all of a day is one.
    """
    session = text.session or text.time[:10]
    fields = {"text": text.text, "verified": True, "created_at": text.time, "speaker": text.speaker,
              "session": session, "seq": at if session else ""}
    return {field: value for field, value in fields.items() if value != ""}


class Ours:
    """Agent Memory with the settings it ships, or with another profile of ranking."""

    def __init__(self, texts: list[Text], folder: str, profile: str) -> None:
        rules: dict[str, Any] = {"profile": profile} if profile else {}
        self.floored, self.open = (am.AgentMemory(folder, config={"retrieval": {**rules, **more}}, environment={}, now=lambda: NOW)
                                   for more in ({}, OPEN))
        imported = self.floored.import_rows(json.dumps(row(text, at), ensure_ascii=False) for at, text in enumerate(texts))
        memories = self.floored.list()
        self.ids, lost = self.homes(texts, memories)
        self.fates = {
            "texts": len(texts), "memories": len(memories), "merged": imported.merged, "unchanged": imported.unchanged,
            "masked": sum(bool(memory.redacted) for memory in memories), "refused": len(imported.refused),
            "quarantined": sum("quarantined" in memory.flags for memory in memories), "lost": lost}

    def homes(self, texts: list[Text], memories: Iterable[am.Memory]) -> tuple[dict[str, set[str]], int]:
        """{id of a memory: ids of the texts it says or once said, masked or not}, and how many texts ended nowhere."""
        said, found, lost = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set), 0
        for memory in memories:
            for wording in (memory.content, *(old["content"] for old in memory.history)):
                said[wording].add(memory.id)
        for text in texts:
            places = said.get(text.text) or said.get(self.floored.clean(text.text)) or set()
            lost += not places
            for id in places:
                found[id].add(text.id)
        return found, lost

    def search(self, query: str) -> tuple[Ranking, Ranking]:
        """With the floor, and without."""
        found, more = ([frozenset(self.ids[hit.id]) for hit in memory.recall(query, top_k=TOP, touch=False)]
                       for memory in (self.floored, self.open))
        return found, more


Best = Callable[[str], list[int]]                     # the numbers of the best ten texts, of those that match at all


class Peer:
    """Another engine; it gets a text once, however often it was said, and has no floor."""

    def __init__(self, texts: list[Text], fill: Callable[[list[str]], Best]) -> None:
        ids = defaultdict[str, set[str]](set)
        for text in texts:
            ids[text.text].add(text.id)
        self.ids, self.best = [frozenset(same) for same in ids.values()], fill(list(ids))
        self.fates = dict[str, int]()

    def search(self, query: str) -> tuple[Ranking, Ranking]:
        """The same twice."""
        found = [self.ids[at] for at in self.best(query)]
        return found, found


# ── peers: their packages are imported where they are filled ──

package = importlib.import_module


def positive(scores: Sequence[float]) -> list[int]:
    """The places of the ten best scores above nothing; of equals the first."""
    return [at for at in nlargest(TOP, range(len(scores)), key=scores.__getitem__) if scores[at] > 0]


def pairs(text: str) -> list[str]:
    """Words in lower case, and Chinese as overlapping pairs of characters."""
    return [piece for word in re.findall("[\u3400-\u9fff]+|[^\\W\u3400-\u9fff]+", text.lower())
            for piece in ([word[at:at + 2] for at in range(max(1, len(word) - 1))] if language(word) == "zh" else [word])]


def rank_bm25(texts: list[str]) -> Best:
    """As its front page shows it: words are what stands between blanks."""
    index = package("rank_bm25").BM25Okapi([text.split() for text in texts])
    return lambda query: positive(index.get_scores(query.split()).tolist())


def bm25s(texts: list[str], cut: Callable[[str], list[str]] = pairs) -> Best:
    """English stems and stop words, and Chinese as it is cut."""
    library, stemmer = package("bm25s"), package("Stemmer").Stemmer("english")

    def stems(spaced: list[str]) -> Any:
        return library.tokenize([" ".join(cut(text)) for text in spaced], token_pattern=r"(?u)\w+", stopwords="en", stemmer=stemmer,
                                return_ids=False, show_progress=False)

    index = library.BM25(k1=1.5, b=0.75)
    index.index(stems(texts), show_progress=False)
    return lambda query: positive(index.get_scores(found).tolist()) if (found := stems([query])[0]) else []


def jieba(texts: list[str]) -> Best:
    """Chinese cut into words by a dictionary, then bm25s."""
    package("jieba").setLogLevel(logging.ERROR)
    return bm25s(texts, package("jieba").lcut)


def fts5(texts: list[str], tokenizer: str, words: Callable[[str], Iterable[str]]) -> Best:
    """SQLite's full text search for any of the words that `words` finds in a question."""
    index = sqlite3.connect(":memory:")
    index.execute(f"CREATE VIRTUAL TABLE t USING fts5(text, tokenize='{tokenizer}')")
    index.executemany("INSERT INTO t(rowid, text) VALUES (?, ?)", enumerate(texts))

    def best(query: str) -> list[int]:
        wanted = " OR ".join(f'"{word}"' for word in words(query))
        found = index.execute("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT ?", (wanted, TOP)) if wanted else ()
        return [at for at, in found]
    return best


def tantivy(texts: list[str]) -> Best:
    """A search engine in Rust with its English stems, given Chinese as pairs of characters."""
    library = package("tantivy")
    schema = library.SchemaBuilder().add_text_field("text", tokenizer_name="en_stem").add_unsigned_field("at", stored=True)
    index = library.Index(schema.build())
    writer = index.writer(num_threads=1)
    for at, text in enumerate(texts):
        writer.add_document(library.Document(text=" ".join(pairs(text)), at=at))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    return lambda query: [searcher.doc(address)["at"][0]
                          for _, address in searcher.search(index.parse_query(" ".join(pairs(query)), ["text"]), TOP).hits]


PEERS: dict[str, Callable[[list[str]], Best]] = {
    "rank_bm25": rank_bm25, "bm25s": bm25s, "tantivy": tantivy, "jieba + bm25s": jieba,
    "FTS5 porter": lambda texts: fts5(texts, "porter unicode61", lambda query: re.findall(r"\w+", query)),
    "FTS5 trigram": lambda texts: fts5(texts, "trigram", lambda query: dict.fromkeys(
        word[at:at + 3] for word in re.findall(r"\w+", query) for at in range(len(word) - 2)))}


# ── scores ──

def share(relevant: frozenset[str], ranking: Ranking) -> float:
    """How much of what is relevant these results hold."""
    return len(relevant.intersection(frozenset[str]().union(*ranking))) / len(relevant)


class Asked(NamedTuple):
    """What an engine made of a question, and would have made of it without a floor."""

    question: Question
    ranking: Ranking
    anyway: Ranking

    def recall(self, count: int) -> float:
        """The share of what is relevant that the first results hold."""
        return share(self.question.relevant, self.ranking[:count])

    def reciprocal(self) -> float:
        """One over the rank of the first result that is relevant."""
        return next((1 / rank for rank, ids in enumerate(self.ranking, 1) if ids & self.question.relevant), 0.0)

    def gain(self) -> float:
        """nDCG: what is relevant counts once, at its first result; 1 is all of it on the first ranks."""
        wanted, total = self.question.relevant, 0.0
        ideal = sum(1 / log2(rank + 1) for rank in range(1, min(TOP, len(wanted)) + 1))
        for rank, ids in enumerate(self.ranking, 1):
            total += len(ids & wanted) / log2(rank + 1)
            wanted -= ids
        return min(1.0, total / ideal)


def figures(group: list[Asked]) -> dict[str, float]:
    """What is printed of some questions: of those that have an answer, then of those that have none."""
    known, never = ([asked for asked in group if bool(asked.question.relevant) == stored] for stored in (True, False))
    found: dict[str, float] = {"questions": len(known)}
    if known:
        found |= {f"R@{count}": fmean(asked.recall(count) for asked in known) for count in (1, 5, TOP)}
        found |= {"MRR": fmean(asked.reciprocal() for asked in known), "nDCG": fmean(asked.gain() for asked in known),
                  "silent": fmean(not asked.ranking for asked in known),
                  "floor": fmean(share(asked.question.relevant, asked.anyway[:5]) - asked.recall(5) for asked in known)}
    if never:
        found |= {"never": len(never), "false": fmean(bool(asked.ranking) for asked in never)}
    return found


def groups(asked: list[Asked]) -> dict[str, list[Asked]]:
    """All questions, then those of each language where there are two, then those of each kind."""
    counted = [one for one in asked if one.question.kind not in APART]
    spoken, kinds = defaultdict[str, list[Asked]](list), defaultdict[str, list[Asked]](list)
    for one in counted:
        spoken[language(one.question.text)].append(one)
    for one in asked:
        kinds[one.question.kind].append(one)
    return {"all": counted, **(spoken if len(spoken) > 1 else {}), **kinds}


# ── a run ──

class Result(NamedTuple):
    """What was found out about an engine on a set."""

    set: str
    engine: str
    figures: dict[str, dict[str, float]]              # of each group
    fates: dict[str, int]                             # what became of the texts
    seconds: float


def plan(name: str, known: dict[str, list[Part]], limit: int | None) -> list[tuple[int, Question]]:
    """(part, question) for a set: at most `limit` questions that have an answer, and as many that have none."""
    parts = list(enumerate(known[name]))
    stored = [(at, question) for at, part in parts for question in part.questions if question.relevant]
    never = [(at, question) for at, _ in parts for question in strangers(name, at, known)]
    return evenly(stored, limit) + evenly(never, limit)


def run(name: str, engine: str, parts: list[Part], asked: list[tuple[int, Question]], profile: str) -> Result:
    """Fill a store for each part, ask, score."""
    began, answers, fates = time.process_time(), list[Asked](), Counter[str]()
    for at, part in enumerate(parts):
        questions = [question for place, question in asked if place == at]
        with tempfile.TemporaryDirectory() as folder:
            store = Peer(part.texts, PEERS[engine]) if engine in PEERS else Ours(part.texts, folder, profile)
            answers += [Asked(question, *store.search(question.text)) for question in questions]
            fates.update(store.fates)
    found = {group: figures(members) for group, members in groups(answers).items()}
    return Result(name, engine, found, dict(fates), time.process_time() - began)


def results(known: dict[str, list[Part]], options: argparse.Namespace) -> Iterator[Result]:
    """Every set through every engine; one that is not installed is named once."""
    engines = [OURS, *(PEERS if options.peers else ())]
    for name in options.sets or known:
        asked = plan(name, known, options.limit)
        for engine in list(engines):
            try:
                result = run(name, engine, known[name], asked, options.profile)
            except (ModuleNotFoundError, sqlite3.OperationalError) as missing:
                print(f"{engine} is left out: {missing}", file=sys.stderr)
                engines.remove(engine)
            else:
                print(f"{name}, {engine}: {result.seconds:.1f} s", file=sys.stderr)
                yield result


# ── printing ──

def table(title: str, rows: list[dict[str, Any]], markdown: bool) -> None:
    """Print rows in columns; where a row lacks one there is a dash."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns]
    for row in rows:
        values = [row.get(column, "–") for column in columns]
        lines.append([f"{value:.3f}" if isinstance(value, float) else str(value) for value in values])
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    if markdown:
        lines.insert(1, ["-" * width for width in widths])
    print(f"\n{'## ' * markdown}{title}\n")
    for line in lines:
        cells = [text.ljust(width) if at < 2 else text.rjust(width) for at, (text, width) in enumerate(zip(line, widths))]
        print(f"| {' | '.join(cells)} |" if markdown else "  ".join(cells))


def show(found: list[Result], markdown: bool) -> None:
    """Print the tables: sets, kinds of question, what became of the texts."""
    ours = [result for result in found if result.engine == OURS]
    table("Sets", [{"set": result.set, "engine": result.engine, **result.figures["all"]} for result in found], markdown)
    table("Languages and kinds of question", [
        {"set": result.set, "questions are": group, **scored,
         **{f"R@5 {peer.engine}": peer.figures[group]["R@5"] for peer in found
            if peer.set == result.set and peer.engine != OURS and "R@5" in scored}}
        for result in ours for group, scored in result.figures.items() if group not in ("all", NEVER)], markdown)
    table("What became of the texts", [{"set": result.set, **result.fates} for result in ours], markdown)
    print("\nR@n: the share of what is relevant among the first n results.  MRR, nDCG: of the first 10.  silent: the share of"
          "\nquestions with an answer that got none.  floor: the R@5 it costs.  false: the share of never-stored ones answered.")


def main() -> None:
    """Read the sets, fill the stores, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=BENCH / "quality", help="where the sets are (our own)")
    parser.add_argument("--sets", type=lambda text: text.split(","), help="only these, by name")
    parser.add_argument("--limit", type=int, help="at most so many questions of a set, and as many never-stored ones")
    parser.add_argument("--half", choices=("all", "dev", "test"), default="all", help="questions whose last digit is even, or odd")
    parser.add_argument("--peers", action="store_true", help="the same through other people's packages, where installed")
    parser.add_argument("--profile", default="", help="the retrieval.profile to try instead of the one that ships")
    parser.add_argument("--smoke", action="store_true", help=f"{SMOKE} questions of each sort")
    parser.add_argument("--markdown", action="store_true", help="print the tables in Markdown")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON document")
    options = parser.parse_args()
    options.limit = SMOKE if options.smoke else options.limit
    known = sets(options.folder, options.half) if options.folder.is_dir() else {}
    if not known or (odd := set(options.sets or known) - known.keys()):
        parser.error(f"no such set: {', '.join(sorted(odd))}" if known else f"no set in {options.folder}")
    found = list(results(known, options))
    if options.json:
        print(json.dumps([result._asdict() for result in found], ensure_ascii=False, indent=1))
    else:
        show(found, options.markdown)


if __name__ == "__main__":
    main()
