"""`nemotron env fields [EXECUTOR] [TEXT…]`: the keys a profile may have, by topic, and found by what they are about."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.field import TYPES, Field
from nemo_runspec.text import clean, one_line
from nemotron.cli.text import paint, table

HELP = "The keys a profile may have, by topic; those about something: nemotron env fields timeout"

_OTHER = "Other"
TOPICS: dict[str, tuple[str, ...]] = {
    "Where it runs": (
        "executor", "extends", "tunnel", "host", "user", "port", "identity", "accept_new_host_key", "base_url",
        "kube_apiserver_url", "client_id", "client_secret", "project_name", "node_group", "node_reservation",
        "resource_shape", "head_resource_shape", "account", "partition", "run_partition", "batch_partition", "qos",
        "job_name_prefix",
    ),
    "How much, and how long": (
        "nodes", "gpus_per_node", "nproc_per_node", "num_gpus", "cpus_per_task", "cpus_per_gpu", "gpus_per_task", "mem",
        "mem_per_gpu", "mem_per_cpu", "exclusive", "gres", "constraint", "exclude", "segment", "shm_size",
        "shared_memory_size", "time", "max_gpu_hours", "ttl", "world_size",
    ),
    "Container": (
        "container_image", "image_pull_secrets", "container_env", "runtime", "ipc_mode", "ulimits", "network",
        "privileged", "healthcheck",
    ),
    "Files": (
        "mounts", "pvcs", "job_dir", "remote_job_dir", "nemo_run_dir", "pvc_nemo_run_dir", "run_dir_here", "inputs",
        "outputs", "output_url", "s3_endpoint", "s3_region", "cloud_metadata",
    ),
    "Command and environment": (
        "env_vars", "secrets", "secret_vars", "startup_commands", "head_startup_commands", "pre_launch_commands",
        "setup_lines", "run_command", "head_only", "workdir", "srun_args", "distributed_framework", "ray_version",
    ),
    "Your own code": (
        "packager", "packager_subpath", "packager_include_submodules", "packager_include_pattern",
        "packager_relative_path", "packager_sub_packagers", "packager_extract_at_root", "dirty", "code_transport",
        "code_url", "launched_from_cluster",
    ),
    "When it waits, fails or hangs": (
        "retries", "resume", "max_restarts", "signal", "open_mode", "dependencies", "dependency_type", "queue_timeout",
        "pull_timeout", "start_timeout", "on_timeout", "stall_timeout", "stall_action", "avoid_failed_nodes",
        "health_check", "memory_measure", "can_be_preempted", "can_preempt", "queue_priority",
    ),
    "Sweeps": ("max_parallel", "sweep_metric", "stop_on_failure", "array"),
    "Image builds": ("build_partition", "build_time", "build_image", "build_cache_dir", "build_registries"),
}  # fmt: skip
"""The keys by what they are about, in the order in which they are shown; what stands nowhere is shown last."""

_TOPIC_OF = {name: topic for topic, names in TOPICS.items() for name in names}
_ORDER = {topic: number for number, topic in enumerate([*TOPICS, _OTHER])}


@dataclass(frozen=True)
class _Key:
    """One key, and the executors that take it as it is declared here."""

    field: Field
    executors: tuple[str, ...]

    @property
    def topic(self) -> str:
        return _TOPIC_OF.get(self.field.name, _OTHER)

    def has(self, words: Sequence[str]) -> bool:
        """Whether every word stands in its names, its help or its choices."""
        field = self.field
        text = " ".join((field.name, *field.aliases, field.help, *field.choices)).casefold()
        return all(word.casefold() in text for word in words)


def call(words: Sequence[str], as_json: bool) -> int:
    """Prints the keys of an executor, of all of them, or those that some words are about.

    Raises:
        UserError: no key is about them.
    """
    from nemo_runspec.backends import known_executors

    executor, words = (words[0], words[1:]) if words and words[0] in known_executors() else (None, words)
    found = [key for key in _keys(executor) if key.has(words)]
    if not found:
        raise _nothing(executor, words)
    found.sort(key=lambda key: _ORDER[key.topic])
    if as_json:
        print(json.dumps([_as_json(key) for key in found], indent=2))
        return 0
    from nemotron.cli.pager import show

    show("\n".join(_lines(found, executor)))
    return 0


def complete_words(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """Executors, and the keys of all of them."""
    from nemo_runspec.backends import known_executors

    names = dict.fromkeys([*known_executors(), *(key.field.name for key in _keys(None))])
    return [name for name in names if name.startswith(incomplete)]


def _keys(executor: str | None) -> list[_Key]:
    """The keys of an executor, or of all that can be loaded; one that means the same to several stands once."""
    from nemo_runspec.backends import find_backend, known_executors
    from nemo_runspec.profiles.fieldset import fields_of

    if executor:
        return [_Key(field, (executor,)) for field in fields_of(executor).fields.values()]
    takers: dict[tuple[str, str], list[str]] = {}
    declared: dict[tuple[str, str], Field] = {}
    for name in filter(find_backend, known_executors()):
        for field in fields_of(name).fields.values():
            takers.setdefault((field.name, field.help), []).append(name)
            declared.setdefault((field.name, field.help), field)
    return [_Key(field, tuple(takers[key])) for key, field in declared.items()]


def _nothing(executor: str | None, words: Sequence[str]) -> UserError:
    from nemo_runspec.backends import known_executors

    known = {*known_executors(), *(key.field.name for key in _keys(executor))}
    return UserError(
        f"no key of {f'executor {executor!r}' if executor else 'a profile'} is about '{' '.join(words)}'",
        remedy=did_you_mean(words[0], known) or f"executors: {', '.join(known_executors())}",
    )


def _lines(found: Iterable[_Key], executor: str | None) -> list[str]:
    topics: dict[str, list[_Key]] = {}
    for key in found:
        topics.setdefault(key.topic, []).append(key)
    lines = []
    for topic, keys in topics.items():
        rows = [(key.field.name, f"{one_line(key.field.help)} ({_facts(key, executor)})") for key in keys]
        lines += ["", paint(topic, "bold"), *table(rows)]
    return lines[1:]


def _facts(key: _Key, executor: str | None) -> str:
    """What it takes, its default, its other names and, where no executor was named, who takes it."""
    field = key.field
    facts = [" | ".join(field.choices) if field.choices else TYPES[field.type].title]
    if field.required:
        facts.append("required")
    elif field.default not in (None, "", [], {}):
        facts.append(f"default {_plain(field.default)}")
    if field.aliases:
        facts.append(f"also {', '.join(field.aliases)}")
    if executor is None and len(key.executors) < _all_executors():
        facts.append(f"only {', '.join(key.executors)}")
    return "; ".join(facts)


def _all_executors() -> int:
    from nemo_runspec.backends import find_backend, known_executors

    return len([name for name in known_executors() if find_backend(name)])


def _plain(value: Any) -> str:
    return clean(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _as_json(key: _Key) -> dict[str, Any]:
    field = key.field
    return {
        "name": field.name,
        "aliases": list(field.aliases),
        "type": field.type,
        "default": field.default,
        "required": field.required,
        "choices": list(field.choices),
        "help": field.help,
        "topic": key.topic,
        "executors": list(key.executors),
    }
