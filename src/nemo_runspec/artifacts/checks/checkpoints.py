"""Checkpoints: of Hugging Face's libraries, of Megatron, and adapters."""

import json
import os
import re
import zipfile

from nemo_runspec.artifacts.checks.look import Defect, Inspection
from nemo_runspec.artifacts.checks.safetensors import read_header

MYPY = False
if MYPY:
    from typing import Any, Dict, Iterator, List

_INDEX = "model.safetensors.index.json"
_ITERATION = re.compile(r"iter_(\d+)")
_SHARD = re.compile(rb"__\d+_\d+\.distcp")
_FORMATS = ("torch_dist", "zarr", "fsdp_dtensor", "torch_dcp")


def check_hf(path: str, look: Inspection) -> "Iterator[Defect]":
    """A model's configuration, and weights of which every shard and tensor is there."""
    config = os.path.join(path, "config.json")
    if not os.path.isdir(path):
        yield Defect("is no folder", path)
        return
    if not os.path.isfile(config):
        yield Defect("has no config.json", path)
        return
    read, wrong = _read_json(config)
    if not wrong and not (read.get("model_type") or read.get("architectures")):
        wrong = [Defect("names neither model_type nor architectures", config)]
    for found in wrong:
        yield found
    for found in _check_weights(path, look):
        yield found


def check_lora(path: str, look: Inspection) -> "Iterator[Defect]":
    """An adapter of PEFT's, or a distributed checkpoint that holds one."""
    config = os.path.join(path, "adapter_config.json")
    if not os.path.isfile(config):
        if _iterations(path) or _is_iteration(path):
            for found in check_megatron(path, look):
                yield found
        else:
            yield Defect("has no adapter_config.json", path)
        return
    read, wrong = _read_json(config)
    if not wrong and not read.get("peft_type"):
        wrong = [Defect("names no peft_type", config)]
    weights = os.path.join(path, "adapter_model.safetensors")
    if os.path.isfile(weights):
        header, broken = read_header(weights)
        wrong += broken or ([] if header else [Defect("holds no tensors", weights)])
    elif os.path.isfile(os.path.join(path, "adapter_model.bin")):
        wrong += _check_torch(os.path.join(path, "adapter_model.bin"))
    else:
        wrong.append(Defect("has no adapter_model.safetensors", path))
    for found in wrong:
        yield found


def check_megatron(path: str, look: Inspection) -> "Iterator[Defect]":
    """A folder of iterations, of which the latest is named, or one of them: metadata, common state, every shard."""
    if _is_iteration(path):
        newest = path
    else:
        iterations = _iterations(path)
        if not iterations:
            yield Defect("holds no iter_<step> folder", path)
            return
        newest = iterations[-1]
        for found in _check_tracker(path, iterations):
            yield found
    for found in _check_iteration(newest):
        yield found


def _check_weights(path: str, look: Inspection) -> "Iterator[Defect]":
    index = os.path.join(path, _INDEX)
    if os.path.isfile(index):
        for found in _check_index(path, index, look):
            yield found
        return
    names = sorted(os.listdir(path))
    files = [os.path.join(path, name) for name in names if name.endswith(".safetensors")]
    pickled = [os.path.join(path, name) for name in names if re.match(r"pytorch_model.*\.bin$", name)]
    split = next((name for name in names if re.match(r"model-\d+-of-\d+\.safetensors$", name)), "")
    if split:
        yield Defect("has %s, but no %s that says what is in which" % (split, _INDEX), path)
    elif not files and not pickled:
        yield Defect("has no weights: no *.safetensors", path)
    for file in files:
        header, wrong = read_header(file)
        for found in wrong or ([] if header else [Defect("holds no tensors", file)]):
            yield found
    for file in [] if files else pickled:
        for found in _check_torch(file):
            yield found


def _check_index(path: str, index: str, look: Inspection) -> "Iterator[Defect]":
    read, wrong = _read_json(index)
    for found in wrong:
        yield found
    where = read.get("weight_map")
    if not wrong and (not isinstance(where, dict) or not where):
        yield Defect("has no weight_map", index)
    if not isinstance(where, dict):
        return
    shards: "Dict[str, List[str]]" = {}
    for tensor, shard in where.items():
        shards.setdefault(str(shard), []).append(tensor)
    for shard, tensors in sorted(shards.items()):
        file = os.path.join(path, shard)
        if not os.path.isfile(file):
            yield Defect("names %s, which is not there" % shard, index)
            continue
        header, broken = read_header(file)
        for found in broken:
            yield found
        for tensor in [] if broken else sorted(set(tensors) - set(header)):
            yield Defect("is not in %s, where the index says that it is" % shard, index, "tensor %s" % tensor)


