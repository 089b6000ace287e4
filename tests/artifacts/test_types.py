"""`steps/types.toml`: what may be used for what."""

from __future__ import annotations

import pytest

from nemo_runspec.artifacts.types import ArtifactType, Types
from nemo_runspec.catalog import builtin_root, find_recipes
from nemo_runspec.errors import UserError


def types_of(tmp_path, *texts: str) -> Types:
    roots = []
    for number, text in enumerate(texts):
        root = tmp_path / str(number)
        (root / "steps").mkdir(parents=True)
        (root / "steps" / "types.toml").write_text(text)
        roots.append(root)
    return Types.load(roots)


def test_the_types_that_come_with_nemotron_hold_together():
    types = Types.load([builtin_root()])
    assert len(types.names()) >= 18
    assert types.accepts("training_jsonl", "raw_jsonl")
    assert not types.accepts("raw_jsonl", "training_jsonl")
    assert types.accepts("benchmark_parquet", "translated_mcq_benchmark_parquet")
    assert types.subtypes("training_jsonl") == ("filtered_jsonl", "raw_jsonl", "synthetic_jsonl", "translated_jsonl")
    for name in types.names():
        assert types.get(name).description and types.get(name).layout


def test_every_type_of_a_built_in_recipe_is_declared():
    types = Types.load([builtin_root()])
    named = {
        (recipe.path, spec.type)
        for recipe in find_recipes([builtin_root()])
        for spec in (*recipe.spec.consumes, *recipe.spec.produces)
    }
    assert {(path, name) for path, name in named if name not in types} == set()


def test_a_stronger_root_is_laid_over_a_weaker_one(tmp_path):
    types = types_of(
        tmp_path,
        '[rows]\ncheck = "mine"\n[own]\nis_a = "rows"\n',
        '[rows]\ndescription = "Rows."\ncheck = "theirs"\n',
    )
    assert types.get("rows").description == "Rows."
    assert types.checker("rows") == "mine"
    assert types.checker("own") == "mine", "that of the type that it is"
    assert types.accepts("rows", "own")


def test_ancestors_are_nearest_first():
    types = Types([ArtifactType("a", is_a=("b", "c")), ArtifactType("b", is_a=("d",)), *map(ArtifactType, "cd")])
    assert types.ancestors("a") == ("b", "c", "d")


def test_a_long_line_of_types_is_followed():
    line = [ArtifactType(f"t{i}", is_a=(f"t{i + 1}",)) for i in range(2000)]
    types = Types([*line, ArtifactType("t2000")])
    assert types.accepts("t2000", "t0")


@pytest.mark.parametrize(
    ("text", "what", "place"),
    [
        ('[a]\nis_a = "b"\n', "[a] names an unknown type 'b'", "types.toml:1"),
        ('[a]\nconvert_to = [{type = "b", step = "x/y"}]\n', "[a] names an unknown type 'b'", "types.toml:1"),
        ('[b]\n\n[a]\nis-a = "b"\n', "unknown key [a] is-a", "types.toml:4"),
        ('[a]\nis_a = "b"\n[b]\nis_a = "c"\n[c]\nis_a = "a"\n', "types that are each other: a, b, c", "types.toml:1"),
        ('[a]\nis_a = "a"\n', "types that are each other: a", "types.toml:1"),
        ("a = 1\n", "a must be a table: a type", "types.toml:1"),
        ("[a]\nis_a = 1\n", "[a] is_a must be a type, or a list of types", "types.toml:1"),
        ("[a]\ncheck = 1\n", "[a] check must be a string", "types.toml:1"),
        ('[a]\nconvert_to = ["a"]\n', "[a] convert_to must be a list of", "types.toml:1"),
        ('[a]\nconvert_to = [{type = "a"}]\n', "[a] convert_to must be a list of", "types.toml:1"),
    ],
)
def test_a_broken_declaration_is_refused_with_its_place(tmp_path, text, what, place):
    with pytest.raises(UserError) as raised:
        types_of(tmp_path, text)
    assert what in raised.value.what
    assert (raised.value.where or "").endswith(place)


def test_an_unknown_type_comes_with_a_suggestion():
    types = Types.load([builtin_root()])
    with pytest.raises(UserError) as raised:
        types.get("packed_parqet")
    assert raised.value.remedy == "did you mean 'packed_parquet'?"
    with pytest.raises(UserError) as raised:
        types.get("zzz")
    assert "binidx, checkpoint_hf" in (raised.value.remedy or "")
