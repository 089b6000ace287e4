"""Questions answered by options, at a terminal, or by what was found."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TextIO

from nemo_runspec.backends.setup import Interview, SetupChoice, SetupQuestion
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.lines import text_lines
from nemo_runspec.text import one_line
from nemotron.cli.click import Abort
from nemotron.cli.tables import wrapped
from nemotron.cli.text import paint, table, terminal_width

_OFFERED = 12
"""Choices of a question that are shown."""


class TerminalInterview(Interview):
    """Asks on the error stream what no option answers.

    Args:
        options: name of a question → answer.
        accept: take defaults without asking.
        at_terminal: whether there is somebody to ask.

    Attributes:
        missing: questions that nobody has answered. `notes`: what was told, where nobody sits at a terminal.
    """

    def __init__(self, options: Mapping[str, str], *, accept: bool, at_terminal: bool) -> None:
        self.missing: list[SetupQuestion] = []
        self.notes: list[str] = []
        self._options = options
        self._accept = accept
        self._at_terminal = at_terminal

    def ask(self, question: SetupQuestion) -> str:
        """As `Interview.ask`.

        Raises:
            UserError: an option's answer is no number, where one is asked for.
            Abort: the terminal was closed.
        """
        given = self.given(question.name)
        if given:
            _check(question, given)
            return given
        if self._accept and (question.default or not question.needed):
            return question.default
        if not self._at_terminal or self._accept:
            self.missing.append(question)
            return question.default
        return _asked(question)

    def given(self, name: str) -> str:
        """As `Interview.given`."""
        return self._options.get(name, "")

    def say(self, line: str) -> None:
        """As `Interview.say`."""
        for each in map(one_line, text_lines(line)):
            if self._at_terminal:
                for row in wrapped(each, (terminal_width() or 1000) - 2):
                    _tell(paint(f"  {row}", "dim", sys.stderr))
            else:
                self.notes.append(each)

    def require(self) -> None:
        """Raises `UserError` where questions are left: all of them, with the options that answer them."""
        if not self.missing:
            return
        title = "there is no terminal to ask in" if not self._accept else "nothing was found that -y could take"
        optional = not self._accept and all(question.default or not question.needed for question in self.missing)
        words = "-y" if optional else " ".join(f"{option_of(question.name)} …" for question in self.missing)
        lines = [*map(_described, self.missing), *(f"({note})" for note in self.notes)]
        raise UserError("\n".join((f"{title}; open is", *(f"- {line}" for line in lines))), remedy=f"add {words}")


def option_of(name: str) -> str:
    """The option that answers a question."""
    return f"--{name.replace('_', '-')}"


def _described(question: SetupQuestion) -> str:
    found = ", ".join(choice.value for choice in question.choices[:_OFFERED])
    default = "" if question.needed else "; -y leaves it out"
    default = f"; -y takes {question.default}" if question.default else default
    return f"{option_of(question.name)}: {question.text}{f': {found}' if found else ''}{default}"


def _asked(question: SetupQuestion) -> str:
    """Asks until there is an answer."""
    default = f" [{question.default}]" if question.default else ""
    prompt = paint(question.text, "bold", sys.stderr)
    if question.choices:
        _tell(prompt)
        _offer(question.choices)
        prompt = "number or name"
    while True:
        answer = _chosen(_read(f"{prompt}{default}: "), question.choices) or question.default
        problem = _problem(question, answer)
        if not problem:
            return answer
        _tell(f"  {problem}")


def _offer(choices: tuple[SetupChoice, ...]) -> None:
    rows = [(str(number), choice.value, choice.note) for number, choice in enumerate(choices[:_OFFERED], 1)]
    for line in table(rows):
        _tell(line)
    if len(choices) > _OFFERED:
        _tell(f"  and {len(choices) - _OFFERED} more")


def _chosen(answer: str, choices: tuple[SetupChoice, ...]) -> str:
    if answer.isdecimal() and 1 <= int(answer) <= len(choices):
        return choices[int(answer) - 1].value
    return answer


def _problem(question: SetupQuestion, answer: str) -> str:
    if not answer:
        return "an answer is needed" if question.needed else ""
    if answer in question.taken:
        return f"there is a '{answer}' already"
    values = [choice.value for choice in question.choices]
    if question.closed and answer not in values:
        return did_you_mean(answer, values) or f"'{answer}' is none of {', '.join(values)}"
    if question.number and not answer.isdecimal():
        return f"a whole number is needed, not '{answer}'"
    return ""


def _check(question: SetupQuestion, answer: str) -> None:
    problem = _problem(question, answer)
    if problem:
        raise UserError(f"{option_of(question.name)} {answer}: {problem}")


def _read(prompt: str) -> str:
    stream: TextIO = sys.stderr
    stream.write(prompt)
    stream.flush()
    line = sys.stdin.readline()
    if not line:
        _tell("")
        raise Abort
    return line.strip()


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
