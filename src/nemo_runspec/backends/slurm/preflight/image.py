"""Whether containers can be had, and whether the image is there."""

from __future__ import annotations

from collections.abc import Iterator

from nemo_runspec.backends.slurm.cluster.answer import whole
from nemo_runspec.backends.slurm.preflight.asking import Answer, Asked
from nemo_runspec.backends.slurm.preflight.registry import Image, ask_from_here
from nemo_runspec.doctor.check import Check, Question, failed, ok, skipped, warning

_PRIVATE = (
    "if the image is private, put its credentials into ~/.config/enroot/.credentials on the cluster; else nothing to do"
)


def checks(_question: Question, asked: Asked, answer: Answer) -> Iterator[Check]:
    """Pyxis and enroot, then the image itself."""
    yield _pyxis(asked, answer)
    if asked.image is not None:
        yield _image(asked.image, answer)


def _pyxis(asked: Asked, answer: Answer) -> Check:
    if "pyxis" not in answer:
        return skipped("containers", "not checked: Slurm's programs are not there")
    enroot = "enroot here too" if answer.path_of("enroot") else "enroot not on the login node, where it is not needed"
    if answer["pyxis"].code == 0:
        return ok("containers", f"srun has Pyxis' --container-image; {enroot}")
    if asked.image is None:
        return skipped("containers", "srun has no --container-image (Pyxis); the profile names no image")
    return failed(
        "containers",
        "container_image is set, but srun has no --container-image: Pyxis is not installed",
        "ask the site for Pyxis and enroot; or take container_image out of the profile",
    )


def _image(image: Image, answer: Answer) -> Check:
    if image.path:
        return _file(image, answer)
    if not image.url:
        return warning(
            "image", f"{image.text} is not understood", "write [REGISTRY#]IMAGE[:TAG], or the path of a .sqsh file"
        )
    from_there = "image" in answer
    status = answer["image"].said or answer["image"].reason if from_there else ask_from_here(image)
    return _of_registry(image, status, "the login node" if from_there else "here (the login node has no curl)")


def _file(image: Image, answer: Answer) -> Check:
    section = answer["image"]
    if section.code == 2:
        return failed("image", f"{image.path} names a variable that is not set there", "write the path out")
    if section.code:
        mend = "correct container_image; nemotron kit slurm squash makes such a file of an image"
        return failed("image", f"{section.reason or image.path} (seen from the login node)", mend)
    size = (whole(section.rows[0][0]) if section.rows else None) or 0
    return ok("image", f"{image.path} is there, {size / 1e9:.1f} GB")


def _of_registry(image: Image, status: str, where: str) -> Check:
    if status == "200":
        return ok("image", f"{image.registry} has {image.text}; asked from {where}")
    if status == "404":
        return failed(
            "image", f"{image.registry} has no {image.text}", "correct the name or the tag in container_image"
        )
    if status in ("401", "403"):
        return warning("image", f"{image.registry} does not tell strangers about {image.text}", _PRIVATE)
    if status == "429":
        return warning("image", f"{image.registry} answers 429: too many requests", "try again later, or log in there")
    mend = "nodes without internet need a .sqsh file: nemotron kit slurm squash; else check the registry's name"
    return warning("image", f"not known: no good answer from {image.registry} to {where}: {status or 'none'}", mend)
