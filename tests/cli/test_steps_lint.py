"""`nemotron steps lint`: what is wrong with a step is found, with its place; what is right is not."""

from __future__ import annotations

import pytest

TYPES = """\
[ore]
[iron]
is_a = "ore"
[steel]
"""
HEADER = """\
# /// script
# [tool.runspec]
# description = "Melts ore."
# [[tool.runspec.consumes]]
# name = "data"
# type = "ore"
# [[tool.runspec.produces]]
# name = "made"
# type = "steel"
# [[tool.runspec.parameters]]
# name = "heat.degrees"
# description = "How hot."
# type = "int"
# max = 3000
# [[tool.runspec.parameters]]
# name = "furnace"
# description = "Which furnace."
# choices = ["small", "blast"]
# required = true
# [[tool.runspec.models]]
# name = "blast"
# parameter = "furnace"
# min_gpus = 8
# ///
"""
DEFAULT = """\
# The large one.
run:
  data: {path: "???"}
  made: {artifact: steel}
heat:
  degrees: 2000
furnace: blast
token: <pad>
folder: ${run.data.path}
"""
TINY = DEFAULT.replace('"???"', "bundle:ore.txt").replace("blast", "small")


@pytest.fixture
def melt(project):
    """Writes the step, with changes."""

    def write(header=HEADER, default=DEFAULT, tiny=TINY, types=TYPES, readme=True, name="smithy/melt"):
        project.write("recipes/steps/types.toml", types)
        if readme:
            project.write(f"recipes/steps/{name}/README.md", "# Melt\n")
        project.recipe(f"steps/{name}", header=header, default=default, tiny=tiny)

    return write


@pytest.fixture
def linted(nemotron):
    """What is found at the step: the file's name with its line, and the words."""

    def ask(ident="melt"):
        done = nemotron("steps", "lint", ident, "--json")
        assert done.code == (1 if done.json else 0), done.err
        return [(each["where"].rpartition("/")[2], each["what"], each["remedy"]) for each in done.json]

    return ask


def test_an_optional_input_may_be_left_open_by_a_configuration_that_is_about_it(melt, linted, project):
    optional = HEADER.replace('type = "ore"', 'type = "ore"\n# required = false')
    assert optional != HEADER
    melt(header=optional, default=TINY)
    project.write("recipes/steps/smithy/melt/config/of_ore.yaml", DEFAULT)
    assert linted() == []
    melt(header=optional)
    assert [(where, what) for where, what, _ in linted()] == [("default.yaml:3", "run.data.path is ??? in 'default'")]


def test_a_right_step_has_no_findings(melt, linted, nemotron):
    melt()
    assert linted() == []
    done = nemotron("steps", "lint", "smithy/melt").succeeds()
    assert done.out == "nothing is wrong with 1 step\n"


@pytest.mark.parametrize(
    ("change", "where", "words"),
    [
        ({"header": HEADER.replace('"ore"', '"oar"')}, "main.py:6", ["unknown type 'oar'", "did you mean 'ore'?"]),
        ({"header": HEADER.replace('"steel"', '"cake"')}, "main.py:9", ["unknown type 'cake'", "types.toml"]),
        ({"header": HEADER.replace("heat.degrees", "heat.degree")}, "main.py:11",
         ["'heat.degree' is a key of none", "did you mean 'heat.degrees'?"]),
        ({"header": HEADER.replace('parameter = "furnace"', 'parameter = "furnaces"')}, "main.py:22",
         ["'furnaces' is a key of none", "did you mean 'furnace'?"]),
        ({"header": HEADER.replace('name = "blast"', 'name = "blest"')}, "main.py:21",
         ["model 'blest' is none of the choices", "did you mean 'blast'?"]),
        ({"header": HEADER.replace("description = \"Melts ore.\"", "")}, "main.py:2", ["description is missing"]),
        ({"default": DEFAULT.replace("2000", "4000")}, "default.yaml:6",
         ["heat.degrees must be 3000 or less, not 4000"]),
        ({"tiny": TINY.replace("2000", "hot")}, "tiny.yaml:6", ["heat.degrees must be a whole number, not 'hot'"]),
        ({"tiny": TINY.replace("furnace: small", "furnace: smal")}, "tiny.yaml:7",
         ["furnace must be one of small, blast", "did you mean 'small'?"]),
        ({"tiny": TINY.replace("furnace: small", "furnace: null")}, "tiny.yaml:7", ["furnace has no value in 'tiny'"]),
        ({"tiny": TINY.replace("bundle:ore.txt", '"???"')}, "tiny.yaml:3", ["run.data.path is ??? in 'tiny'"]),
        ({"default": DEFAULT + "other: '???'\n"}, "default.yaml:10", ["other is ??? in 'default'"]),
        ({"default": DEFAULT + "other: /path/to/model\n"}, "default.yaml:10", ["other is a placeholder"]),
        ({"default": DEFAULT + "other: [a, your-bucket]\n"}, "default.yaml:10", ["'your-bucket'"]),
        ({"default": DEFAULT + "other: <model name>\n"}, "default.yaml:10", ["'<model name>'"]),
        ({"default": DEFAULT + "  other: 1\n"}, "default.yaml:10", ["not valid YAML"]),
        ({"readme": False}, "melt", ["README.md is missing"]),
    ],
)  # fmt: skip
def test_a_mistake_is_found_with_its_place(melt, linted, change, where, words):
    melt(**change)
    [found] = linted()
    assert found[0] == where
    for word in words:
        assert word in f"{found[1]} {found[2]}"


