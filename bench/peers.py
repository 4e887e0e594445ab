"""What Agent Memory is measured beside: other people's packages, each imported only where it is used.

A peer builds an index into a folder, opens it again, and searches.  What it is given is prepared beforehand, off
every clock: terms for those that go by words, the text for duplicates, a sparse vector for likeness.
`speed.py` drives them; a cold figure is `ask` in a process of its own.
"""
from __future__ import annotations

import importlib.util
import os

TYPE_CHECKING = False
if TYPE_CHECKING:                                     # a cold process pays for every import
    from array import array
    from typing import Any

    Terms = list[str]
    Vector = tuple[array[int], array[float]]

TOP = 10
DIMENSIONS = 2048


class Peer:
    """The same three steps for everyone."""

    name = package = ""
    index: Any

    def installed(self) -> bool:
        """Whether its package can be imported."""
        return importlib.util.find_spec(self.package) is not None

    def build(self, documents: list[Any], folder: str) -> None:
        """Index the documents and save that in the folder."""
        raise NotImplementedError

    def open(self, folder: str) -> None:
        """Load what was saved."""
        raise NotImplementedError

    def search(self, query: Any) -> object:
        """The best ten."""
        raise NotImplementedError


# ── by words ──

class RankBM25(Peer):
    """The usual BM25 in Python and NumPy; it has no file of its own, so it is pickled."""

    name = package = "rank_bm25"

    def build(self, documents: list[Terms], folder: str) -> None:
        import pickle

        from rank_bm25 import BM25Okapi
        with open(os.path.join(folder, "index.pickle"), "wb") as file:
            pickle.dump(BM25Okapi(documents), file, protocol=pickle.HIGHEST_PROTOCOL)

    def open(self, folder: str) -> None:
        import pickle
        with open(os.path.join(folder, "index.pickle"), "rb") as file:
            self.index = pickle.load(file)

    def search(self, query: Terms) -> object:
        return self.index.get_top_n(query, range(self.index.corpus_size), n=TOP)


class BM25S(Peer):
    """Scores computed beforehand in sparse NumPy arrays, mapped into memory."""

    name = package = "bm25s"

    def build(self, documents: list[Terms], folder: str) -> None:
        import bm25s
        index = bm25s.BM25(k1=1.5, b=0.75)
        index.index(documents, show_progress=False)
        index.save(folder, show_progress=False)

    def open(self, folder: str) -> None:
        import bm25s
        self.index = bm25s.BM25.load(folder, mmap=True)

    def search(self, query: Terms) -> object:
        return self.index.retrieve([query], k=TOP, show_progress=False)


class FTS5(Peer):
    """SQLite's full text search over our terms, without a copy of the text."""

    name, package = "SQLite FTS5", "sqlite3"

    def installed(self) -> bool:
        try:
            import sqlite3
            sqlite3.connect(":memory:").execute("CREATE VIRTUAL TABLE t USING fts5(terms)")
        except (ImportError, sqlite3.OperationalError):
            return False
        return True

    def build(self, documents: list[Terms], folder: str) -> None:
        self.open(folder)
        with self.index as database:
            database.execute("CREATE VIRTUAL TABLE t USING fts5(terms, content='', tokenize='unicode61')")
            database.executemany("INSERT INTO t(rowid, terms) VALUES (?, ?)",
                                 ((at, " ".join(terms)) for at, terms in enumerate(documents)))
            database.execute("INSERT INTO t(t) VALUES ('optimize')")
        database.close()

    def open(self, folder: str) -> None:
        import sqlite3
        self.index = sqlite3.connect(os.path.join(folder, "index.db"))

    def search(self, query: Terms) -> object:
        words = " OR ".join(f'"{term}"' for term in query)
        return self.index.execute("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT ?", (words, TOP)).fetchall()


class Tantivy(Peer):
    """A search engine in Rust, given our terms with blanks between them."""

    name = package = "tantivy"

    def build(self, documents: list[Terms], folder: str) -> None:
        import tantivy
        schema = tantivy.SchemaBuilder().add_text_field("terms", tokenizer_name="whitespace", index_option="freq").build()
        writer = tantivy.Index(schema, path=folder).writer(num_threads=1)
        for terms in documents:
            writer.add_document(tantivy.Document(terms=" ".join(terms)))
        writer.commit()
        writer.wait_merging_threads()

    def open(self, folder: str) -> None:
        import tantivy
        self.index = tantivy.Index.open(folder)

    def search(self, query: Terms) -> object:
        from tantivy import Occur, Query
        schema = self.index.schema
        parts = [(Occur.Should, Query.term_query(schema, "terms", term, index_option="freq")) for term in query]
        return self.index.searcher().search(Query.boolean_query(parts), TOP).hits


# ── by the whole text ──

class RapidFuzz(Peer):
    """The closest text by edit distance, in C++: another measure than ours, with the same floor."""

    name, package = "rapidfuzz extractOne", "rapidfuzz"

    def build(self, documents: list[str], folder: str) -> None:
        import json
        with open(os.path.join(folder, "texts.json"), "w", encoding="utf-8") as file:
            json.dump(documents, file)

    def open(self, folder: str) -> None:
        import json
        with open(os.path.join(folder, "texts.json"), encoding="utf-8") as file:
            self.index = json.load(file)

    def search(self, query: str) -> object:
        from rapidfuzz import fuzz, process
        return process.extractOne(query, self.index, scorer=fuzz.ratio, score_cutoff=85)


class NumPy(Peer):
    """Our local vectors as one dense float32 matrix, multiplied by the question's."""

    name, package = "NumPy, dense float32", "numpy"

    def build(self, documents: list[Vector], folder: str) -> None:
        import numpy
        matrix = numpy.zeros((len(documents), DIMENSIONS), dtype=numpy.float32)
        for row, (at, weights) in zip(matrix, documents):
            row[numpy.asarray(at)] = weights
        numpy.save(os.path.join(folder, "matrix.npy"), matrix)

    def open(self, folder: str) -> None:
        import numpy
        self.index = numpy.load(os.path.join(folder, "matrix.npy"))

    def search(self, query: Vector) -> object:
        import numpy
        dense = numpy.zeros(DIMENSIONS, dtype=numpy.float32)
        at, weights = query
        dense[numpy.asarray(at)] = weights
        cosines = self.index @ dense
        near = numpy.flatnonzero(cosines >= 0.30)
        return near[numpy.argsort(-cosines[near])[:TOP]]


# ── whole tools ──

class AgentRecall(Peer):
    """A small memory for agents in one SQLite file, used from its command line, by words alone."""

    name, package = "agentrecall-db", "agentrecall"
    run = "from agentrecall.cli import main; sys.exit(main())"

    def build(self, documents: list[str], folder: str) -> None:
        from agentrecall import Memory
        with Memory(os.path.join(folder, "memory.db"), embeddings=False) as memory:
            memory.add_many([{"content": text} for text in documents])

    def command(self, folder: str, verb: str, text: str) -> list[str]:
        """What follows the program's name to `add` or `search`."""
        return ["--db", os.path.join(folder, "memory.db"), "--embeddings", "false", verb, text]


BY_WORDS: list[Peer] = [RankBM25(), BM25S(), FTS5(), Tantivy()]
BY_TEXT: list[Peer] = [RapidFuzz()]
BY_LIKENESS: list[Peer] = [NumPy()]
TOOL = AgentRecall()


def ask(name: str, folder: str, query: list[str]) -> None:
    """One question in a process of its own."""
    peer = next(peer for peer in BY_WORDS if peer.name == name)
    peer.open(folder)
    peer.search(query)
