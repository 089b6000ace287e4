"""Completion in bash, zsh and fish: what each shell runs, and how it is answered.

Typer's own scripts put a space behind `key=`, offer no files beside words, and in bash lose what stands before an `=`.
All three shells ask the same way: the line up to the cursor stands in `_NEMOTRON_LINE`; each line of the answer is a
kind (`_KINDS`), a word and its help, with tabs between.
"""

from __future__ import annotations

import os
from typing import Any

from typer import _completion_shared
from typer._click.shell_completion import ShellComplete, add_completion_class, split_arg_string

from nemo_runspec.text import one_line
from nemotron.cli.click import CompletionItem

_KINDS = ("plain", "open", "file")
"""A whole word; one that goes on, such as `key=`; a file or a folder, which ends with `/`."""

_BASH = r"""
%(complete_func)s() {
    local IFS=$'\n' line kind word
    COMPREPLY=()
    for line in $(_NEMOTRON_LINE="${COMP_LINE:0:COMP_POINT}" _NEMOTRON_BREAKS="$COMP_WORDBREAKS" \
                  %(autocomplete_var)s=complete_bash "$1" 2> /dev/null); do
        kind=${line%%%%$'\t'*} word=${line#*$'\t'}
        word=${word%%%%$'\t'*}
        if ! type compopt > /dev/null 2>&1; then
            case $kind in
                plain) word+=' ' ;;
                file) if [ -d "$word" ]; then word+=/; else word+=' '; fi ;;
            esac
        elif [ "$kind" = open ]; then
            compopt -o nospace
        elif [ "$kind" = file ]; then
            compopt -o filenames
        fi
        COMPREPLY+=("$word")
    done
}
if type compopt > /dev/null 2>&1; then
    complete -F %(complete_func)s %(prog_name)s
else
    complete -o nospace -F %(complete_func)s %(prog_name)s
fi
"""
"""bash 3.2, which macOS has, cannot say of a word alone that no space comes behind it: there the words bring theirs."""

_ZSH = r"""#compdef %(prog_name)s
%(complete_func)s() {
    local line
    local -a part plain plain_help open open_help files
    for line in "${(@f)$(_NEMOTRON_LINE="${(j: :)words[1,CURRENT-1]} $PREFIX" \
                         %(autocomplete_var)s=complete_zsh %(prog_name)s 2> /dev/null)}"; do
        part=("${(@s:	:)line}")
        case ${part[1]} in
            plain) plain+=("${part[2]}"); plain_help+=("${part[2]}${part[3]:+  ${part[3]}}") ;;
            open) open+=("${part[2]}"); open_help+=("${part[2]}${part[3]:+  ${part[3]}}") ;;
            file) files+=("${part[2]}") ;;
        esac
    done
    (( ${#plain} )) && compadd -l -d plain_help -a plain
    (( ${#open} )) && compadd -S '' -l -d open_help -a open
    (( ${#files} )) && compadd -f -S '' -a files
    return 0
}
if [[ $funcstack[1] = _%(prog_name)s ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""

_FISH = r"""function %(complete_func)s
    set -lx _NEMOTRON_LINE (commandline -cp | string collect)
    set -lx %(autocomplete_var)s complete_fish
    %(prog_name)s 2> /dev/null | string replace -r '^\w+\t' ''
end
complete --command %(prog_name)s --no-files --arguments "(%(complete_func)s)"
"""


class _Shell(ShellComplete):
    """What all shells have in common."""

    def source_vars(self) -> dict[str, Any]:
        """What the script is filled with."""
        return {
            "complete_func": self.func_name,
            "autocomplete_var": self.complete_var,
            "prog_name": self.prog_name,
        }

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is being typed, and that one as far as it is there."""
        line = os.environ.get("_NEMOTRON_LINE", "")
        words = split_arg_string(line)[1:]
        if not words or line[-1:].isspace():
            return words, ""
        return words[:-1], words[-1]

    def complete(self) -> str:
        """The answer."""
        args, incomplete = self.get_completion_args()
        option = incomplete.partition("=")[0] + "=" if incomplete.startswith("-") and "=" in incomplete else ""
        cut = self.cut(incomplete)
        found = [item for item in self.get_completions(args, incomplete) if "\n" not in item.value]
        return "\n".join(self.line(item, f"{option}{item.value}"[cut:]) for item in found)

    def cut(self, incomplete: str) -> int:
        """How many characters of what is being typed are no part of the word as the shell sees it."""
        return 0

    def line(self, item: CompletionItem, word: str) -> str:
        """One line of it."""
        return f"{self.kind(item)}\t{word}\t{one_line(item.help or '')}"

    def kind(self, item: CompletionItem) -> str:
        """Whether the word goes on, and whether it is a file."""
        return item.type if item.type in _KINDS else "plain"

    def format_completion(self, item: CompletionItem) -> str:
        """As the base class has it."""
        return self.line(item, item.value)


class BashComplete(_Shell):
    """bash: a word ends at `=` and `:` too."""

    name = "bash"
    source_template = _BASH

    def cut(self, incomplete: str) -> int:
        """All up to the last character at which bash begins another word."""
        breaks = os.environ.get("_NEMOTRON_BREAKS", "")
        return max((incomplete.rfind(mark) + 1 for mark in "=:" if mark in breaks), default=0)

    def line(self, item: CompletionItem, word: str) -> str:
        """bash itself puts a slash behind a folder."""
        return super().line(item, word.rstrip("/") if self.kind(item) == "file" else word)


class ZshComplete(_Shell):
    """zsh."""

    name = "zsh"
    source_template = _ZSH


class FishComplete(_Shell):
    """fish: the kinds are known by how words end."""

    name = "fish"
    source_template = _FISH


def register() -> None:
    """Makes these what `--install-completion` installs, and what answers."""
    for shell in (BashComplete, ZshComplete, FishComplete):
        add_completion_class(shell, shell.name)
        _completion_shared._completion_scripts[shell.name] = shell.source_template
