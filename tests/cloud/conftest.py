"""The labs that clouds' common parts are tested with."""

from __future__ import annotations

from job_fixtures import torch_bin
from labs.s3.fixtures import s3_lab

__all__ = ["s3_lab", "torch_bin"]
