"""Gives the caller what a container's root has written: only root may, and a container of the same image has one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.docker.engine import is_rootless
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines

_SECONDS = 600


def hand_over(client: Any, image: str, folders: Mapping[str, str]) -> None:
    """Makes the caller own what root owns in these folders; nothing is to do for root, or in an engine of the caller's.

    From outside, because a job that was killed cannot do it itself any more.

    Args:
        image: the job's; it has coreutils, as the job script needs them.
        folders: path of this machine → path in the container.

    Raises:
        UserError: it could not be done, such as for want of `chown` in the image; or what docker-py raises.
    """
    if not folders or os.getuid() == 0 or is_rootless(client.info()):
        return
    body = _body(image, folders, f"{os.getuid()}:{os.getgid()}")
    helper = client.create_container_from_config(body)["Id"]
    try:
        client.start(helper)
        status = client.wait(helper, timeout=_SECONDS)["StatusCode"]
        if status:
            said = text_lines(client.logs(helper).decode("utf-8", "replace").strip())
            raise UserError(f"chown ended with exit code {status}{f': {said[-1]}' if said else ''}")
    finally:
        client.remove_container(helper, v=True, force=True)


def _body(image: str, folders: Mapping[str, str], owner: str) -> dict[str, Any]:
    return {
        "Image": image,
        "User": "0:0",
        "Entrypoint": ["chown"],
        "Cmd": ["--recursive", "--no-dereference", "--from=0", owner, *folders.values()],
        "HostConfig": {"Binds": [f"{source}:{to}" for source, to in folders.items()], "NetworkMode": "none"},
    }
