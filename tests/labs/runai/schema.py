"""What a request that makes a workload may hold: every field of NVIDIA's OpenAPI document, and no other.

Source: DistributedCreationRequest, DistributedSpecSpec, MasterSpec, EnvironmentVariable, Pvc, NodeAffinityRequired in
github.com/api-evangelist/runai, openapi/runai-distributed-api-openapi.yml. The length limits are not in it: they come
from lepton-and-runai.md §6.11; the name's rule is Kubernetes' (RFC 1123), so short that pods' host names fit 63.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from labs.web import HttpError

MOST_CHARACTERS = 10_000
MOST_BYTES = 1_000_000
"""Of a whole request: about what Kubernetes keeps of one object (etcd's limit is 1.5 MiB)."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")
_SECRET = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_QUANTITY = re.compile(r"[+]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*")

Check = Callable[[Any], str | None]
"""What is wrong with a value, or None."""
Issue = tuple[str, str]
"""A field and what is wrong with it."""


def _typed(kind: type | tuple[type, ...], word: str) -> Check:
    def check(value: Any) -> str | None:
        bad = isinstance(value, bool) and kind is not bool
        return f"must be {word}" if bad or not isinstance(value, kind) else None

    return check


def _one_of(*choices: str) -> Check:
    return lambda value: None if value in choices else f"must be one of {', '.join(choices)}"


def _at_least(least: int) -> Check:
    def check(value: Any) -> str | None:
        return _integer(value) or (None if int(value) >= least else f"must be no less than {least}")

    return check


def _matching(pattern: re.Pattern[str]) -> Check:
    def check(value: Any) -> str | None:
        return _text(value) or (None if pattern.fullmatch(value) else f"does not match {pattern.pattern}")

    return check


def _path(value: Any) -> str | None:
    return _text(value) or (None if value.startswith("/") else "must be an absolute path")


_string = _typed(str, "a string")
_boolean = _typed(bool, "true or false")
_integer = _typed(int, "an integer")
_number = _typed((int, float), "a number")
_object = _typed(dict, "an object")
_list = _typed(list, "an array")


def _text(value: Any) -> str | None:
    return _string(value) or (None if value else "must not be empty")


def _short(value: Any) -> str | None:
    if problem := _text(value):
        return problem
    return None if len(value) <= MOST_CHARACTERS else f"must be no longer than {MOST_CHARACTERS} characters"


def _value(value: Any) -> str | None:
    return None if value == "" else _short(value)


def _of(fields: Mapping[str, Check], *needed: str) -> Callable[[Any], Iterator[Issue]]:
    def check(value: Any) -> Iterator[Issue]:
        if not isinstance(value, dict):
            yield "", "must be an object"
            return
        for name, item in value.items():
            if name not in fields:
                yield name, "is not a known field"
            elif item is not None and (problem := fields[name](item)):
                yield name, problem
        for name in needed:
            if value.get(name) is None:
                yield name, "is mandatory"

    return check


_ENVIRONMENT = _of(
    {
        "name": _matching(_VARIABLE), "value": _value, "secret": _object, "configMap": _object, "podFieldRef": _object,
        "userCredential": _object, "exclude": _boolean, "description": _string,
    },
    "name",
)  # fmt: skip
SOURCES = ("value", "secret", "configMap", "podFieldRef", "userCredential")
_SECRET_REF = _of({"name": _matching(_SECRET), "key": _text}, "name", "key")
_USER_REF = _of({"name": _text, "key": _text}, "name", "key")
_FIELD_REF = _of({"path": _text}, "path")
_REFERENCES = {"secret": _SECRET_REF, "configMap": _SECRET_REF, "podFieldRef": _FIELD_REF, "userCredential": _USER_REF}
_PVC = _of(
    {
        "name": _text, "path": _path, "existingPvc": _boolean, "claimName": _text, "readOnly": _boolean,
        "ephemeral": _boolean, "claimInfo": _object, "dataSharing": _boolean, "exclude": _boolean,
    },
    "path",
)  # fmt: skip
_COMPUTE = _of(
    {
        "cpuCoreLimit": _number, "cpuCoreRequest": _number, "cpuMemoryLimit": _matching(_QUANTITY),
        "cpuMemoryRequest": _matching(_QUANTITY), "extendedResources": _list, "gpuDevicesRequest": _at_least(0),
        "gpuMemoryLimit": _matching(_QUANTITY), "gpuMemoryRequest": _matching(_QUANTITY), "gpuPortionLimit": _number,
        "gpuPortionRequest": _number, "gpuRequestType": _one_of("portion", "memory"), "largeShmRequest": _boolean,
    }
)  # fmt: skip
_STORAGE = _of(
    dict.fromkeys(
        ("configMapVolume", "dataVolume", "emptyDirVolume", "git", "hostPath", "nfs", "pvc", "s3", "secretVolume"),
        _list,
    )
)
_EXPRESSION = _of(
    {"key": _text, "operator": _one_of("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"), "values": _list},
    "key",
    "operator",
)
_PULL_SECRET = _of({"name": _matching(_SECRET), "userCredential": _boolean, "exclude": _boolean}, "name")
_PAIR = _of({"name": _text, "value": _string, "exclude": _boolean}, "name")

_COMMON: dict[str, Check] = {
    "annotations": _list, "args": _short, "autoDeletionTimeAfterCompletionSeconds": _integer,
    "backoffLimit": _at_least(0), "category": _string, "command": _short, "compute": _object,
    "createHomeDir": _boolean, "environmentVariables": _list, "exposedUrls": _list, "image": _text,
    "imagePullPolicy": _one_of("Always", "Never", "IfNotPresent"), "imagePullSecrets": _list, "labels": _list,
    "nodeAffinityRequired": _object, "nodePools": _list, "nodeType": _text, "podAffinity": _object, "ports": _list,
    "preemptibility": _one_of("preemptible", "non-preemptible"), "priorityClass": _string, "probes": _object,
    "relatedUrls": _list, "restartPolicy": _one_of("Always", "Never", "OnFailure"), "security": _object,
    "stdin": _boolean, "storage": _object, "terminateAfterPreemption": _boolean,
    "terminationGracePeriodSeconds": _at_least(0), "tolerations": _list, "tty": _boolean, "workingDir": _path,
}  # fmt: skip
_UNDOCUMENTED: dict[str, Check] = {"schedulerName": _text}
"""In the profile of seed 001, but in no document: taken, and without effect."""
_KINDS: dict[str, dict[str, Check]] = {
    "trainings": {"completions": _at_least(1), "parallelism": _at_least(1)},
    "workspaces": {},
    "distributed": {
        "cleanPodPolicy": _one_of("None", "All", "Running"), "maxReplicas": _at_least(1), "minReplicas": _at_least(1),
        "distributedFramework": _one_of("MPI", "PyTorch", "TF", "XGBoost", "JAX"), "numWorkers": _at_least(1),
        "mpiLauncherCreationPolicy": _one_of("AtStartup", "WaitForWorkersReady"), "slotsPerWorker": _at_least(1),
        "sshAuthMountPath": _path,
    },
}  # fmt: skip
_OUTER: dict[str, Check] = {
    "name": _text, "useGivenNameAsPrefix": _boolean, "projectId": _string, "clusterId": _text, "spec": _object,
    "templateId": _text,
}  # fmt: skip
_MASTER: dict[str, Check] = {"masterSpecSameAsWorker": _boolean, "masterSpec": _object}
_NEEDED = ("name", "projectId", "clusterId", "spec")


def check_workload(kind: str, body: Any) -> None:
    """Raises: HttpError 400 with `complianceIssues`, one for each thing that is wrong."""
    issues = [(field, problem) for field, problem in _workload(kind, body) if problem]
    if issues:
        raise refused(*issues)


def refused(*issues: Issue) -> HttpError:
    """The refusal of a request, in run:ai's shape; the first issue is in the message as well."""
    field, problem = issues[0]
    listed = [{"field": name, "details": details} for name, details in issues]
    return HttpError(400, f"Bad request - {field} {problem}".replace("  ", " "), complianceIssues=listed)


def is_uuid(text: Any) -> bool:
    """True for a UUID in its usual form."""
    try:
        return str(uuid.UUID(text)) == str(text).lower()
    except (ValueError, AttributeError, TypeError):
        return False


def _workload(kind: str, body: Any) -> Iterator[Issue]:
    distributed = kind == "distributed"
    yield from _of({**_OUTER, **(_MASTER if distributed else {})}, *_NEEDED)(body)
    if not isinstance(body, dict):
        return
    if isinstance(body.get("name"), str) and not _NAME.fullmatch(body["name"]):
        yield "name", "must be lower case letters, digits and '-', at most 52 (RFC 1123)"
    if isinstance(body.get("spec"), dict):
        yield from _spec("spec", body["spec"], {**_COMMON, **_UNDOCUMENTED, **_KINDS[kind]})
        yield from _runnable(kind, body["spec"])
    if body.get("masterSpec") is not None:
        if body.get("masterSpecSameAsWorker"):
            yield "masterSpec", "must not be specified when masterSpecSameAsWorker is true"
        yield from _spec("masterSpec", body["masterSpec"], _COMMON)


def _runnable(kind: str, spec: Mapping[str, Any]) -> Iterator[Issue]:
    if not spec.get("image"):
        yield "spec.image", "is mandatory"
    if not spec.get("command"):
        yield "spec.command", "is missing, and this server knows no image's entrypoint"
    if kind != "distributed":
        return
    if spec.get("distributedFramework") != "PyTorch":
        yield "spec.distributedFramework", "must be PyTorch: no other operator is installed here"
    least, most = spec.get("minReplicas"), spec.get("maxReplicas")
    if isinstance(least, int) and isinstance(most, int) and most < least:
        yield "spec.maxReplicas", "cannot be smaller than minReplicas"


def _spec(where: str, spec: Any, fields: Mapping[str, Check]) -> Iterator[Issue]:
    for field, problem in _parts(spec, fields):
        yield f"{where}.{field}" if field else where, problem


def _parts(spec: Any, fields: Mapping[str, Check]) -> Iterator[Issue]:
    yield from _of(fields)(spec)
    if not isinstance(spec, dict):
        return
    yield from _below("compute", spec, _COMPUTE)
    yield from _below("storage", spec, _STORAGE)
    yield from _each("environmentVariables", spec, _ENVIRONMENT)
    yield from _variables(_items(spec, "environmentVariables"))
    yield from _each("imagePullSecrets", spec, _PULL_SECRET)
    yield from _each("labels", spec, _PAIR)
    yield from _each("annotations", spec, _PAIR)
    storage = spec.get("storage")
    if isinstance(storage, dict):
        yield from _each("pvc", storage, _PVC, "storage.")
    yield from _affinity(spec.get("nodeAffinityRequired"))


def _below(name: str, spec: Mapping[str, Any], check: Callable[[Any], Iterator[Issue]]) -> Iterator[Issue]:
    if isinstance(spec.get(name), dict):
        for field, problem in check(spec[name]):
            yield f"{name}.{field}", problem


def _items(spec: Mapping[str, Any], name: str) -> list[Any]:
    found = spec.get(name)
    return found if isinstance(found, list) else []


def _each(
    name: str, spec: Mapping[str, Any], check: Callable[[Any], Iterator[Issue]], before: str = ""
) -> Iterator[Issue]:
    for number, item in enumerate(_items(spec, name)):
        for field, problem in check(item):
            yield f"{before}{name}[{number}].{field}", problem


def _variables(listed: list[Any]) -> Iterator[Issue]:
    seen: set[str] = set()
    for number, item in enumerate(listed):
        if not isinstance(item, dict):
            continue
        where = f"environmentVariables[{number}]"
        given = [source for source in SOURCES if item.get(source) is not None]
        if len(given) != 1 and not item.get("exclude"):
            yield where, f"must have exactly one of {', '.join(SOURCES)}"
        for source in set(given) & set(_REFERENCES):
            for field, problem in _REFERENCES[source](item[source]):
                yield f"{where}.{source}.{field}", problem
        name = str(item.get("name"))
        if name in seen:
            yield f"{where}.name", f"{name} is listed twice"
        seen.add(name)


def _affinity(affinity: Any) -> Iterator[Issue]:
    if not isinstance(affinity, dict):
        return
    yield from _of({"nodeSelectorTerms": _list})(affinity)
    for term in _items(affinity, "nodeSelectorTerms"):
        for expression in _items(term, "matchExpressions") if isinstance(term, dict) else []:
            for field, problem in _EXPRESSION(expression):
                yield f"nodeAffinityRequired.matchExpressions.{field}", problem
