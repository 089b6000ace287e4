"""What keeps a plan from being submitted to run:ai, before and after it is asked; and what does not travel with it."""

from __future__ import annotations

from nemo_runspec.backends.dgxcloud.credentials import KEY
from nemo_runspec.backends.dgxcloud.fields import DgxCloudTarget, require_encryption
from nemo_runspec.errors import UserError
from nemo_runspec.paths import expanded
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of


def check(plan: Plan) -> None:
    """Refuses a plan that cannot be submitted. No network.

    Raises:
        UserError: the first thing that is wrong.
    """
    from nemo_runspec.backends.dgxcloud.logs.pvc import mounted

    target = target_of(plan, DgxCloudTarget)
    for key, url in (("base_url", target.base_url), ("kube_apiserver_url", target.kube_apiserver_url)):
        if url or key == "base_url":
            require_encryption(key, url)
    if target.run_dir_here and not mounted(expanded(target.run_dir_here)):
        raise UserError(
            f"run_dir_here {target.run_dir_here!r} is no directory of this machine",
            remedy="mount the claim's storage there, or take the key out of the profile",
            key="run_dir_here",
        )


def travels_not(plan: Plan) -> list[str]:
    """A line for each secret that was found here and does not go with the job: run:ai keeps none of that name."""
    kept = set(target_of(plan, DgxCloudTarget).secret_vars)
    found = [secret.name for secret in plan.secrets if secret.name not in kept | {KEY} and secret.origin != "missing"]
    return [
        f"{name} was found here and does not travel: the job runs without it. To give it one, keep it in run:ai "
        f'(Credentials, generic secret) and set secret_vars = {{ {name} = "my-credential/{name}" }}'
        for name in found
    ]
