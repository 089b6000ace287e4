"""The yardstick of a small language model: how well pairs of tokens foretell the next one.

Trigrams with interpolated Kneser-Ney smoothing (Chen and Goodman, "An empirical study of smoothing techniques for
language modeling", 1998), one discount per order: n1 / (n1 + 2 n2), of how many n-grams occur once and twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


def trigram_cross_entropy(train: Integers, valid: Integers, vocabulary_size: int, before: int) -> float:
    """Nats per token of `valid` under the trigrams of `train`; `before` is the token that stands before both.

    The keys of three tokens have to fit 63 bits, so a vocabulary may have two million tokens.
    """
    size = vocabulary_size
    two = np.unique(_grams(train, 2, size, before))
    three = np.unique(_grams(train, 3, size, before), return_counts=True)
    # The lower orders count in how many contexts a token was seen, not how often.
    singles = np.unique(two % size, return_counts=True)
    pairs = np.unique(three[0] % size**2, return_counts=True)
    chance = np.full(len(valid), 1 / size)
    for order, (keys, counts) in enumerate((singles, pairs, three), start=1):
        chance = _Order(keys, counts, size).chance(_grams(valid, order, size, before), chance)
    return float(-np.log(chance).mean())


@dataclass(frozen=True)
class _Order:
    """The n-grams of one length: `keys` ascend, `counts` are theirs; a key without its last digit is its context."""

    keys: Integers
    counts: Integers
    size: int

    def chance(self, asked: Integers, lower: Reals) -> Reals:
        """The probability of each n-gram's last token after those before it; `lower` is that of the order below."""
        discount = self._discount()
        contexts, first, kinds = np.unique(self.keys // self.size, return_index=True, return_counts=True)
        totals = np.add.reduceat(self.counts, first)
        own = np.maximum(_find(self.keys, self.counts, asked) - discount, 0.0)
        total = _find(contexts, totals, asked // self.size)
        left = discount * _find(contexts, kinds, asked // self.size)
        known = total > 0
        return np.where(known, (own + left * lower) / np.where(known, total, 1), lower)

    def _discount(self) -> float:
        once, twice = (int((self.counts == times).sum()) for times in (1, 2))
        return once / (once + 2 * twice) if once and twice else 0.5


def _grams(tokens: Integers, order: int, size: int, before: int) -> Integers:
    """For each token the number that it and the `order - 1` tokens before it make, in digits of base `size`."""
    padded = np.concatenate([np.full(order - 1, before, dtype=np.int64), tokens])
    keys = np.zeros(len(tokens), dtype=np.int64)
    for place in range(order):
        keys = keys * size + padded[place : place + len(tokens)]
    return keys


def _find(keys: Integers, values: Integers, asked: Integers) -> Integers:
    """The values of those that are asked for; 0 for one that is not there."""
    place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[place] == asked, values[place], 0)
