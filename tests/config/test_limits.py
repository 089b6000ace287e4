"""What a few lines of YAML can make of themselves has a limit: aliases of aliases, values that hold another twice."""

from __future__ import annotations

import pytest
from omegaconf.base import Container
from support import call

from nemo_runspec.config import compose, resolvers, yaml_lines
from nemo_runspec.config.doubling import references_of

LISTS = "a0: &a0 [1,2,3]\n" + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
TABLES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{p: *a{i - 1}, q: *a{i - 1}}}\n" for i in range(1, 40))
TEXT = "z0: xxxxxxxx\n" + "".join(f"z{i}: ${{z{i - 1}}}${{z{i - 1}}}\n" for i in range(1, 40))
NODES = "z0: {x: 1}\n" + "".join(f"z{i}:\n  a: ${{z{i - 1}}}\n  b: ${{z{i - 1}}}\n" for i in range(1, 40))
NAMES = "n:\n" + "".join(f"  z{i}: z{i}\n" for i in range(40))
HIDDEN = NAMES + "z0: x\n" + "".join(f"z{i}: ${{${{n.z{i - 1}}}}}${{${{n.z{i - 1}}}}}\n" for i in range(1, 40))
RELATIVE = "a:\n  z0: x\n" + "".join(f"  z{i}: ${{.z{i - 1}}} ${{..a[z{i - 1}]}}\n" for i in range(1, 40))
SELECT = TEXT.replace("${z", "${oc.select:z")
CHAIN = "z0: 1\n" + "".join(f"z{i}: ${{z{i - 1}}}\n" for i in range(1, 3000))

BOMBS = {
    "lists": (LISTS, "aliases"),
    "tables": (TABLES, "aliases"),
    "itself": ("a: &a [*a]\n", "aliases"),
    "large": (f"a: '{'x' * (17 << 20)}'\n", "larger than 16 MiB"),
    "text": (TEXT, "refer to each other"),
    "nodes": (NODES, "refer to each other"),
    "select": (SELECT, "refer to each other"),
    "relative": (RELATIVE, "refer to each other"),
    "chain": (CHAIN, "refer to each other"),
    "brackets": ("a: " + "[" * 3000 + "]" * 3000 + "\n", "nested too deeply"),
}


@pytest.fixture
def resolved(monkeypatch):
    """The interpolations that OmegaConf has been asked for."""
    real, found = Container._resolve_interpolation_from_parse_tree, []

    def noted(self, *args, **kwargs):
        found.append(kwargs)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Container, "_resolve_interpolation_from_parse_tree", noted)
    return found


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_it_is_lit(project, resolved, name):
    text, said = BOMBS[name]
    project.recipe("mine/b", default=text)
    call("mine", "b", "-d").refuses(said)
    assert len(resolved) < 100 or name == "chain"


@pytest.mark.parametrize("name", ["text", "nodes", "select", "hidden"])
def test_what_is_not_seen_beforehand_is_refused_as_it_goes_off(project, monkeypatch, name):
    monkeypatch.setattr(resolvers, "MOST_RESOLVED", 500)  # the same, in less time
    monkeypatch.setattr(compose, "refuse_doubling", lambda tree, most, place: None)
    project.recipe("mine/b", default=BOMBS[name][0] if name in BOMBS else HIDDEN)
    call("mine", "b", "-d").refuses("refer to each other")


@pytest.mark.parametrize("name", [name for name, (_, said) in BOMBS.items() if said == "aliases"])
def test_a_bomb_in_a_group_is_refused(project, name):
    project.recipe("mine/b", default="defaults: [g: one]\n", **{"g/one": BOMBS[name][0]})
    call("mine", "b", "-d").refuses("aliases", "g/one.yaml")


def test_overrides_that_double_themselves(project, resolved):
    project.recipe("mine/b", default="z0: [1]\n")
    words = [f"+z{i}=[${{z{i - 1}}},${{z{i - 1}}}]" for i in range(1, 30)]
    call("mine", "b", "-d", *words).refuses("refer to each other")
    assert len(resolved) < 100


@pytest.mark.parametrize(
    ("tree", "count"),
    [
        ({"a": 1, "b": "x"}, 0),
        ({"a": "${b}", "b": "${c}", "c": 1}, 3),
        ({"a": "${b}${b}", "b": "${c}", "c": 1}, 5),
        ({"a": ["${..b}", "${b.x}"], "b": {"x": "${c}"}, "c": 1}, 5),
        ({"a": "${a}", "b": "${a}"}, 4),
        ({"a": r"\${b}", "b": "${oc.env:HOME,x}"}, 1),
    ],
)
def test_references_are_counted_as_often_as_they_are_resolved(tree, count):
    assert references_of(tree, 1000) == count


@pytest.mark.slow
def test_what_is_large_and_honest_passes(project):
    """Thousands of values, aliases and interpolations that stand for what is written."""
    lines = ["base: &base {a: 1, b: [1, 2, 3]}", *(f"t{i}: *base" for i in range(1000))]
    lines += [f"u{i}: ${{t{i}.a}}" for i in range(1000)]
    project.recipe("mine/b", default="\n".join(lines) + "\n")
    call("mine", "b", "-d").succeeds()


def test_values_are_counted_with_their_aliases(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a: &a [1, 2]\nb: [*a, *a]\n")
    root = yaml_lines._root(file)
    assert yaml_lines._values_of(root, {}) == 1 + (1 + 3) + (1 + 1 + 3 + 3)