def _iterations(path: str) -> "List[str]":
    """The folders of iterations, by their numbers; a released model's is called so."""
    if not os.path.isdir(path):
        return []
    found = [
        (int(match.group(1)), name) for name in os.listdir(path) for match in [_ITERATION.fullmatch(name)] if match
    ]
    names = [name for _, name in sorted(found)]
    return [os.path.join(path, name) for name in names or ["release"] if os.path.isdir(os.path.join(path, name))]


def _is_iteration(path: str) -> bool:
    return any(os.path.isfile(os.path.join(path, name)) for name in (".metadata", "metadata.json"))


def _check_tracker(path: str, iterations: "List[str]") -> "Iterator[Defect]":
    """Megatron-LM writes the number of the latest iteration, Megatron-Bridge its state."""
    file = os.path.join(path, "latest_checkpointed_iteration.txt")
    state = os.path.join(path, "latest_train_state.pt")
    if os.path.isfile(file):
        with open(file, encoding="utf-8", errors="replace") as stream:
            text = stream.read().strip()
        numbers = [str(int(match.group(1))) for match in map(_ITERATION.search, iterations) if match]
        if text not in [*numbers, "release"] or (text == "release" and not os.path.isdir(os.path.join(path, text))):
            yield Defect("says %r; there is %s" % (text[:20], ", ".join(map(os.path.basename, iterations))), file)
    elif os.path.isfile(state):
        for found in _check_torch(state):
            yield found
    elif os.path.basename(iterations[-1]) != "release":
        words = "says nowhere which iteration is the latest: no latest_train_state.pt, no %s"
        yield Defect(words % os.path.basename(file), path)


def _check_iteration(folder: str) -> "Iterator[Defect]":
    facts = os.path.join(folder, "metadata.json")
    form = "torch_dist"
    if os.path.isfile(facts):
        read, wrong = _read_json(facts)
        for found in wrong:
            yield found
        form = str(read.get("sharded_backend", form))
        if not wrong and form not in _FORMATS:
            yield Defect("has the format %r; known: %s" % (form, ", ".join(_FORMATS)), facts)
    if form == "zarr":
        return
    for found in _check_shards(folder):
        yield found
    common = os.path.join(folder, "common.pt")
    if os.path.isfile(common):
        for found in _check_torch(common):
            yield found
    elif form == "torch_dist":
        yield Defect("has no common.pt", folder)


def _check_shards(folder: str) -> "Iterator[Defect]":
    """The metadata are a pickle, which is not run: it is whole, and every shard that it names is there."""
    metadata = os.path.join(folder, ".metadata")
    if not os.path.isfile(metadata):
        yield Defect("has no .metadata", folder)
        return
    with open(metadata, "rb") as stream:
        content = stream.read()
    if content[:1] != b"\x80" or content[-1:] != b".":
        yield Defect("is cut short: it is no whole pickle", metadata)
        return
    named = sorted({name.decode("ascii") for name in _SHARD.findall(content)})
    if not named:
        yield Defect("names no shard", metadata)
    for name in named:
        file = os.path.join(folder, name)
        if not os.path.isfile(file):
            yield Defect("names %s, which is not there" % name, metadata)
        elif not os.path.getsize(file):
            yield Defect("is empty", file)


def _check_torch(file: str) -> "List[Defect]":
    """A file as torch.save writes it: a zip archive; or, by old releases, a pickle, which is not looked at."""
    if zipfile.is_zipfile(file):
        return []
    with open(file, "rb") as stream:
        begin = stream.read(2)
    return [] if begin[:1] == b"\x80" else [Defect("is no whole file of torch.save", file)]


def _read_json(file: str) -> "Any":
    """The object, and what is wrong."""
    try:
        with open(file, encoding="utf-8") as stream:
            read = json.load(stream)
    except (ValueError, RecursionError) as error:
        return {}, [Defect("is not JSON: %s" % error, file)]
    return (read, []) if isinstance(read, dict) else ({}, [Defect("is no JSON object", file)])
