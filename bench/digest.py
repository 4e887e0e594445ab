"""How well the rules find facts: precision, recall and F1 on our own corpus, half by half.

    python3 bench/digest.py [--faults]

A found fact counts when its category is the gold one and the overlap of words (Jaccard, over words and Chinese
bigrams) is at least 0.6; each gold fact may be found once.  The test half was fixed before any rule was written.
"""
from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import agent_memory as am  # noqa: E402  the module beside this folder, installed or not

FLOOR = 0.6


def words(text: str) -> set[str]:
    """Lower-case Latin words and Chinese bigrams."""
    found = set(re.findall(r"[a-z0-9_.\-/]*[a-z0-9_]", text.lower()))
    for run in re.findall(r"[\u4e00-\u9fff]+", text):
        found |= {run[i:i + 2] for i in range(max(1, len(run) - 1))}
    return found


def overlap(left: str, right: str) -> float:
    """How much of two texts is the same words, 0 to 1."""
    a, b = words(left), words(right)
    return len(a & b) / max(1, len(a | b))


def judged(found: list[tuple[str, str]], gold: list[tuple[str, str]]) -> tuple[list[Any], list[Any], list[Any]]:
    """(right, wrong, missed) for one text."""
    right, wrong, open_ = [], [], list(gold)
    for category, content in found:
        fits = [g for g in open_ if g[0] == category and overlap(g[1], content) >= FLOOR]
        if fits:
            open_.remove(max(fits, key=lambda g: overlap(g[1], content)))
            right.append((category, content))
        else:
            wrong.append((category, content))
    return right, wrong, open_


def table(rows: list[dict[str, Any]], digest: Any) -> tuple[dict[str, list[int]], list[str]]:
    """{category: [right, wrong, missed]}, and a line for each fault."""
    counts: dict[str, list[int]] = {}
    faults: list[str] = []
    for row in rows:
        found = [(fact.category, fact.content) for fact in digest(row["text"])]
        parts = judged(found, [(gold["category"], gold["content"]) for gold in row["gold"]])
        for place, part in enumerate(parts):
            for category, content in part:
                counts.setdefault(category, [0, 0, 0])[place] += 1
                if place:
                    faults.append(f"{('', 'wrong', 'missed')[place]:6} {category}: {content}")
    return counts, faults


def score(half: str) -> tuple[int, dict[str, list[int]], list[str]]:
    """How many snippets a half has, {category: [right, wrong, missed]} with "all", and a line for each fault."""
    rows = [json.loads(line) for line in (HERE / "digest_corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    chosen = [row for row in rows if row["half"] == half]
    counts, faults = table(chosen, am.RuleDigester(am.read_yaml(am.DEFAULTS)[0]["digest"]).digest)
    return len(chosen), counts | {"all": [sum(column) for column in zip(*counts.values())]}, faults


def main() -> None:
    """Print a table for each half."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", action="store_true", help="show what was wrong or missed")
    options = parser.parse_args()
    for half in ("dev", "test"):
        snippets, counts, faults = score(half)
        print(f"{half}: {snippets} snippets\n  {'':12}{'P':>7}{'R':>7}{'F1':>7}{'facts':>7}")
        for category, (right, wrong, missed) in counts.items():
            precision, recall = right / max(1, right + wrong), right / max(1, right + missed)
            f1 = 2 * precision * recall / max(1e-9, precision + recall)
            print(f"  {category:12}{precision:7.3f}{recall:7.3f}{f1:7.3f}{right + missed:7}")
        if options.faults:
            print(*(f"    {fault}" for fault in faults), sep="\n")


if __name__ == "__main__":
    main()
