"""Scores the layers and feed-forward channels of a causal language model, and leaves out those with the lowest scores.

The channels' score is Model Optimizer's (`modelopt.torch.prune.importance_hooks`, 0.47): the norm of its weights
times its mean activation. A layer's is how far it turns what goes through it: one minus the cosine of input and output.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from nemo_steps.config import ConfigError

UP, DOWN = ("gate_proj", "up_proj"), "down_proj"


@dataclass
class Scores:
    """Per layer, in order: its feed-forward channels' scores as a tensor, and its own."""

    channels: list[Any] = field(default_factory=list)
    layers: list[float] = field(default_factory=list)


def layers_of(model: Any) -> list[Any]:
    """The layers, each with a feed-forward block of `up_proj` and `down_proj`.

    Raises:
        ConfigError: the model is not made of such layers.
    """
    found = list(getattr(getattr(model, "model", None), "layers", []))
    if not found or not all(hasattr(getattr(layer, "mlp", None), DOWN) for layer in found):
        raise ConfigError(f"{type(model).__name__} has no layers with mlp.{DOWN}: it cannot be pruned by this step")
    return found


@contextmanager
def scoring(model: Any) -> Iterator[Scores]:
    """Scores, filled at the end from what the model has been given in between."""
    from modelopt.torch.prune.importance_hooks import IndependentChannelContributionHook

    layers, scores = layers_of(model), Scores()
    channels = [IndependentChannelContributionHook(layer.mlp.down_proj) for layer in layers]
    turns = [_Turn() for _ in layers]
    hooks = [layer.mlp.down_proj.register_forward_hook(hook) for layer, hook in zip(layers, channels, strict=True)]
    hooks += [layer.register_forward_hook(turn) for layer, turn in zip(layers, turns, strict=True)]
    try:
        yield scores
    finally:
        for hook in hooks:
            hook.remove()
    scores.channels = [hook.accumulate() for hook in channels]
    scores.layers = [turn.mean() for turn in turns]


def width_of(model: Any, share: float, multiple: int) -> int:
    """How many channels a feed-forward block keeps: that share, rounded down to a multiple.

    Raises:
        ConfigError: none would be left, or the share is no share.
    """
    before = int(model.config.intermediate_size)
    width = int(before * share) // multiple * multiple
    if not 0 < share <= 1 or width <= 0:
        raise ConfigError(f"keep.ffn {share} of {before} channels in multiples of {multiple} leaves {width}")
    return width


def narrow_feed_forward(model: Any, scores: list[Any], width: int) -> None:
    """Keep the `width` channels with the highest scores in every layer, in their order."""
    import torch

    for layer, score in zip(layers_of(model), scores, strict=True):
        kept = torch.topk(score, width).indices.sort().values.to(layer.mlp.down_proj.weight.device)
        for name in UP:
            if hasattr(layer.mlp, name):
                _select(getattr(layer.mlp, name), kept, dimension=0)
        _select(layer.mlp.down_proj, kept, dimension=1)
    model.config.intermediate_size = width


def most(scores: list[float], count: int) -> list[int]:
    """The numbers of the `count` highest scores, in order.

    Raises:
        ConfigError: there are not so many.
    """
    if not 0 < count <= len(scores):
        raise ConfigError(f"keep.layers must be from 1 to {len(scores)}, not {count}")
    return sorted(sorted(range(len(scores)), key=lambda number: scores[number], reverse=True)[:count])


def _select(linear: Any, kept: Any, dimension: int) -> None:
    import torch

    linear.weight = torch.nn.Parameter(linear.weight.detach().index_select(dimension, kept).contiguous())
    if dimension == 0 and linear.bias is not None:
        linear.bias = torch.nn.Parameter(linear.bias.detach().index_select(0, kept))
    linear.out_features, linear.in_features = linear.weight.shape


class _Turn:
    """How far a layer turns what goes through it, on average."""

    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def __call__(self, module: Any, arguments: tuple[Any, ...], output: Any) -> None:
        import torch

        after = output[0] if isinstance(output, tuple) else output
        turned = 1 - torch.nn.functional.cosine_similarity(arguments[0].float(), after.float(), dim=-1)
        self._sum += float(turned.sum())
        self._count += turned.numel()

    def mean(self) -> float:
        """Over all tokens."""
        return self._sum / max(self._count, 1)
