"""Model FLOPs utilisation (MFU): which share of what its GPUs can compute a training puts into its model.

    MFU = tokens/s x FLOPs per token / (processes x peak FLOPs/s of a GPU)

FLOPs per token are those that the model needs, forward and backward (3 times forward), a multiplication and an addition
being two; what is computed once more to save memory does not count, nor do normalisations and the like:

    6 x weights that a token meets      matrices and convolutions; of the experts those that it is sent to; not the
                                        table of embeddings, which is looked up
    12 x heads x head_dim x tokens      each attention layer: scores and sums over a whole sequence, of which nothing is
                                        taken off for the mask (as PaLM counts them: Chowdhery et al., 2022, appendix B)
    15 x heads x head_dim x state       each Mamba-2 layer, as a recurrence: decay, input and sum, then the output
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import NemotronHForCausalLM

from .ranks import Ranks
from .settings import Logger

TERA = 1e12

PEAK_TFLOPS = {
    "NVIDIA A100-PCIE-40GB": 312.0,
    "NVIDIA A100-SXM4-40GB": 312.0,
    "NVIDIA A100 80GB PCIe": 312.0,
    "NVIDIA A100-SXM4-80GB": 312.0,
    "NVIDIA H100 PCIe": 756.0,
    "NVIDIA H100 80GB HBM3": 989.0,
    "NVIDIA H200": 989.0,
    "NVIDIA L4": 121.0,
    "NVIDIA L40S": 362.0,
}
"""Name, as `torch.cuda.get_device_name` gives it → 10^12 bf16 operations per second on dense matrices, as NVIDIA's data
sheets say it (half of it where they count with sparsity).
"""


@dataclass(frozen=True)
class Gauge:
    """What MFU is counted with; `peak` in FLOPs per second of all processes together, None where it is not known."""

    per_token: float
    peak: float | None
    described: str

    @classmethod
    def of(cls, model: NemotronHForCausalLM, tokens: float, logger: Logger, ranks: Ranks) -> Gauge:
        """For a model on sequences of so many tokens, before it is sharded."""
        name = torch.cuda.get_device_name(ranks.device) if ranks.device.type == "cuda" else "a processor"
        return cls.with_peak(flops_per_token(model, tokens), logger, name, ranks.world_size)

    @classmethod
    def with_peak(cls, per_token: float, logger: Logger, device: str, count: int) -> Gauge:
        """For `count` devices of that name."""
        tera = logger.peak_tflops or PEAK_TFLOPS.get(device)
        told = f"{per_token / 1e9:,.4g} GFLOPs per token"
        if not logger.mfu or tera is None:
            return cls(per_token, None, f"{told}; no MFU: the peak of {device} is not known here (logger.peak_tflops)")
        return cls(
            per_token, count * tera * TERA, f"{told}; MFU of {count} x {tera:,g} TFLOPs/s ({device}, dense bf16)"
        )

    def mfu(self, tokens_per_second: float) -> float | None:
        """The share of the peak; None where that is not known."""
        return None if self.peak is None else self.per_token * tokens_per_second / self.peak


def flops_per_token(model: NemotronHForCausalLM, tokens: float) -> float:
    """What training on a token takes, in sequences of so many tokens."""
    config = model.config
    met = config.num_experts_per_tok / config.n_routed_experts
    weights = sum(
        parameter.numel() * (met if ".experts." in name else 1.0)
        for name, parameter in model.named_parameters()
        if parameter.ndim > 1 and (config.tie_word_embeddings or not name.endswith("embeddings.weight"))
    )
    kinds = [layer.block_type for layer in model.model.layers]
    attention = kinds.count("full_attention") * config.num_attention_heads * config.head_dim * tokens
    mamba = kinds.count("linear_attention") * config.mamba_num_heads * config.mamba_head_dim * config.ssm_state_size
    return 6 * weights + 12 * attention + 15 * mamba
