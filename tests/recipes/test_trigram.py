"""The trigram that the tiny model is held against: probabilities, and what pairs of tokens can foretell."""

from __future__ import annotations

import math

import numpy as np
import pytest
from nano3.tiny.trigram import trigram_cross_entropy

SIZE, BEFORE = 5, 2
TRAIN = np.random.default_rng(3).choice(SIZE - 1, size=400, p=[0.5, 0.3, 0.15, 0.05])


def nats(*tokens: int) -> float:
    """What all the tokens cost together."""
    return len(tokens) * trigram_cross_entropy(TRAIN, np.array(tokens), SIZE, BEFORE) if tokens else 0.0


@pytest.mark.parametrize("context", [(), (0,), (0, 1), (3, 3), (4, 0), (0, 4), (4, 4)])
def test_the_chances_of_the_next_token_add_up_to_one(context):
    """Of a token that was never seen (4) too, after pairs that were seen and pairs that were not."""
    chances = [math.exp(nats(*context) - nats(*context, token)) for token in range(SIZE)]
    assert all(chances)
    assert sum(chances) == pytest.approx(1)


def test_two_tokens_foretell_the_next_and_what_lies_further_back_does_not():
    chance = np.random.default_rng(5)
    pairs = np.tile([0, 1, 2, 3, 4], 400)
    assert trigram_cross_entropy(pairs, pairs[:100], 5, 4) < 0.01
    first = chance.integers(4, size=500)
    far = np.stack([first, *(np.full(500, filler) for filler in (4, 5, 6)), first], axis=1).ravel()
    assert trigram_cross_entropy(far[:2000], far[2000:], 7, 6) == pytest.approx(2 / 5 * math.log(4), rel=0.05)
