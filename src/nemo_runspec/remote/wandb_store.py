"""Versions as W&B knows them, asked by its own package, in a Python of its own; the data lie where references say."""

from __future__ import annotations

import getpass
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from nemo_runspec.artifacts.changes import RefusedChange, check_word
from nemo_runspec.artifacts.content import measured
from nemo_runspec.artifacts.registry import ArtifactStorage, StoreListing, Version
from nemo_runspec.artifacts.store_changes import WritableStorage
from nemo_runspec.artifacts.versions import LATEST
from nemo_runspec.artifacts.wandb import BACKEND, PACKAGES, is_asked, project_of
from nemo_runspec.console import note as say
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.transport.base import Unreachable

_PATIENCE = 120.0
_KEY, _URL = "WANDB_API_KEY", "WANDB_BASE_URL"
_PROGRAM = Path(__file__).with_name("wandb_client.py")


class WandbStorage(WritableStorage):
    """The artifacts of a project at W&B. As `WritableStorage`.

    Args:
        section: `[wandb]`.
        beneath: the store that has the data, None where it cannot be read from here.

    Raises:
        UserError: no project is named, or there is no key for W&B here.
    """

    def __init__(self, section: Mapping[str, Any], beneath: ArtifactStorage | None) -> None:
        self.project = project_of(section)
        if not self.project:
            raise UserError(
                '[artifacts] backend = "wandb" needs to know of which project', remedy='[wandb] project = "NAME"'
            )
        self.beneath = beneath
        self.root = beneath.root if beneath else ""
        url = str(section.get("base_url") or os.environ.get(_URL) or "")
        self.name = f"{self.project} at {urlsplit(url).netloc or 'W&B'}"
        self._environment = _environment(url)

    def look(self, names: Sequence[str] = ()) -> StoreListing:
        """As `ArtifactStorage.look`."""
        told = self._ask("look", names=list(names))
        found = [_version(each) for each in told]
        places = {version.path: version for version in found if version.path}
        versions: dict[str, list[Version]] = {}
        for version in found:
            known = tuple(_input(each, places, self.project) for each in version.inputs)
            versions.setdefault(version.name, []).append(replace(version, inputs=known))
        return StoreListing(versions=versions)

    def config(self, artifact: str, digest: str) -> str:
        """As `ArtifactStorage.config`: the store has it."""
        return self.beneath.config(artifact, digest) if self.beneath else ""

    def has(self, path: str) -> bool | None:
        """As `ArtifactStorage.has`. What is not here may be elsewhere."""
        return (self.beneath.has(path) or None) if self.beneath else None

    def place_of(self, version: Version) -> str:
        """Where the data of a version lie, also of one that nemotron has not registered.

        Raises:
            UserError: they are W&B's own files, or it cannot be asked.
        """
        uri = version.path or str(self._ask("place", reference=version.reference))
        if not uri:
            raise UserError(
                f"the files of {version.reference} are W&B's own, not a reference to where they lie",
                remedy=f"fetch them: wandb artifact get {self.project}/{version.reference}",
            )
        return unquote(urlsplit(uri).path) if uri.startswith("file:") else uri

    def change(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """As `WritableStorage.change`."""
        words = dict(asked)
        actions: dict[str, Callable[..., int]] = {"add": self._add, "tag": self._tag, "remove": self._remove}
        make = actions[words.pop("action")]
        try:
            return {"done": make(**words)}
        except RefusedChange as refused:
            return {"refused": refused.what, "remedy": refused.remedy}

    def adopt(self, version: Version, path: str, job: str) -> str:
        """Registers what the store has of a job, by that job's run; `ENTITY/PROJECT/NAME:vN`.

        Args:
            path: of the data, as jobs see it.

        Raises:
            UserError: W&B cannot be asked, or refuses it.
        """
        known = {
            "name": version.name,
            "version": version.number,
            "type": version.type,
            "path": path,
            "digest": version.digest,
            "size": version.size,
            "files": version.files,
            "created": version.created,
            "producer": dict(version.producer),
            "inputs": [dict(each) for each in version.inputs],
            "config": version.config,
        }
        words = {"name": version.name, "type": version.type or "data", "uri": _uri(path), "metadata": known}
        return f"{self.project}/{self._ask('add', run=job, **words)}"

    def _add(self, name: str, path: str, type: str, note: str) -> int:
        check_word(name, "the name of an artifact")
        known = _manifest(name, path) | {"type": type, "path": path} | ({"note": note} if note else {})
        made = self._ask("add", name=name, type=type, uri=_uri(path), metadata=known)
        return int(str(made).rpartition(":v")[2])

    def _tag(self, name: str, number: int, word: str) -> int:
        check_word(word, "a tag")
        if word == LATEST or word.lstrip("v").isdigit():
            raise RefusedChange(f"'{word}' cannot be a tag: W&B gives it itself", "choose another word, such as gold")
        self._ask("tag", reference=f"{name}:v{number}", word=word)
        return number

    def _remove(self, name: str, number: int, data: bool) -> int:
        reference = f"{name}:v{number}"
        if data:
            raise RefusedChange(
                f"the data of {reference} are not W&B's: it has a reference to them",
                "without --data the version is removed at W&B; the store's own: nemotron artifacts rm --root FOLDER",
            )
        self._ask("remove", reference=reference)
        return number

    def _ask(self, action: str, **words: Any) -> Any:
        """What W&B says. Raises `UserError`."""
        answer = _answer({"action": action, "project": self.project, **words}, self._environment)
        if "done" in answer:
            return answer["done"]
        why, kind = str(answer.get("failed", "no answer")), answer.get("kind")
        if kind == "login":
            raise UserError(
                f"W&B does not let {self.project} be read: {why}", remedy="wandb login, or export another key"
            )
        if kind == "missing":
            raise UserError(f"W&B has no such thing in {self.project}: {why}", remedy="nemotron artifacts list")
        raise _unknown(self.name, why)


def known_at(
    artifacts: Mapping[str, Any], wandb: Mapping[str, Any], beneath: Callable[[], ArtifactStorage]
) -> ArtifactStorage:
    """Where the versions of a store are looked up: at W&B, where that is asked of it.

    Args:
        artifacts, wandb: the sections.
        beneath: opens the store.

    Raises:
        UserError: as `WandbStorage`; or the store alone knows, and cannot be read from here.
    """
    if is_asked(artifacts, wandb):
        return WandbStorage(wandb, _opened(beneath))
    if artifacts.get("backend") == BACKEND:
        say(f'[wandb] mode = "{wandb.get("mode")}": these are the store\'s own versions, which W&B numbers otherwise')
    return beneath()


def _opened(beneath: Callable[[], ArtifactStorage]) -> ArtifactStorage | None:
    try:
        return beneath()
    except Unreachable:
        raise
    except UserError:
        return None


def _manifest(name: str, path: str) -> dict[str, Any]:
    """What is known of data that somebody adds."""
    who = {"user": getpass.getuser(), "host": socket.gethostname()}
    looked = measured(path) if Path(path).exists() else {}
    return {"name": name, "producer": who, "inputs": [], **looked}


def _uri(path: str) -> str:
    return path if path.startswith("s3://") else f"file://{quote(path)}"


def _unknown(name: str, why: str) -> UserError:
    return Unreachable(
        f"W&B cannot be asked, so what {name.partition(' at ')[0]} has is not known: {why}",
        remedy="later; or name a path (run.data=/a/path); the store itself: nemotron artifacts list --root FOLDER",
    )


def _environment(url: str) -> dict[str, str]:
    """The variables of its package: a key goes to its own server alone. Raises `UserError` where there is none."""
    from nemo_runspec.secrets import find

    given = {_URL: url} if url else {}
    key = find(_KEY, given)[1]
    if not key:
        raise UserError(
            "there is no key for W&B here",
            remedy=f"wandb login, or export {_KEY}=…; without W&B: nemotron artifacts list --root FOLDER",
        )
    rest = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_") and name != "PYTHONPATH"}
    return {**rest, **given, _KEY: key, "WANDB_SILENT": "true", "WANDB_DIR": _scratch()}


def _scratch() -> str:
    from nemo_runspec.paths import home, private_dir

    return str(private_dir(home() / "wandb"))


def _answer(asked: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """The program's answer; `failed` with why there is none."""
    command = [_python(), str(_PROGRAM)]
    try:
        done = subprocess.run(
            command, input=json.dumps(asked), env=dict(environment), capture_output=True, text=True, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer within {_PATIENCE:.0f} s"}
    try:
        found: dict[str, Any] = json.loads(text_lines(done.stdout.strip())[-1])
    except (ValueError, IndexError):
        return {"failed": (text_lines(done.stderr.strip()) or [f"exit code {done.returncode}"])[-1]}
    return found


def _python() -> str:
    """A Python with W&B's package: this one, else that of an environment which is made once.

    Raises:
        UserError: it cannot be made.
    """
    own = find_spec("wandb")
    if own is not None and own.origin is not None:
        return sys.executable
    from nemo_runspec.envs import ensure_env

    try:
        found = ensure_env(PACKAGES, say, "W&B's")
    except UserError as error:
        raise UserError(
            f"W&B's package could not be had: {text_lines(error.what)[-1].strip()}",
            remedy="install it beside nemotron: pip install wandb",
        ) from None
    assert found is not None
    return str(found / "python")


def _version(told: Mapping[str, Any]) -> Version:
    known = dict(told["metadata"])
    aliases = [str(each) for each in told["aliases"]]
    producer = known.get("producer") if isinstance(known.get("producer"), Mapping) else {}
    job = str((producer or {}).get("job", ""))
    return Version(
        name=str(told["name"]),
        number=int(told["version"]),
        path=str(known.get("path") or ""),
        type=str(told["type"]),
        digest=str(known.get("digest") or ""),
        size=known.get("size"),
        files=known.get("files"),
        created=known.get("created") or _seconds(str(told["created"])),
        producer=producer or {},
        inputs=tuple(known.get("inputs") or ()),
        tags=tuple(sorted(word for word in aliases if word not in (LATEST, job))),
        latest=LATEST in aliases,
        note=str(known.get("note") or told["note"]),
        config=str(known.get("config") or ""),
    )


def _input(known: Mapping[str, Any], places: Mapping[str, Version], project: str) -> Mapping[str, Any]:
    """An input by W&B's own name and number, where W&B has it; that of the store is another one."""
    plain = {key: value for key, value in known.items() if key not in ("version", "wandb")}
    found = places.get(str(known.get("path")))
    if found is not None:
        return {**plain, "name": found.name, "version": found.number}
    where, _, reference = str(known.get("wandb") or "").rpartition("/")
    name, _, version = reference.partition(":v")
    return {**plain, "name": name, "version": int(version)} if where == project and version.isdigit() else plain


def _seconds(text: str) -> float | None:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
