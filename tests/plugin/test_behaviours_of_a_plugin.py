"""All that every backend promises, promised on two nodes by one of another distribution."""

from __future__ import annotations

import pytest
from behaviour.test_artifacts import *  # noqa: F403
from behaviour.test_code import *  # noqa: F403
from behaviour.test_ending import *  # noqa: F403
from behaviour.test_given import *  # noqa: F403
from behaviour.test_nodes import *  # noqa: F403
from behaviour.test_output import *  # noqa: F403
from behaviour.test_secrets import *  # noqa: F403
from behaviour.test_stopping import *  # noqa: F403

del test_interrupt  # noqa: F821  # Ctrl-C asks, as for all jobs elsewhere
del test_leftovers_of_a_job  # noqa: F821  # nobody watches over it who could end what it leaves
del test_shell_in_a_job  # noqa: F821  # a capability, which a platform need not have

pytestmark = pytest.mark.slow
