"""Inputs that data preparation must always turn into the same bytes, and the digests of what it made of them.

`python -m recipes.prepared_inputs PYTHON`, in `tests/`, prints the digests that the recipe makes now, run by that
Python. `tests/data/prepared.json` has those of version 0.1, and is not renewed however the recipe comes to do its work;
`tiny` was, when the text that ships became another one, and the settings of tokenizers, with the manifests that name
their digests, when they were to be read by transformers 4 too.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from .conftest import DATA_PREP, recipe_config, recipe_environment

REFERENCE = Path(__file__).resolve().parents[1] / "data" / "prepared.json"
WORDS = [
    "ärger",
    "bread",
    "猫",
    "café",
    "naïve",
    "\u2028",
    "sea\tshore",
    "🙂",
    "école",
    "stone",
    "wind",
    "\x85",
    "light",
    "river",
    "moon",
]
LARGE_VOCABULARY = 66_000
TOKENIZER = (
    "import sys\n"
    "from tokenizers import Tokenizer, models, pre_tokenizers\n"
    "from transformers import PreTrainedTokenizerFast\n"
    "words = ['<unk>', '</s>', *sys.argv[3:]]\n"
    "words += [f'word{n}' for n in range(int(sys.argv[2]) - len(words))]\n"
    "made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(reversed(words))}, unk_token='<unk>'))\n"
    "made.pre_tokenizer = pre_tokenizers.Whitespace()\n"
    "PreTrainedTokenizerFast(tokenizer_object=made, eos_token='</s>', unk_token='<unk>').save_pretrained(sys.argv[1])\n"
)


def configurations(folder: Path, python: Path) -> dict[str, dict[str, Any]]:
    """What is prepared, by name, with its inputs written below `folder`; the output folder is the name's."""
    write_inputs(folder / "in")
    subprocess.run(
        [str(python), "-c", TOKENIZER, str(folder / "words"), str(LARGE_VOCABULARY), *WORDS],
        env=recipe_environment(),
        check=True,
    )
    own = {"train_vocab_size": 700}
    sources = [
        {"name": "lines", "paths": [f"{folder}/in/*.jsonl", f"{folder}/in/*.jsonl.gz"]},
        {"name": "plain", "paths": [f"{folder}/in/**/*.txt"], "separator": "\n--\n", "weight": 2.5},
        {"name": "whole.gz", "paths": [f"{folder}/in/*.txt.gz"]},
    ]
    split = {"valid": 0.2, "test": 0.1}
    return {
        "tiny": recipe_config(DATA_PREP, "tiny", output_dir=folder / "tiny"),
        "several": {
            "output_dir": str(folder / "several"), "datasets": sources, "tokenizer": own, "split": split, "seed": 7,
        },
        "large": {
            "output_dir": str(folder / "large"), "datasets": sources[:1], "tokenizer": {"path": str(folder / "words")},
            "split": {"valid": 0.05},
        },
    }  # fmt: skip


def write_inputs(folder: Path) -> None:
    """Files of every kind that is read, with blank lines, empty texts, both line ends, and characters of all widths."""
    chance = random.Random(5)
    (folder / "deep" / "er").mkdir(parents=True)
    for name, count in (("b.jsonl", 700), ("a.jsonl", 1300)):
        (folder / name).write_bytes(_lines(chance, count).encode())
    (folder / "one.jsonl").write_bytes(b'{"text": "One line, and no end of it."}')
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(_lines(chance, 300).encode(), mtime=0))
    for name in ("z.txt", "deep/m.txt", "deep/er/k.txt"):
        parts = [chance.choice(["", "--\n", "\n"]) + _text(chance) for _ in range(40)]
        (folder / name).write_bytes("\n--\n".join(parts).encode())
    (folder / "letter.txt.gz").write_bytes(gzip.compress(_text(chance).encode(), mtime=0))
    for number in range(6):
        (folder / f"letter{number}.txt.gz").write_bytes(gzip.compress(_text(chance).encode(), mtime=0))


def digests(folder: Path, name_of_it: str) -> dict[str, str]:
    """The SHA-256 of every file of a prepared dataset; what names the folder is taken out of the two that name it.

    The fingerprint names the inputs' paths: it stays for `tiny`, whose inputs are the recipe's own.
    """
    found = {}
    for path in sorted(file for file in folder.rglob("*") if file.is_file()):
        name, content = path.relative_to(folder).as_posix(), path.read_bytes()
        if name == "blend.json":
            content = content.replace(str(folder.resolve()).encode(), b"FOLDER")
        elif name == "manifest.json":
            manifest = json.loads(content)
            del manifest["files"]["blend.json"]
            if name_of_it != "tiny":
                manifest["fingerprint"] = len(manifest["fingerprint"])
            content = (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode()
        found[name] = hashlib.sha256(content).hexdigest()
    return found


def _lines(chance: random.Random, count: int) -> str:
    return "".join(_line(chance) for _ in range(count))


def _line(chance: random.Random) -> str:
    kind = chance.random()
    text: Any = "" if kind < 0.02 else "  \n" if kind < 0.04 else 17 if kind < 0.05 else _text(chance)
    row = json.dumps({"id": chance.randrange(10**6), "text": text}, ensure_ascii=chance.random() < 0.5)
    return re.sub(r": ", ":\t", row) + chance.choice(["\n", "\n", "\r\n", "\n\n", "\n \n"])


def _text(chance: random.Random) -> str:
    lines = [" ".join(chance.choices(WORDS, k=chance.randint(1, 12))) for _ in range(chance.randint(1, 5))]
    return chance.choice(["", " "]) + chance.choice(["\n", "\r\n"]).join(lines)


def main() -> None:
    """Prepare everything and print the digests."""
    python = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        made = {}
        for key, config in configurations(Path(name), python).items():
            file = Path(name) / f"{key}.yaml"
            file.write_text(yaml.safe_dump(config))
            subprocess.run([str(python), str(DATA_PREP), "--config", str(file)], env=recipe_environment(), check=True,
                           stdout=sys.stderr)  # fmt: skip
            made[key] = digests(Path(name) / key, key)
        print(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