def test_several_problems_of_a_header_are_several_findings(melt, linted, nemotron):
    melt(header=HEADER.replace("required = true", "requird = true").replace('"int"', '"integer"'))
    assert [where for where, *_ in linted()] == ["main.py:13", "main.py:19"]
    melt(header=HEADER.replace("# ///\n#", "#", 1).rstrip("/# \n") + '\n# [[tool.runspec.errors]]\n# pattern = "("\n'
         '# cause = "x"\n# ///\n')  # fmt: skip
    [found] = linted()
    assert "is no regular expression" in found[1]


def test_missing_configs(project, linted):
    project.write("recipes/steps/types.toml", TYPES)
    project.write("recipes/steps/smithy/melt/README.md", "# Melt\n")
    project.recipe("steps/smithy/melt", header=HEADER, usual=TINY)
    assert [what for _, what, _ in linted()] == ["there is no config 'default'", "there is no config 'tiny'"]


def test_a_step_that_needs_what_it_alone_makes(melt, linted):
    melt(header=HEADER.replace('type = "steel"', 'type = "iron"'))
    [found] = linted()
    assert found[0] == "main.py:4" and "can never run" in found[1]


def test_types_that_cannot_be_read_are_a_finding(melt, nemotron):
    melt(types=TYPES + '[gold]\nis_a = "metal"\n')
    done = nemotron("steps", "lint")
    assert done.code == 1
    assert "recipes/steps/types.toml:5: [gold] names an unknown type 'metal'" in done.out


def test_a_conversion_by_no_step(melt, nemotron):
    melt(types=TYPES + '[gold]\nconvert_to = [{ type = "ore", step = "smithy/mealt" }]\n')
    done = nemotron("steps", "lint")
    assert done.code == 1
    assert "recipes/steps/types.toml:5: [gold] is converted by 'smithy/mealt', which is no step" in done.out
    assert "fix: did you mean 'smithy/melt'?" in done.out


def test_the_page_is_lines_that_editors_understand(melt, nemotron):
    melt(tiny=TINY.replace("2000", "5000"))
    done = nemotron("steps", "lint", "melt")
    assert done.code == 1
    first, second, last = done.out.splitlines()
    assert first == "recipes/steps/smithy/melt/config/tiny.yaml:6: heat.degrees must be 3000 or less, not 5000"
    assert second.startswith("  fix: see recipes/steps/smithy/melt/main.py:11")
    assert last == "1 finding in 1 step"
    nemotron("steps", "lint", "mellt").refuses("did you mean 'melt'?")


def test_the_steps_that_come_with_nemotron_are_right(nemotron):
    found = nemotron("steps", "lint", "--json")
    known = {row["id"] for row in nemotron("steps", "list", "--json").json}
    whole = {"curate/nemo_curator", "convert/hf_to_megatron", "convert/megatron_to_hf"} <= known
    of_the_graph = () if whole else ("unreachable", "types")
    wrong = [each for each in found.json if each["rule"] not in of_the_graph]
    assert [f"{each['where']}: {each['what']}" for each in wrong] == []
