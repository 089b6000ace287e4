"""The check of an image that its registry was asked about."""

from __future__ import annotations

from nemo_runspec.check import Check, failed, ok, warning
from nemo_runspec.transport.registry import Image

NO_IMAGE = "not checked: the profile names none; a recipe brings its own"
"""What is said of the image of a profile without one."""


def registry_check(image: Image, status: str, *, where: str, note: str, private: str, unreached: str) -> Check:
    """Checks whether the registry has the image, as far as its answer says.

    Args:
        status: of the answer, such as `200`; what went wrong where there was none.
        where: who asked, for a person.
        note: to be added where it is there.
        private, unreached: what to do where the registry wants a login, and where it gave no good answer.
    """
    registry, text = image.registry, image.text
    if status == "200":
        return ok("image", f"{registry} has {text}{note}")
    if status == "404":
        return failed("image", f"{registry} has no {text}", "correct container_image: its name or its tag")
    if status in ("401", "403"):
        return warning("image", f"{registry} does not tell strangers about {text}", private)
    if status == "429":
        return warning("image", f"{registry} answers 429: too many requests", "try again later, or log in there")
    return warning("image", f"not known: no good answer from {registry} to {where}: {status or 'none'}", unreached)
