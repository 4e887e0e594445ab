"""How fast Agent Memory is, as ratios that hold on any machine.

    python3 bench/speed.py [--size 1000] [--runs 11]

Cold: a process of its own for every call, through an imported (compiled) module as the
installed command does it, beside the floor every such process pays, `import re, json`.
Warm: inside one process.  All figures are CPU time; medians.  Nothing is asserted.
"""
from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

import agent_memory as am  # noqa: E402  the module beside this folder, installed or not

LATIN = ["server", "database", "index", "cache", "deploy", "release", "branch", "merge", "review", "test", "build", "port",
         "bucket", "queue", "worker", "retry", "timeout", "region", "cluster", "backup", "restore", "schema", "migration",
         "client", "session", "login", "page", "report", "invoice"]
CHINESE = ["服务器", "数据库", "索引", "缓存", "部署", "发布", "分支", "合并", "评审", "测试", "构建", "端口", "队列", "重试",
           "超时", "区域", "集群", "备份", "恢复", "迁移", "客户端", "会话", "登录", "页面", "报表", "发票", "接口", "权限"]
QUERIES = ["数据库备份放在哪个区域", "which port does the cache use", "发布分支的评审流程", "retry timeout of the worker",
           "登录页面", "invoice"]


def vocabulary(seed: int, own: list[str], parts: list[str], length: int) -> list[str]:
    """Words of our own first, then two thousand made of parts."""
    chosen = random.Random(seed)
    return own + ["".join(chosen.choices(parts, k=chosen.randrange(2, length))) for _ in range(2000)]


def sentences(count: int) -> list[str]:
    """Sentences of 40–300 characters, Chinese and English in turn, words as unevenly frequent as in real text."""
    chosen = random.Random(11)
    syllables = [first + vowel for first in "bcdfghklmnprstvw" for vowel in "aeiou"]
    latin = vocabulary(5, LATIN, syllables, 5)
    chinese = vocabulary(6, CHINESE, [chr(0x4E00 + 7 * n) for n in range(900)], 4)
    made = []
    for number in range(count):
        words, joint = (latin, " ") if number % 2 else (chinese, "")
        weights = [1 / rank for rank in range(1, len(words) + 1)]
        parts = [f"{word}{chosen.randrange(10_000) if chosen.random() < 0.1 else ''}"
                 for word in chosen.choices(words, weights, k=chosen.randrange(8, 42 if number % 2 else 90))]
        made.append(f"{number * 7919} " + joint.join(parts)[:chosen.randrange(40, 300)])
    return made


def cold(arguments: list[str], runs: int) -> float:
    """The median CPU time of a process, in milliseconds."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "AGENT_MEMORY", "HERMES"))}
    spent = []
    for _ in range(runs + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([os.path.realpath(sys.executable), *arguments], cwd=HERE, env=environment, check=True,
                       stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(spent[1:]) * 1000


def warm(call: Callable[[int], object], runs: int) -> tuple[float, float]:
    """The median and the 95th percentile of a call's CPU time, in milliseconds."""
    spent = []
    for number in range(runs):
        began = time.process_time()
        call(number)
        spent.append((time.process_time() - began) * 1000)
    return statistics.median(spent), sorted(spent)[int(len(spent) * 0.95)]


def main() -> None:
    """Fill a store, time it cold and warm, print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1000, help="memories in the store")
    parser.add_argument("--runs", type=int, default=11, help="processes per cold figure")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        memory = am.AgentMemory(root, environment={})
        texts = sentences(options.size + 60)
        began = time.process_time()
        for text in texts[:options.size]:
            memory.remember(text, importance=6)
        filling = (time.process_time() - began) / options.size * 1000
        for query in QUERIES:
            memory.recall(query)
        run = "import agent_memory, sys; sys.exit(agent_memory.main(sys.argv[1:]))"
        floor = cold(["-c", "import re, json"], options.runs)
        figures = [("python3 -c 'import re, json'", floor)]
        figures += [(f"cold recall, {name}", cold(["-c", run, "--root", root, "recall", query], options.runs))
                    for name, query in (("Chinese", QUERIES[0]), ("English", QUERIES[1]))]
        figures += [("cold remember", cold(["-c", run, "--root", root, "remember", "one more thing to keep"], options.runs))]
        print(f"{options.size} memories, CPU ms, medians of {options.runs}\n")
        for name, spent in figures:
            print(f"  {name:32} {spent:8.1f}   {spent / floor:5.2f} x")
        print(f"\n  {'in one process':32} {'median':>8}   {'p95':>5}")
        for name, call in (("recall", lambda n: memory.recall(QUERIES[n % len(QUERIES)])),
                           ("recall, counts left alone", lambda n: memory.recall(QUERIES[n % len(QUERIES)], touch=False)),
                           ("remember", lambda n: memory.remember(texts[options.size + n]))):
            middle, high = warm(call, 60)
            print(f"  {name:32} {middle:8.2f}   {high:5.2f}")
        print(f"  {'remember, while the store filled':32} {filling:8.2f}   (mean)")


if __name__ == "__main__":
    main()
