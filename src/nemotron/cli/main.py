"""Runs one command line: parses, calls, and turns everything a user can cause into one message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO, cast

from nemo_runspec.errors import UserError
from nemo_runspec.visible import VisibleStream
from nemotron.cli.builtin import PROGRAM
from nemotron.cli.click import Abort, ClickException, Exit
from nemotron.cli.masked import mask_streams
from nemotron.cli.text import colour_wanted

CLOSED_PIPE = 141
"""128 + SIGPIPE: what a shell says of a command whose reader has gone (`| head -1`), as of `cat`."""


def run(argv: Sequence[str]) -> int:
    """The exit code of `nemotron ARGV…`: 0, a job's own, 2 for a mistake of the user's, 130 after Ctrl-C.

    1 where the system refused something, such as room for the output; 141 where whoever read it has gone.
    """
    from nemotron.cli.command import usual_talk

    _prepare_streams()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_visible, before)
    try:
        code = _run(argv)
    finally:
        sys.stdout, sys.stderr = before
        usual_talk()  # whoever called it from Python is not left with its `-q`
    # Of an exit code the system keeps its lowest 8 bits: a job's 256 would end as 0.
    return code if 0 <= code < 256 else 1


def _run(argv: Sequence[str]) -> int:
    from nemo_runspec.paths import working_directory
    from nemotron.cli.root import make_root

    try:
        working_directory()
        return _said_all(make_root().main(args=list(argv), prog_name=PROGRAM, standalone_mode=False))
    except UserError as error:
        return _fail(str(error), error.exit_code)
    except ClickException as error:
        return _fail(_usage_message(error), error.exit_code)
    except Exit as error:
        return int(error.exit_code)
    except (Abort, KeyboardInterrupt):
        return _fail("interrupted; nothing more was done", 130)
    except BrokenPipeError:
        _forget_output()
        return CLOSED_PIPE
    except SystemExit:  # Typer's own answer to a closed pipe
        _forget_output()
        return CLOSED_PIPE
    except (OSError, UnicodeError) as error:
        # What the system refuses and no room has put in words of its own: a name too long, a full disk.
        return _fail(_system_message(error), 1)
    except Exception as error:
        if not _is_interrupt(error):
            raise
        return _fail("interrupted; nothing more was done", 130)


def _is_interrupt(error: BaseException | None) -> bool:
    """True if it came of Ctrl-C: as a library was putting back what that had left half changed."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _said_all(result: object) -> int:
    """A command's exit code, once all that it printed is written. A job's failure is said even if nobody reads it."""
    code = result if isinstance(result, int) else 0
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        return code or CLOSED_PIPE
    except OSError as error:
        _forget_output()
        return _fail(_system_message(error), code or 1)
    return code


def _forget_output() -> None:
    """Python would try once more to write what is left when it ends, and complain."""
    with suppress(OSError, ValueError, AttributeError):  # ValueError: it has no descriptor, as in a test
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare_streams() -> None:
    """Output goes somewhere even where a stream was closed, and no character of it is too much for a terminal."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # for the whole process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    mask_streams()


def _visible(stream: TextIO) -> TextIO:
    """The stream, on which nothing that is printed drives the terminal."""
    return cast("TextIO", VisibleStream(stream, colour=colour_wanted(stream)))


def _fail(message: str, code: int) -> int:
    """Says what went wrong, if there is anything to say beyond the help that was shown."""
    if not message:
        return code
    from nemo_runspec.redact import argv_redactor
    from nemo_runspec.text import clean
    from nemotron.cli.text import paint

    print(f"{paint('error:', 'red', sys.stderr)} {clean(argv_redactor(sys.argv).redact(message))}", file=sys.stderr)
    return code


def _system_message(error: OSError | UnicodeError) -> str:
    if not isinstance(error, OSError):
        return str(error)
    return f"{error.strerror or error}: {error.filename or 'standard output'}"


def _usage_message(error: ClickException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else PROGRAM
    message = error.format_message()
    return f"{message}\n  fix: see {command} --help" if message else ""
