"""The only interface a backend meets. A backend is a folder whose package defines `BACKEND`.

Everything a `Backend` names is given as `module:function` and imported when it is used, so that asking for a
backend's fields never imports what talks to its API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import NotBuilt
from nemo_runspec.field import Field

if TYPE_CHECKING:
    from nemo_runspec.backends.listing import Listings
    from nemo_runspec.backends.provider import Provider
    from nemo_runspec.backends.setup import Setup
    from nemo_runspec.backends.worker import Worker
    from nemo_runspec.check import Check, CheckRequest
    from nemo_runspec.plans.model import Plan
    from nemo_runspec.plans.target import Target
    from nemo_runspec.script.node_identity import NodeIdentity


_ALONE = "a-profile"


@dataclass(frozen=True)
class TargetRequest:
    """The request that a backend makes a target of: the merged profile, and facts of the recipe and of the call.

    Args:
        env: the merged profile.
        given: the keys of `env` that were set on the command line.
        provided: local paths that will exist by the time the job starts.
        store: the folder of the artifacts that the job reads or writes, as the job names it, '' for none.
    """

    name: str
    mode: str
    kind: str
    launch: str
    env: Mapping[str, Any]
    given: frozenset[str] = frozenset()
    provided: frozenset[str] = frozenset()
    store: str = ""


@dataclass(frozen=True)
class RenderedFile:
    """A text that is shown in a dry-run and is, byte for byte, what is submitted.

    Args:
        common: lines that are the same in every job, as ranges (first, one after the last), counted from 0.
    """

    title: str
    name: str
    text: str
    language: str = "bash"
    common: tuple[tuple[int, int], ...] = ()


def common_ranges(text: str, template: str) -> tuple[tuple[int, int], ...]:
    """Ranges of lines of a text that stand in its template just so, see `RenderedFile.common`."""
    known = {*template.split("\n"), ""}
    found, begin = [], None
    for number, line in enumerate([*text.split("\n"), None]):
        if line in known and begin is None:
            begin = number
        elif line not in known and begin is not None:
            found.append((begin, number))
            begin = None
    return tuple(found)


@dataclass(frozen=True)
class Program:
    """A program of ours that goes with jobs and is the same for all of them (`script/programs.py`).

    Args:
        name: its path in the job's directory.
        version: nemotron's.
        digest: sha256 of its content, in hex.
        size: in bytes.
        text: its content; '' where only its name is known, as of a job of before.
    """

    name: str
    version: str
    digest: str
    size: int
    text: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True)
class Rendering:
    """What would be sent: texts, and the process that submits them.

    Args:
        holes: what only the platform knows, a line each: its name in the texts, and what it is.
        programs: what goes with the texts, and is the same for all jobs.
        sent: the name of the file that the platform gets: sbatch's script, a request's body, the script that is run;
            the others are what it names. '' for the first.
    """

    files: tuple[RenderedFile, ...]
    command: tuple[str, ...]
    holes: tuple[str, ...] = ()
    programs: tuple[Program, ...] = ()
    sent: str = ""

    @property
    def sent_file(self) -> RenderedFile | None:
        """The text that the platform gets; None where it gets none."""
        return next((file for file in self.files if file.name == self.sent), next(iter(self.files), None))


@dataclass(frozen=True)
class Backend:
    """One executor.

    Args:
        name: the value of `executor` in a profile.
        remote: True where the job runs on another machine.
        other_names: what people call its platform besides.
        fields: its own profile keys (common ones are in `profiles/common.py`).
        target: `module:function` of `make_target(TargetRequest)`, which makes a frozen dataclass, a `Target` (pure).
        target_type: `module:class` of that dataclass.
        render: `module:function` of `render(Plan) -> Rendering` (pure), None while it is not built.
        executor: `module:function` of `make_executor(Plan, secrets, environment=)`, which imports NeMo-Run.
        provider: `module:class` of a `remote.provider.Provider`, where jobs run elsewhere; None while it is not built.
        worker: `module:class` of a `supervise.worker.Worker`, where jobs run on this machine under a supervisor.
        mounts: False where a job sees this machine as it is, so that nothing is mounted, nor cloned for that.
        mounts_sent_to: how a mount's source names the job's own directory, where repositories to be mounted are sent.
        in_container: True where a job on this machine does not see this process's environment.
        preflight: `module:function` of `checks(Question) -> Iterable[Check]`: whether a profile is going to work.
        setup: `module:name` of a `backends.setup.Setup`: what `nemotron init` asks for a profile.
        builds: whether container builds run there, with the keys of a profile that are `of_builds`.
        lacking: `module:function` of `lacking(Plan) -> Iterable[str]`: what else must be mended before a submission, as
            far as the plan alone tells (pure).
        node_identity: `module:name` of a `script.node_identity.NodeIdentity`: how a node finds out which it is. Without
            one, a job has a single node.
        node_program: on platforms of pods, the module by which a pod finds out which node it is: it runs there, in the
            supervisor (`INDEX`, and `place(pod)`; Python 3.6, with nothing but `jobside` beyond the standard library).
        inline_total: characters that a job's description has for its files, on platforms of pods.
        ships_repository: without a `packager`, a job gets the git repository that it is started from.
        listings: `module:name` of its `backends.listing.Listings`: what `nemotron NAME …` lists of the platform.
        summary: a line on those lists, for the help.
        no_shell: what to do instead, where nobody can be let into a running job from here.
        handle_place: keys of a job's handle that tell a person where the job is; the first that has a value is shown.
        inputs: `module:function` of `present(Plan, paths) -> Mapping[path, bool | None]`: whether what a job reads is
            there, None where that cannot be asked. Without it the plan itself knows.
        after: `module:function` of `after(target, env, ids) -> target`, for a platform that starts a job once others
            have succeeded (pure).
        run_dir_key: the profile key that names the directory for jobs; `run_dir_default` where it is not set.
    """

    name: str
    remote: bool
    fields: tuple[Field, ...]
    target: str
    target_type: str
    render: str | None = None
    executor: str | None = None
    provider: str | None = None
    worker: str | None = None
    preflight: str | None = None
    setup: str | None = None
    mounts: bool = True
    mounts_sent_to: str | None = None
    in_container: bool = False
    builds: bool = False
    lacking: str | None = None
    node_identity: str | None = None
    node_program: str | None = None
    inline_total: int = 0
    ships_repository: bool = False
    listings: str | None = None
    summary: str = ""
    other_names: tuple[str, ...] = ()
    no_shell: str = ""
    handle_place: tuple[str, ...] = ("host",)
    inputs: str | None = None
    after: str | None = None
    run_dir_key: str | None = None
    run_dir_default: str = "/nemo_run"

    def own_node_identity(self) -> NodeIdentity | None:
        """The identity that it declares, None for none."""
        identity: NodeIdentity | None = _load(self.node_identity) if self.node_identity else None
        return identity

    def load_listings(self) -> Listings[Any] | None:
        """What can be listed of the platform, None for nothing."""
        listings: Listings[Any] | None = _load(self.listings) if self.listings else None
        return listings

    def load_setup(self) -> Setup | None:
        """What is asked for a profile, None for an executor that brings no questions."""
        setup: Setup | None = _load(self.setup) if self.setup else None
        return setup

    def run_dir(self, env: Mapping[str, Any]) -> str:
        """`NEMO_RUN_DIR` in the job: the directory of the profile under which jobs, outputs and caches lie."""
        named = env.get(self.run_dir_key) if self.run_dir_key else None
        from nemo_runspec import paths

        if not named and not self.remote:
            return str(paths.run_dir())
        folder = str(named or self.run_dir_default)
        return folder if self.remote else str(paths.expand_user(folder, self.run_dir_key or "job_dir").absolute())

    def runs_elsewhere(self, env: Mapping[str, Any]) -> bool:
        """True if the job does not see the files of this machine."""
        return self.remote

    def job_dir(self, env: Mapping[str, Any], name: str) -> str:
        """The directory of one job, as the job's own machine names it."""
        if not self.remote:
            from nemo_runspec import paths

            return str(paths.jobs_dir() / name)
        return f"{self.run_dir(env).rstrip('/')}/jobs/{name}"

    def make_target(self, request: TargetRequest) -> Target:
        """The frozen target of a plan. Raises `UserError` for what this backend cannot do."""
        target: Target = _load(self.target)(request)
        return target

    def target_alone(self, env: Mapping[str, Any], mode: str = "batch", store: str = "", name: str = _ALONE) -> Target:
        """The target of a profile's merged values alone, whatever its recipe. Raises `UserError` as `make_target`.

        Args:
            store: the folder of artifacts, '' where the job has none.
        """
        return self.make_target(TargetRequest(name, mode, "", "torchrun", env, store=store))

    def make_rendering(self, plan: Plan) -> Rendering | None:
        """The exact texts of a plan, or None where this backend's renderer is not built yet."""
        return _load(self.render)(plan) if self.render else None

    def lacking_in(self, plan: Plan) -> tuple[str, ...]:
        """What must be mended before a plan can be submitted, beside what its profile lacks."""
        return tuple(_load(self.lacking)(plan)) if self.lacking else ()

    def present(self, plan: Plan, paths: Sequence[str]) -> Mapping[str, bool | None]:
        """Which paths of a job are there; None where that cannot be known from here. May ask its platform.

        Raises:
            UserError: the platform does not answer, or refuses.
        """
        found: Mapping[str, bool | None] = _load(self.inputs)(plan, paths) if self.inputs else dict.fromkeys(paths)
        return found

    def target_after(self, target: Target, env: Mapping[str, Any], ids: Sequence[str]) -> Target:
        """The target of a job that starts once these jobs of its platform have succeeded, and else never."""
        later: Target = _load(self.after)(target, env, ids) if self.after else target
        return later

    def make_executor(self, plan: Plan, secrets: Mapping[str, str] | None = None, *, environment: bool = False) -> Any:
        """A NeMo-Run executor for existing scripts. Imports NeMo-Run (about three seconds).

        Args:
            secrets: credentials of the profile, which no plan holds.
            environment: hand the plan's variables to NeMo-Run too; a plan's own job script exports them itself.
        """
        if self.executor is None:
            raise NotBuilt(f"no NeMo-Run executor is built for '{self.name}' yet")
        return _load(self.executor)(plan, secrets, environment=environment)

    def preflight_of(self, question: CheckRequest) -> Iterable[Check]:
        """Whether a profile is going to work, as far as this backend can look; each check as soon as it is known."""
        if self.preflight is None:
            from nemo_runspec.check import skipped

            return (skipped(self.name, f"this release has no checks for executor '{self.name}'"),)
        checks: Iterable[Check] = _load(self.preflight)(question)
        return checks

    def load_worker(self) -> Worker:
        """The worker, which starts, finds and ends jobs of this machine. Raises `NotBuilt` where there is none."""
        if self.worker is None:
            raise NotBuilt(f"jobs of executor '{self.name}' do not run under a supervisor on this machine")
        worker: Worker = _load(self.worker)()
        return worker

    def load_provider(self) -> Provider:
        """The provider, which submits, polls and ends jobs elsewhere. Raises `NotBuilt` where there is none."""
        if self.provider is None:
            raise NotBuilt(
                f"submitting to '{self.name}' is not built in this release; nothing was submitted",
                remedy='add --dry-run to see the plan, or run it with a profile of executor = "local"',
            )
        provider: Provider = _load(self.provider)()
        return provider


def _load(reference: str) -> Any:
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)
