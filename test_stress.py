"""150 memories: how long it takes (printed, never asserted), and what must hold under load (asserted).

    python3 test_stress.py [--size 150]
"""
from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import agent_memory as am

HERE = Path(__file__).resolve().parent
SIZE = 150

SUBJECTS = ["网关服务", "订单模块", "支付回调", "搜索索引", "日志采集", "the billing worker", "the login page",
            "the nightly import", "the image resizer", "the mobile client"]
FACTS = ["监听端口 {n}", "每 {n} 分钟同步一次", "最多保留 {n} 条记录", "retries {n} times before it gives up",
         "keeps at most {n} connections open", "was rewritten in sprint {n}", "超时设为 {n} 毫秒", "由第 {n} 小组维护",
         "reads its settings from /etc/app/{n}.toml", "costs about {n} dollars a month"]
QUESTIONS = ["网关服务监听端口", "订单模块多久同步一次", "支付回调的超时", "搜索索引由哪个小组维护", "日志采集保留多少条记录",
             "how often does the billing worker retry", "login page settings file", "nightly import connections",
             "what does the image resizer cost a month", "when was the mobile client rewritten"]


def texts(size: int) -> list[str]:
    """So many sentences, no two alike: every subject with every fact, then again with other numbers."""
    chosen = random.Random(7)
    pairs = [(subject, fact) for fact in FACTS for subject in SUBJECTS]
    return [f"{subject}{'' if subject[0] > 'z' else ' '}{fact.format(n=chosen.randrange(100, 10_000) * 10_000 + number)}"
            for number, (subject, fact) in ((n, pairs[n % len(pairs)]) for n in range(size))]


def child(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A Python process of its own that may import the module."""
    return subprocess.Popen([sys.executable, "-c", f"import sys, agent_memory as am\n{code}", *arguments], cwd=HERE)


class Stress(unittest.TestCase):
    """What must hold with many memories, many writers and sudden death."""

    def setUp(self) -> None:
        self.root = self.enterContext(tempfile.TemporaryDirectory())

    def test_every_memory_is_there_and_ten_of_ten_questions_are_answered(self) -> None:
        memory = am.AgentMemory(self.root, environment={})
        began = time.process_time()
        for text in texts(SIZE):
            memory.remember(text, importance=6)
        writing = time.process_time() - began
        began = time.process_time()
        answers = [memory.recall(question) for question in QUESTIONS]
        asking = time.process_time() - began

        hits = sum(bool(answer.results) for answer in answers)
        print(f"\n  {SIZE} memories  {writing / SIZE * 1000:6.2f} ms of CPU a write"
              f"  {asking / len(QUESTIONS) * 1000:6.2f} ms of CPU a question  {hits}/{len(QUESTIONS)} answered")
        self.assertEqual(memory.stats().total, SIZE)
        self.assertEqual(hits, len(QUESTIONS))

    def test_writers_side_by_side_lose_nothing(self) -> None:
        code = "m = am.AgentMemory(sys.argv[1])\nfor n in range(25): m.remember(f'{sys.argv[2]} {n * 7919} {n * 104729}')"
        writers = [child(code, self.root, name) for name in ("alpha", "bravo", "charlie", "delta")]

        self.assertEqual([writer.wait(120) for writer in writers], [0, 0, 0, 0])
        rows = json.loads((Path(self.root) / "index.json").read_text(encoding="utf-8"))
        self.assertEqual(len(rows), 100)
        self.assertEqual({row["id"] for row in rows}, {page.stem for page in (Path(self.root) / "store").glob("*.md")})

    def test_after_a_kill_the_store_opens_and_at_most_the_last_write_is_missing(self) -> None:
        code = ("m = am.AgentMemory(sys.argv[1])\n"
                "for n in range(10_000):\n"
                "    m.remember(f'{sys.argv[2]} {n * 7919} {n * 104729}')\n"
                "    open(sys.argv[1] + '/../done', 'ab').write(b'.')\n")
        root = os.path.join(self.root, "root")
        expected = 0
        for run in range(5):
            (Path(self.root) / "done").write_bytes(b"")
            writer = child(code, root, f"run{run}")
            time.sleep(0.35 + 0.07 * run)
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            expected += (Path(self.root) / "done").stat().st_size
            memory = am.AgentMemory(root, environment={})
            found = memory.stats().total

            self.assertIn(found - expected, (0, 1), "a memory that was reported kept is missing, or one came from nowhere")
            expected = found
            self.assertEqual(memory.remember(f"after the kill of run {run} we go on").outcome, "added")
            expected += 1
        pages = {page.stem for page in (Path(root) / "store").glob("*.md")}
        self.assertEqual({row["id"] for row in json.loads((Path(root) / "index.json").read_text(encoding="utf-8"))}, pages)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=150, help="how many memories (default 150)")
    SIZE = parser.parse_args().size
    result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(bool(failed))
