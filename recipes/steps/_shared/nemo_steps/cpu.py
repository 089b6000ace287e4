"""Lets NeMo AutoModel run where no GPU is: version 0.7.0 asks CUDA for the current device and its memory, always."""

from __future__ import annotations

import os
import types
from typing import Any

from nemo_steps.config import ConfigError


def use_cpu_where_no_gpu_is() -> None:
    """Answer those questions for the processor; nothing is done where a GPU is.

    Two modules get a `torch` of their own whose current device is the processor; everywhere else torch is as it was.

    Raises:
        ConfigError: the job was given GPUs, and torch sees none: nobody is to find out after hours that they were idle.
            Not where CUDA_VISIBLE_DEVICES is -1, which somebody has said.
    """
    import torch

    if torch.cuda.is_available():
        return
    given = int(os.environ.get("NEMOTRON_GPUS_PER_NODE") or 0)
    if given and os.environ.get("CUDA_VISIBLE_DEVICES") != "-1":
        raise ConfigError(
            f"the job was given GPUs (gpus_per_node={given}), and torch {torch.__version__} sees none; "
            "CUDA_VISIBLE_DEVICES=-1 in run.env.env_vars computes on processors"
        )
    from nemo_automodel._transformers import auto_model
    from nemo_automodel.recipes.llm import train_ft

    substitute = _torch_for_processors(torch)
    for module in (auto_model, train_ft):
        module.torch = substitute


def _torch_for_processors(torch: Any) -> Any:
    here = torch.device("cpu")
    cuda = _Overlay(torch.cuda, current_device=lambda: here, reset_peak_memory_stats=lambda device=None: None)
    return _Overlay(torch, cuda=cuda, device=lambda kind, index=None: here if kind == "cuda" else torch.device(kind))


class _Overlay(types.ModuleType):
    """A module with some of its names replaced."""

    def __init__(self, module: types.ModuleType, **replaced: object) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(replaced)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
