"""Checks a Docker profile before it runs: the engine, its GPUs, the image, room."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from nemo_runspec.backends import machine
from nemo_runspec.backends.docker.engine import connect, engine_host, refusals, words_of
from nemo_runspec.backends.docker.images import has_image, pull_error
from nemo_runspec.backends.registry_check import NO_IMAGE
from nemo_runspec.check import Check, CheckRequest, failed, of_error, ok, skipped, stopped_at, warning
from nemo_runspec.errors import UserError

_TOOLKIT = "install the NVIDIA Container Toolkit on this machine and restart Docker; or set gpus_per_node = 0"
_AFTER = ("image", "GPU runtime", "room")


def checks(question: CheckRequest) -> Iterator[Check]:
    """The engine first; without it the rest of it is not known. Nothing is pulled."""
    yield machine.own_folder()
    try:
        with closing(connect()) as client:
            with refusals("say what it is"):
                info = client.info()
            yield ok("engine", f"Docker {info.get('ServerVersion', '?')} at {engine_host()}")
            yield _image(client, question.env.get("container_image"))
            yield _gpus(info, question.env)
            yield _room(info)
    except UserError as error:
        yield from stopped_at(of_error("engine", error), ("engine", *_AFTER), {})


def _image(client: Any, image: str | None) -> Check:
    """Here, or to be had: the engine asks the registry with the credentials of `docker login`."""
    from docker.errors import APIError

    if not image:
        return skipped("image", NO_IMAGE)
    try:
        if has_image(client, image):
            return ok("image", f"{image} is here")
        client.inspect_distribution(image)
    except APIError as error:
        return of_error("image", pull_error(image, words_of(error)))
    except UserError as error:
        return of_error("image", error)
    except OSError as error:  # requests' own errors are OSErrors
        return warning("image", f"{image} is not here, and the engine did not say in time whether it exists: {error}")
    return ok("image", f"{image} is not here yet; its registry has it")


def has_gpu_runtime(info: Mapping[str, Any]) -> bool:
    """True if `docker info` lists a runtime for NVIDIA's GPUs; since 28 it may list devices (CDI) instead."""
    devices = [str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or ()]
    return "nvidia" in (info.get("Runtimes") or {}) or any("nvidia" in device for device in devices)


def _gpus(info: Mapping[str, Any], env: Mapping[str, Any]) -> Check:
    wanted = env.get("gpus_per_node")
    if has_gpu_runtime(info):
        return ok("GPU runtime", "the engine has one for NVIDIA GPUs")
    if not wanted:
        return ok("GPU runtime", "the engine has none; the profile asks for no GPU")
    return failed("GPU runtime", f"the engine has none; the profile asks for {wanted} GPUs", _TOOLKIT)


def _room(info: Mapping[str, Any]) -> Check:
    root = str(info.get("DockerRootDir") or "")
    try:
        usage = shutil.disk_usage(root)
    except OSError:
        return skipped("room", f"the engine's folder {root or '?'} cannot be seen from here")
    return machine.enough("room", usage.free, usage.total, root, "docker system prune frees some")
