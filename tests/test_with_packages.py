"""What needs packages beyond the standard library: hypothesis, PyYAML, ruamel.yaml; NumPy where it is installed.

    python3 -m unittest discover -s tests
"""
from __future__ import annotations

import io
import json
import random
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

import agent_memory as am  # noqa: E402  the module beside this folder, installed or not

try:
    import yaml
    from hypothesis import given, settings
    from hypothesis import strategies as some
    from ruamel.yaml import YAML
except ImportError as missing:
    raise unittest.SkipTest(f"needs the packages of pip install '.[dev]': {missing.name}") from None

TEXT = some.text(max_size=120)
KEY = some.text("abcd", min_size=1, max_size=4)
ODD = some.sampled_from(["no", "007", "2026-01-01", "1:30", "~", "null", "0x1F", "1e5", "on", "---", "- x", "a: b", "#", "'", '"'])


def front_matter(page: str) -> str:
    return page.removeprefix("---\n").partition("\n---\n")[0]


class Pages(unittest.TestCase):
    """A page gives back what was written, to us and to any reader of YAML 1.1 or 1.2."""

    @settings(max_examples=500, deadline=None)
    @given(content=TEXT, source=some.none() | TEXT | ODD, project=some.none() | TEXT | ODD, earlier=some.lists(TEXT, max_size=2))
    def test_any_text_comes_back(self, content: str, source: str | None, project: str | None, earlier: list[str]) -> None:
        clean = am.Redactor({**SECURITY, "labels": [], "prefixes": [], "redact_patterns": []}).clean
        history = tuple({"content": str(clean(old)), "at": "2026-08-17T03:31:06+00:00"} for old in earlier)
        memory = am.Memory("mem_20260817_033106_ab12", clean(content), source=None if source is None else clean(source),
                           project=None if project is None else clean(project), history=history,
                           created_at="2026-08-17T03:31:06+00:00")
        page, row = am.page(memory), am.to_row(memory)

        self.assertEqual(am.from_page(page), memory)
        self.assertEqual(am.from_row(json.loads(am.to_line(memory))), memory)
        for version, read in (("1.1", yaml.safe_load), ("1.2", YAML(typ="safe", pure=True).load)):
            found = read(io.StringIO(front_matter(page)))
            for key in found:
                self.assertEqual(found[key], row[key], f"{key}, by YAML {version}")

    @settings(max_examples=100, deadline=None)
    @given(contents=some.lists(TEXT, min_size=1, max_size=6), source=some.none() | TEXT)
    def test_any_store_is_rebuilt_from_its_pages(self, contents: list[str], source: str | None) -> None:
        with tempfile.TemporaryDirectory() as root:
            memory = am.AgentMemory(root, environment={})
            for content in contents:
                if am.redact(content).strip():
                    try:
                        memory.remember(content, source=source)
                    except am.UsageError:
                        continue                             # nothing but what cannot be stored
            before = memory.list()
            (Path(root) / "index.json").unlink(missing_ok=True)

            self.assertEqual(set(am.AgentMemory(root, environment={}).list()), set(before))


class PlainYaml(unittest.TestCase):
    """What our reader reads, PyYAML reads the same."""

    def test_the_shipped_settings(self) -> None:
        self.assertEqual(am.read_yaml(am.DEFAULTS)[0], yaml.safe_load(am.DEFAULTS))

    @settings(max_examples=300, deadline=None)
    @given(value=some.recursive(
        some.none() | some.booleans() | some.integers(-9999, 9999) | some.text("abc 中文:#'\"[]{},-", max_size=12),
        lambda inner: some.lists(inner, max_size=3) | some.dictionaries(KEY, inner, max_size=3),
        max_leaves=12))
    def test_whatever_pyyaml_writes_plainly(self, value: Any) -> None:
        text = yaml.safe_dump({"key": value}, allow_unicode=True, width=10_000)
        try:
            found = am.read_yaml(text)[0]
        except am.PlainYamlError:
            return                                           # refused, with its line: never misread
        self.assertEqual(found, {"key": value})


@unittest.skipUnless(find_spec("numpy"), "needs numpy")
class Products(unittest.TestCase):
    """NumPy gives the cosines that comparing one by one gives."""

    def test_every_row_above_the_floor_and_the_best_thousand_of_many(self) -> None:
        chance = random.Random(29)
        for size, floor, many in ((3, 0.9, False), (40, 0.2, False), (40, -1.0, True), (700, 0.1, False)):
            vectors = [am.unit([chance.gauss(0, 1) for _ in range(size)]) for _ in range(2100)]
            places, put = am.Places(), {am.key_of("id", str(at)): 0 for at in range(len(vectors))}
            files = am.rows_changed(places, (), {str(at): vector for at, vector in enumerate(vectors)}, put, size)
            data = files["f32"][-1][1]
            matrix = am.Matrix(places, size, lambda place, count, data=data: data[place:place + count], lambda *_: b"")
            near = matrix.near(vectors[3], floor, range(1, 2100))
            exact = am.nearest(vectors[3], {str(at): vectors[at] for at in range(1, 2100)}, floor)
            exact = exact[:1000] if many else exact

            with self.subTest(size=size, floor=floor):
                self.assertEqual({str(row) for row in near}, {id for id, _ in exact})
                for id, cosine in exact:
                    self.assertAlmostEqual(near[int(id)], cosine, delta=1e-6)


SECURITY = am.read_yaml(am.DEFAULTS)[0]["security"]

if __name__ == "__main__":
    unittest.main()
