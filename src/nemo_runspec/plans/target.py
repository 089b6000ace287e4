"""The base of every backend's target: questions that have a default answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from dataclasses import Field
    from typing import Any, ClassVar

    from nemo_runspec.plans.model import Plan, Resources
    from nemo_runspec.plans.storage import Storage


@dataclass(frozen=True, slots=True)
class Cores:
    """CPU cores of a node that a job gets.

    Args:
        key: the profile key that says how many.
        told: whether it is set; else it is what the platform gives unasked.
    """

    number: int
    key: str
    told: bool = True


class Target:
    """The base of a backend's frozen dataclass with what its `make_target` has decided; each answer has a default.

    A dataclass that insists on one of them declares it as `name: type = field()`.

    Attributes:
        time: the time limit as the platform writes it, None for none.
        container_image: None where the backend has no containers, '' where the profile must still name one.
        secret_vars: variable -> the secret of the platform's own store that it gets.
        stall_timeout: seconds without progress after which the job ends itself, None for never.
        stall_action: `stop`, or `requeue` where the backend can start a job again.
        build_cache_dir: where container builds keep their layers.
        warnings: what is odd but not wrong.
        unfilled: what must be mended before a submission, as `errors.Unfilled`; text alone where the plan was saved.
    """

    __slots__ = ()
    if TYPE_CHECKING:  # each is one
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    time: str | None = None
    container_image: str | None = None
    secret_vars: Mapping[str, str] = {}
    stall_timeout: int | None = None
    stall_action: str = "stop"
    build_cache_dir: str | None = None
    warnings: tuple[str, ...] = ()
    unfilled: tuple[str, ...] = ()

    gpus_key = "gpus_per_node"
    """The key that says how many GPUs there are, where nothing else does."""
    array_key = dependencies_key = ""
    """The keys by which a user makes a job several tasks, and names jobs that it waits for; '' where there are none."""

    def gpus(self, resources: Resources) -> int | None:
        """GPUs of the whole job at most, whatever asks for them; None where that is not known."""
        return resources.nodes * resources.gpus_per_node

    def gpus_of_node(self, resources: Resources) -> int | None:
        """GPUs of each node, of whatever asks for them; None where that is not known."""
        gpus = self.gpus(resources)
        return None if gpus is None else gpus // resources.nodes

    def cores(self, resources: Resources) -> Cores | None:
        """CPU cores of a node for a job with one task there; None for all of them, or where that is not known."""
        return None

    def runs(self) -> int:
        """How often the job may run: tasks of an array, each once more per retry."""
        return 1

    def storage(self, job_dir: str) -> Storage | None:
        """What the job sees that may outlive it, None where that is not known.

        Args:
            job_dir: the job's directory, as its own machine names it.
        """
        return None


Own = TypeVar("Own", bound=Target)


def narrowed(target: Target, own: type[Own]) -> Own:
    """A target as its backend's own type: the door of each backend's room.

    Raises:
        TypeError: it is another backend's.
    """
    if not isinstance(target, own):
        raise TypeError(f"a target of {own.__name__} is needed, not of {type(target).__name__}")
    return target


def target_of(plan: Plan, own: type[Own]) -> Own:
    """The target of a plan as its backend's own type. As `narrowed`."""
    return narrowed(plan.target, own)
