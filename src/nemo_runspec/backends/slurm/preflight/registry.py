"""A container image as Pyxis and enroot name it (`srun --help` shows it): a file, or one in a registry."""

from __future__ import annotations

from nemo_runspec.doctor.registry import ACCEPT, Image, ask, reference_of

__all__ = ["ACCEPT", "Image", "ask_from_here", "image_of"]


def image_of(given: str) -> Image:
    """What a profile's `container_image` names."""
    if given.startswith(("/", "./", "~/")) or given.endswith(".sqsh") or (given[:1] == "$" and "#" not in given):
        return Image(given, path=given)
    return reference_of(given)


def ask_from_here(image: Image) -> str:
    """The status of the registry's answer, such as `200`; what went wrong where there was none."""
    return ask(image).status
