"""The tokenizer of a step: a folder, a name of the Hugging Face hub, or a byte-level BPE trained on the examples."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nemo_steps import files
from nemo_steps.config import ConfigError

PAD, BOS, EOS, START, END = "<|pad|>", "<|bos|>", "<|eos|>", "<|start|>", "<|end|>"
SETTINGS = "tokenizer_config.json"
EXAMPLES = ("examples/chat.jsonl", "examples/text.jsonl")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|end|>' }}{% endgeneration %}{{ '\n' }}"
    "{% else %}{{ message['content'] + '<|end|>\n' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}"
)


def make(settings: dict[str, Any]) -> Any:
    """A fast tokenizer of transformers.

    Args:
        settings: `path`, a folder or a name of the Hugging Face hub; or `train_vocabulary`, the size of one that is
            trained on the examples that travel with steps.

    Raises:
        ConfigError: neither or both are given, or the tokenizer cannot be loaded or has no end-of-text token.
    """
    path, size = settings.get("path"), settings.get("train_vocabulary")
    if bool(path) == bool(size):
        raise ConfigError("tokenizer needs either path or train_vocabulary")
    return load(str(path)) if path else train(example_texts(), int(str(size)))


def save(tokenizer: Any, folder: Path) -> None:
    """Write the files that `AutoTokenizer.from_pretrained(folder)` reads, of transformers 5 and of 4.

    Megatron-Bridge 0.3.1, and so the image, has transformers 4. That knows neither the name that 5 writes for the class
    nor a list under `extra_special_tokens`; 5 reads both ways.

    `recipes/nano3/_shared` has the same; a test holds the two to the same results.
    """
    tokenizer.save_pretrained(folder)
    file = Path(folder) / SETTINGS
    said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if said.get("tokenizer_class") == "TokenizersBackend":
        said["tokenizer_class"] = "PreTrainedTokenizerFast"
    if isinstance(said.get("extra_special_tokens"), list):
        said["additional_special_tokens"] = said.pop("extra_special_tokens")
    file.write_text(json.dumps(said, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def load(path: str) -> Any:
    """The tokenizer in a folder, or of that name on the Hugging Face hub."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the tokenizer {path!r} cannot be loaded: {error}") from error
    if not tokenizer.is_fast or tokenizer.eos_token_id is None:
        raise ConfigError(f"the tokenizer {path!r} must be a fast one with an end-of-text token")
    return tokenizer


def train(texts: Iterable[str], size: int) -> Any:
    """A byte-level BPE with a chat template; every byte is in it, so no text is out of its vocabulary."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[PAD, BOS, EOS, START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, bos_token=BOS, eos_token=EOS)
    fast.chat_template = CHAT_TEMPLATE
    return fast


def example_texts() -> list[str]:
    """The texts of the examples that travel with every step."""
    folder = Path(__file__).resolve().parent
    rows = files.read_rows(folder / name for name in EXAMPLES)
    return [text for row in rows for text in ([row["text"]] if "text" in row else _contents(row))]


def _contents(row: dict[str, Any]) -> list[str]:
    return [str(message["content"]) for message in row["messages"]]
