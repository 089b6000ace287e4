"""A local profile: there is nothing to ask."""

from __future__ import annotations

from nemo_runspec.backends.setup import Setup

SETUP = Setup(ask=lambda interview: {}, title="This machine", found=lambda: "nothing to set up")
