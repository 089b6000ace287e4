"""Recipe + configuration → `Plan`. Pure but for reading files: nothing is written, nothing is asked of a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from nemo_runspec.backends import DEFAULT_EXECUTOR, get_backend
from nemo_runspec.backends.base import Backend, TargetRequest
from nemo_runspec.config.compose import Composition
from nemo_runspec.config.resolvers import job_resolvers
from nemo_runspec.errors import Code, Problems, Unfilled, UserError, as_unfilled
from nemo_runspec.packaging.addresses import MountRequests
from nemo_runspec.packaging.bundle import script_in_bundle
from nemo_runspec.packaging.messages import left_behind, without_effect
from nemo_runspec.packaging.package_paths import places_in_package
from nemo_runspec.packaging.project_context import ProjectContext
from nemo_runspec.paths import below, expand_user, home
from nemo_runspec.planning import parameters
from nemo_runspec.planning.artifact_paths import Placed, place_artifacts
from nemo_runspec.planning.artifacts import SettledVersions
from nemo_runspec.planning.bundled_inputs import check_bundled
from nemo_runspec.planning.config_choice import choose_yaml, takes_no_config
from nemo_runspec.planning.container_build import refuse_build, with_build_words
from nemo_runspec.planning.elsewhere import paths_of_here
from nemo_runspec.planning.environment import JobEnvironment, as_text, job_environment, plain_variables, take_arguments
from nemo_runspec.planning.given import files_of, lay_over
from nemo_runspec.planning.guardrails import guarded, wanted_gpus
from nemo_runspec.planning.limits import in_limits
from nemo_runspec.planning.missing_values import missing_values
from nemo_runspec.planning.names import name_for
from nemo_runspec.planning.own_python import command_of, packaged, refuse_elsewhere
from nemo_runspec.planning.plan_facts import PlanFacts, facts_of, told_of
from nemo_runspec.planning.planned import Planned, PlanRequest
from nemo_runspec.planning.ray_cluster import ray_cluster
from nemo_runspec.planning.run_section import AUTO, DEFAULT, as_artifact, join_run_section
from nemo_runspec.planning.secret_scan import refuse_leaks
from nemo_runspec.planning.section_checks import (
    FIXED,
    check_plain,
    check_shape,
    check_types,
    process_warnings,
    referring,
)
from nemo_runspec.planning.sweep_cache import Shared
from nemo_runspec.planning.wandb_use import drop_unused_placeholders
from nemo_runspec.plans import defaults
from nemo_runspec.plans.model import (
    Bundle,
    Launch,
    Package,
    Plan,
    PythonEnv,
    RecipeRef,
    Resources,
    SecretRef,
)
from nemo_runspec.plans.target import Target
from nemo_runspec.profiles.common import nodes_of, processes_per_node
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.profiles.profile import (
    placeholders,
    system_section,
    unfilled_values,
)
from nemo_runspec.redact import HIDDEN, redact_argv
from nemo_runspec.runspec_keys import PIPE
from nemo_runspec.script.reserved import check_environment
from nemo_runspec.source import Layer, Source, sources_below


def build_plan(request: PlanRequest, shared: Shared | None = None) -> Planned:
    """Makes the plan.

    Args:
        shared: what it has in common with other plans made in the same moment.

    Raises:
        UserError: anything that keeps the plan from being made; nothing has happened then.
    """
    builder = _Builder(request, shared or Shared())
    return builder.build()


class _Builder:
    """The steps of one plan, in order; each leaves what the next needs."""

    def __init__(self, request: PlanRequest, shared: Shared) -> None:
        self.request = request
        self.shared = shared
        self.recipe = request.recipe
        self.profile = request.profile
        self.executor = request.profile.executor if request.profile else DEFAULT_EXECUTOR
        self.backend: Backend = get_backend(self.executor)
        self.name = name_for(request.labels, self.recipe.path)
        self.choice = choose_yaml(self.recipe, request.config)
        self.composition = Composition(self.executor)
        self.warnings: list[str] = [*self.recipe.notes(), *(request.profile.warnings if request.profile else ())]
        self.unfilled: tuple[Unfilled, ...] = ()
        self.problems: list[UserError] = []
        self.args: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self.wanted_gpus: int | None = None
        self.facts = PlanFacts()
        self.mounts = MountRequests(self.name, self._git_dir, self.backend.mounts_sent_to)

    def build(self) -> Planned:
        variables: dict[str, str] = {}
        together = parameters.reported_together(self.recipe, self.composition, self.problems)
        with job_resolvers(variables, self.mounts, self.facts), together:
            return parameters.with_models_checked(self.recipe, self.composition, self._build(variables))

    def _build(self, variables: dict[str, str]) -> Planned:
        spec, composition = self.recipe.spec, self.composition
        if spec.kind == PIPE:
            raise UserError(
                f"{self.recipe.path} is a pipe, and no job of its own", remedy=f"nemotron {self.recipe.command}"
            )
        refuse_build(self.recipe, self.backend, self.profile)
        refuse_elsewhere(self.recipe, self.backend, self.profile)
        self._compose()
        # The job's own variables first: what follows may refer to them.
        variables.update({k: as_text(v) for k, v in composition.resolved("run.env.env_vars").items()})
        env = composition.resolved("run.env")
        self._require_mounts()
        check_types(composition, env, self.executor)
        run_dir = self._run_dir(env)
        drop_unused_placeholders(composition, self.recipe, env.get("run_command"))
        wandb = composition.resolved("run.wandb")
        plain = plain_variables(
            {"name": self.name, "recipe": self.recipe.path, "env": env, "wandb": wandb}, spec, run_dir, self._inherits()
        )
        variables.update({name: variable.value for name, variable in plain.items()})
        artifacts = place_artifacts(
            composition,
            spec,
            self.name,
            run_dir,
            local=not self.backend.remote,
            settled=SettledVersions(self.request.versions, self.request.pinned),
        )
        self.warnings += artifacts.warnings
        self.facts.come_from(lambda: facts_of(_resources(env), self._target(env, spec.launch, artifacts)))
        parameters.check_parameters(self.recipe, composition, self.problems)
        written = composition.written()
        tree = composition.resolved()
        check_plain(composition, tree)
        run: dict[str, Any] = tree.pop("run")
        if self.choice is None and tree:
            raise takes_no_config(self.recipe, next(iter(tree)))
        # Artifacts have their places by now: what refers to them has another value, and all else is as it was.
        changed = referring(written["run"]["env"], run["env"])
        run["env"] = {**deepcopy(env), **{key: run["env"][key] for key in changed}}
        check_types(composition, run["env"], self.executor, changed)
        sources = told_of(written, self._leaf_sources(run, tree))
        files = files_of(self.request.variables)
        environment = job_environment(run, spec, run_dir, sources, local=self._inherits(), files=files)
        self.unfilled = unfilled_values(
            self.executor, run["env"], sources_below(sources, "run.env."), self.profile.unset if self.profile else {}
        )
        check_environment(environment.variables, [*(s.name for s in environment.secrets), *environment.missing])
        self._hide_secrets(run, environment, sources)
        self.args = take_arguments(self.request.args, environment)
        self.warnings += environment.warnings
        sources = {path: _without_secrets(source, environment.values) for path, source in sources.items()}
        plan = self._plan(run, tree, sources, environment, artifacts)
        warnings = plan.warnings
        if self.backend.runs_elsewhere(run["env"]):
            warnings = (*warnings, *paths_of_here(run, tree, sources, self.request.folder))
        plan = replace(plan, warnings=warnings, unfilled=(*plan.unfilled, *self.backend.lacking_in(plan)))
        refuse_leaks(plan, environment.values)
        plan = guarded(plan, self.wanted_gpus)
        return Planned(in_limits(plan, over=self.request.over_ceiling), environment.values)

    def _compose(self) -> None:
        composition, request = self.composition, self.request
        composition.load_yaml(self.choice, request.overrides, request.places)
        self.wanted_gpus = wanted_gpus(self.recipe.spec.gpus_per_node, composition.run_section())
        self.warnings += composition.notes
        section = join_run_section(
            self.recipe, self.executor, composition.run_section(), composition.sources, self.profile, request.env_file
        )
        automatic = {
            "name": self.name,
            "recipe": self.recipe.path,
            "config": request.config or (self.choice.name if self.choice else None),
            "mode": request.mode,
            "profile": self.profile.name if self.profile else None,
            "output_dir": None,
        }
        fixed = {key: value for key, value in automatic.items() if key in FIXED}
        values = {**automatic, **section.values, **fixed}
        composition.put_run(values, {**dict.fromkeys(automatic, AUTO), **section.sources}, section.open_tables)
        composition.apply_overrides()
        lay_over(composition, request.variables)
        artifacts = [item.name for item in (*self.recipe.spec.consumes, *self.recipe.spec.produces)]
        for name in artifacts:
            self._normalise_artifact(name)
        expected = {f"run.{key}": value for key, value in fixed.items()}
        check_shape(composition, {**expected, "run.env.executor": self.executor}, artifacts)

    def _normalise_artifact(self, name: str) -> None:
        given = self.composition.select(f"run.{name}")
        if given is None or isinstance(given, str):
            table = {"artifact": None, "path": None, **as_artifact(given)}
            self.composition.put(f"run.{name}", table, Source(Layer.CLI))

    def _run_dir(self, env: Mapping[str, Any]) -> str:
        named = (env.get("env_vars") or {}).get("NEMO_RUN_DIR") or self.recipe.spec.env.get("NEMO_RUN_DIR")
        try:
            return str(named) if named else self.backend.run_dir(env)
        except UserError as error:
            raise self._placed(error) from None

    def _hide_secrets(self, run: dict[str, Any], environment: JobEnvironment, sources: Mapping[str, Source]) -> None:
        for name in (s.name for s in environment.secrets):
            if name in (run["env"].get("env_vars") or {}):
                run["env"]["env_vars"][name] = HIDDEN
        for key, declared in fields_of(self.executor).fields.items():
            value = run["env"].get(key)
            if declared.secret and isinstance(value, str) and value:
                source = sources.get(f"run.env.{key}", DEFAULT)
                origin = "override" if source.layer is Layer.CLI else "profile"
                environment.secrets.append(SecretRef(key, origin, source.label()))
                environment.values[key] = value
                run["env"][key] = HIDDEN

    def _leaf_sources(self, run: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Source]:
        leaves = [*flatten(run, "run."), *flatten(config)]
        return {path: self.composition.source_of(path) or DEFAULT for path in leaves}

    def _plan(
        self,
        run: dict[str, Any],
        config: dict[str, Any],
        sources: dict[str, Source],
        environment: JobEnvironment,
        artifacts: Placed,
    ) -> Plan:
        env, spec, request = run["env"], self.recipe.spec, self.request
        bundle = self.shared.bundle(self.recipe)
        check_bundled(artifacts, self.recipe, bundle, self.composition)
        package = self.shared.package(packaged(env, spec), self.executor, self._origin(bundle))
        launch = self._launch(env, package)
        target = self._target(env, launch.kind, artifacts)
        launch = with_build_words(launch, spec, config, target.build_cache_dir)
        resources = replace(_resources(env), time=target.time)
        with self._placing():
            ray = ray_cluster(env, launch.kind, resources, target)
        missing = missing_values(environment.missing, environment.lacking, spec.requires_env)
        return Plan(
            name=self.name,
            recipe=RecipeRef(
                self.recipe.path, spec.name or self.recipe.path, str(self.recipe.script), spec.kind, spec.errors
            ),
            config_name=run["config"],
            executor=self.executor,
            mode=request.mode,
            profile=run["profile"],
            env_file=str(request.env_file.path) if request.env_file else None,
            job_dir=self.backend.job_dir(env, self.name),
            launch=launch,
            python=PythonEnv(spec.dependencies, spec.requires_python, spec.download, spec.uv),
            resources=resources,
            env=tuple(environment.variables),
            secrets=tuple(environment.secrets),
            bundle=bundle,
            package=package,
            auto_mounts=tuple(self.mounts.found.values()) if self.backend.mounts else (),
            consumes=artifacts.consumes,
            produces=artifacts.produces,
            run=run,
            config=config,
            sources=sources,
            target=target,
            overrides=tuple(redact_argv(request.overrides, environment.values.values())),
            warnings=(
                *self.warnings,
                *process_warnings(env, launch.kind, target.gpus(resources)),
                *target.warnings,
                *left_behind(package),
                *without_effect(env, package),
            ),
            unfilled=(*self._unfilled(run, sources, target), *(each.line for each in missing.values())),
            missing_secrets=missing,
            labels=request.labels.without(environment.values.values()),
            ray=ray,
        )

    def _unfilled(self, run: Mapping[str, Any], sources: Mapping[str, Source], target: Target) -> list[str]:
        lines = [*self.unfilled, *placeholders(run["wandb"], sources_below(sources, "run.wandb."), "wandb.")]
        known = {line.key for line in lines if line.code is Code.PLACEHOLDER}  # with its place
        more = map(as_unfilled, target.unfilled)
        return [*lines, *(line for line in more if line.code is not Code.PLACEHOLDER or line.key not in known)]

    def _origin(self, bundle: Bundle) -> ProjectContext:
        env_file, choice = self.request.env_file, self.choice
        config = choice.folder / f"{choice.name}.yaml" if choice else None
        return ProjectContext(
            self.request.folder, env_file.path if env_file and not env_file.users else None, config, bundle
        )

    def _git_dir(self) -> Path:
        """Where repositories are cloned: `[cache] git_dir`, else below nemotron's own folder."""
        file = self.request.env_file
        named = system_section(file, "cache").get("git_dir") if file else None
        try:
            return expand_user(str(named), "git_dir").absolute() if named else home() / "git"
        except UserError as error:
            where = file.where("cache", "git_dir") if file else None
            raise error.at(where) from None

    def _require_mounts(self) -> None:
        """Raises what was wrong with an `${auto_mount:…}`, with its place."""
        possible = not self.backend.remote or self.backend.mounts_sent_to is not None
        problem = self.mounts.problem_on(self.executor, possible=possible)
        if problem is not None:
            where = self.composition.place("run.env.mounts")
            raise UserError(problem.what, where=where, remedy=problem.remedy)

    def _target(self, env: Mapping[str, Any], launch: str, artifacts: Placed) -> Target:
        """The backend's own value."""
        kind = self.recipe.spec.kind or ""
        request = TargetRequest(
            name=self.name,
            mode=self.request.mode,
            kind=kind,
            launch=launch,
            env=env,
            given=self._given(env),
            provided=frozenset(mount.path for mount in self.mounts.found.values()),
            store=self._store(artifacts),
        )
        with self._placing():
            target = self.backend.make_target(request)
            return self.backend.target_after(target, env, self.request.after) if self.request.after else target

    @contextmanager
    def _placing(self) -> Iterator[None]:
        """What is refused below gets the place where its key was written."""
        try:
            yield
        except Problems as error:
            raise Problems(error.title, [self._placed(p) for p in error.problems], remedy=error.remedy) from None
        except UserError as error:
            raise self._placed(error) from None

    def _store(self, artifacts: Placed) -> str:
        """The folder of artifacts where the job reads or writes one there."""
        root = artifacts.root
        paths = (artifact.path for artifact in (*artifacts.consumes, *artifacts.produces) if artifact.artifact)
        return root if any(path and below(path, root) for path in paths) else ""

    def _given(self, env: Mapping[str, Any]) -> frozenset[str]:
        """Keys of `run.env` that were set on the command line."""
        sources = {key: self.composition.source_of(f"run.env.{key}") for key in env}
        return frozenset(key for key, source in sources.items() if source is not None and source.layer is Layer.CLI)

    def _placed(self, error: UserError) -> UserError:
        return error.at(self.composition.place(f"run.env.{error.key}") if error.key else None)

    def _inherits(self) -> bool:
        """True where the job sees this process's environment."""
        return not self.backend.remote and not self.backend.in_container

    def _launch(self, env: Mapping[str, Any], package: Package) -> Launch:
        spec = self.recipe.spec
        return Launch(
            kind=spec.launch,
            script=script_in_bundle(self.recipe),
            cmd=env.get("run_command") or command_of(spec),
            workdir=env.get("workdir") or spec.workdir,
            args=self.args[0],
            takes_config=self.choice is not None,
            setup=(*spec.setup, *(env.get("startup_commands") or ())),
            beside=places_in_package(package, self.recipe.folder) if self.recipe.own else (),
            world_size=env.get("world_size") or defaults.WORLD_SIZE,
            secret_args=self.args[1],
            head_setup=tuple(env.get("head_startup_commands") or ()),
            head_only=self._head_only(env),
        )

    def _head_only(self, env: Mapping[str, Any]) -> bool:
        """Under Ray it is so in any case."""
        spec, asked = self.recipe.spec, env.get("head_only")
        wanted = spec.head_only if asked is None else bool(asked)
        if wanted and spec.launch == "torchrun":
            raise self._placed(
                UserError(
                    "head_only runs the command on node 0 alone, and torchrun starts it on all nodes",
                    remedy='take it out; or launch = "direct" in the recipe\'s header',
                    key="head_only",
                )
            )
        return wanted and spec.launch == "direct"


def _resources(env: Mapping[str, Any]) -> Resources:
    """What the profile asks for by number; its time limit is the target's to read."""
    return Resources(nodes_of(env), env.get("gpus_per_node") or 0, processes_per_node(env), None)


def _without_secrets(source: Source, values: Mapping[str, str]) -> Source:
    if source.layer is not Layer.CLI or source.text is None:
        return source
    return replace(source, text=redact_argv([source.text], values.values())[0])
