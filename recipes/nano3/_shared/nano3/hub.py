"""Finds files of a dataset of Hugging Face's hub, by the paths that its own libraries have."""

from __future__ import annotations

import glob
import re

from nano3.settings import SettingsError

HUB = "hf://"
_PATH = re.compile(r"hf://datasets/(?P<name>[^/@]+/[^/@]+)(?:@(?P<revision>[^/]+))?/(?P<files>.+)")


def hub_files(path: str) -> str:
    """The pattern of the files in the hub's cache, once they are there.

    Raises:
        SettingsError: it is no such path, or there is no such dataset, or it cannot be reached.
    """
    found = _PATH.fullmatch(path)
    if found is None:
        raise SettingsError(f"{path!r} is not hf://datasets/OWNER/NAME[@REVISION]/PATTERN")
    from huggingface_hub import snapshot_download  # takes its time

    try:
        folder = snapshot_download(
            found["name"], repo_type="dataset", revision=found["revision"], allow_patterns=found["files"]
        )
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path!r} cannot be fetched: {error}") from error
    return f"{glob.escape(folder)}/{found['files']}"
