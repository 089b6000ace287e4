"""`nemotron` and `python -m nemotron`."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Sequence


def main() -> None:
    """Runs the command line and exits with its code."""
    if sys.platform == "win32":  # where several modules could not even be imported
        print("error: nemotron does not run on Windows\n  fix: use it in WSL, or on Linux or macOS", file=sys.stderr)
        sys.exit(2)
    # Start-up makes many objects and hardly any garbage: collecting at Python's usual pace costs a twentieth of it.
    gc.set_threshold(200_000, 20, 20)
    try:
        run = _loaded(sys.argv[1:])
    except KeyboardInterrupt:
        if sys.stderr is not None:  # closed when this process was started; print would take standard output instead
            print("error: interrupted; nothing more was done", file=sys.stderr)
        sys.exit(130)
    code = run(sys.argv[1:])
    # Python looks for garbage several times as it ends, through everything that is there: a fifth of a short command.
    gc.freeze()
    sys.exit(code)


def _loaded(argv: Sequence[str]) -> Callable[[Sequence[str]], int]:
    """What runs a command line. Ctrl-C waits until it is there: an import that it cuts off may swallow it, or hang."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        import nemotron.cli.root  # what `run` begins with
        from nemotron.cli.builtin import names_folder

        if names_folder(argv):
            import nemotron.cli.recipes.folders  # noqa: F401
        from nemotron.cli.main import run
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return run


if __name__ == "__main__":
    main()
