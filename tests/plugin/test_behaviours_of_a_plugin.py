"""All that every backend promises, promised by one of another distribution, on two nodes."""

from __future__ import annotations

from behaviour.test_artifacts import *  # noqa: F403
from behaviour.test_code import *  # noqa: F403
from behaviour.test_ending import *  # noqa: F403
from behaviour.test_given import *  # noqa: F403
from behaviour.test_output import *  # noqa: F403
from behaviour.test_secrets import *  # noqa: F403
from behaviour.test_stopping import *  # noqa: F403
