"""Recipe and configuration become one frozen plan.

Importing a subpackage puts it into its parent's namespace, here over the function `nemo_runspec.plan`. So that the
function can be called a second time, this package can be called as it.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

import nemo_runspec

if TYPE_CHECKING:
    from nemo_runspec.plan.model import Plan

_function = nemo_runspec.plan


class _CallablePackage(ModuleType):
    def __call__(self, *args: object, **options: object) -> Plan:
        return _function(*args, **options)  # type: ignore[arg-type, no-any-return, unused-ignore]


sys.modules[__name__].__class__ = _CallablePackage
