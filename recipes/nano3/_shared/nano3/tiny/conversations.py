"""Conversations as batches: each in a row of its own, padded at its end, with the answers alone in the loss.

NemotronH of transformers has, on a processor, no way to keep the Mamba state of one conversation from the next in a
packed row. So rows are unpacked; what stands after a conversation's end cannot reach back into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from nano3.packed import Conversation

from .ranks import Ranks

NOT_COUNTED = -100
PADDING = 0  # any token: it is neither counted nor seen by what is


@dataclass(frozen=True)
class Batch:
    """Token ids, and for each place the token that is to be foretold there, or `NOT_COUNTED`."""

    ids: torch.Tensor
    labels: torch.Tensor


def make_batch(conversations: Sequence[Conversation]) -> Batch:
    """Rows of the longest one's length; a conversation's last token has nothing left to foretell."""
    length = max(len(each.ids) for each in conversations) - 1
    ids = torch.full((len(conversations), length), PADDING)
    labels = torch.full_like(ids, NOT_COUNTED)
    for row, each in enumerate(conversations):
        ids[row, : len(each.ids) - 1] = torch.tensor(each.ids[:-1])
        following = torch.tensor(each.ids[1:])
        labels[row, : len(following)] = following.where(torch.tensor(each.mask[:-1]) == 1, NOT_COUNTED)
    return Batch(ids, labels)


def answer_loss(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """The sum of the cross-entropy, in nats, of every token that counts."""
    device = next(model.parameters()).device
    logits = model(input_ids=batch.ids.to(device), use_cache=False).logits.float()
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.labels.flatten().to(device), ignore_index=NOT_COUNTED, reduction="sum"
    )


def chosen(count: int, step: int, seed: int, batch_size: int) -> list[int]:
    """Which of `count` conversations the batch of `step` holds, counted from 0: every one once, then again in another
    order.
    """
    return [
        int(np.random.default_rng([seed, epoch]).permutation(count)[place])
        for epoch, place in (divmod(number, count) for number in range(step * batch_size, (step + 1) * batch_size))
    ]


def share_of(items: Sequence[int], ranks: Ranks) -> Sequence[int]:
    """This process's items; the first one where there are none left, as the others wait for its gradients."""
    return items[ranks.rank :: ranks.world_size] or items[:1]
