"""Checks that a registry has a job's image, as far as it says so."""

from __future__ import annotations

from nemo_runspec.backends.registry_check import NO_IMAGE, registry_check
from nemo_runspec.check import Check, failed, skipped
from nemo_runspec.secrets import NGC_KEYS, find
from nemo_runspec.transport.registry import NGC, NGC_USER, Image, RegistryAnswer, RegistryLogin, ask, image_of


def image_check(text: str, kept: str) -> Check:
    """Checks whether the registry has the image, as far as it says so, with `NGC_KEY` for NVIDIA's.

    Args:
        kept: where the platform's own credentials for registries are, for a person.
    """
    if not text:
        return skipped("image", NO_IMAGE)
    image = image_of(text)
    if not image.url:
        return failed("image", f"{text} is no image of a registry", "write REGISTRY/IMAGE:TAG; a file cannot be pulled")
    login = _ngc_login() if image.registry == NGC else None
    return _of_registry(image, ask(image, login), login, kept)


def _of_registry(image: Image, answer: RegistryAnswer, login: RegistryLogin | None, kept: str) -> Check:
    key = login.variable if login else ""
    if not answer.accepted:
        return failed("image", f"{image.registry} does not accept {key}", f"make a new key there, and export {key}=…")
    if answer.status in ("401", "403") and answer.login:
        seen = f"{image.registry} does not let the owner of {key} have {image.text}"
        return failed("image", seen, "correct container_image, or take a key of an organization that has it")
    return registry_check(
        image,
        answer.status,
        where="this machine",
        note=f", for {key}" if answer.login else "",
        private="export NGC_KEY=…" if image.registry == NGC else f"see that {kept} has credentials for it",
        unreached="see that the registry's name is right; this machine may not reach it",
    )


def _ngc_login() -> RegistryLogin | None:
    found, key = find(NGC_KEYS[0])
    return RegistryLogin(NGC_USER, key, found.detail) if key else None
