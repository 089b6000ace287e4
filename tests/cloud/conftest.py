"""The labs that clouds' common parts are tested with."""

from __future__ import annotations

from job_fixtures import torch_bin
from labs.s3.fixtures import mended_s3, s3_lab

__all__ = ["mended_s3", "s3_lab", "torch_bin"]
