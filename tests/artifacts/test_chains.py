"""Chains between types, held against trying every order of every set of steps on small graphs."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_runspec.artifacts.chains import VISITS, Step
from nemo_runspec.artifacts.graph import Graph
from nemo_runspec.artifacts.types import ArtifactType, Types
from nemo_runspec.errors import UserError
from nemo_runspec.runspec import ArtifactSpec


def step(name: str, consumes: str = "", produces: str = "") -> Step:
    """A step whose inputs and outputs are words; a question mark behind one makes it optional."""
    return Step(name, _ports(consumes, "in"), _ports(produces, "out"))


def _ports(words: str, name: str) -> tuple[ArtifactSpec, ...]:
    return tuple(
        ArtifactSpec(f"{name}{number}", word.rstrip("?"), required=not word.endswith("?"))
        for number, word in enumerate(words.split())
    )


def types(**is_a: str) -> Types:
    """Types a to f, and which of them are others."""
    return Types(ArtifactType(name, is_a=tuple(is_a.get(name, "").split())) for name in "abcdef")


def runs(graph: Graph, chain: tuple[str, ...], have: tuple[str, ...], want: str) -> bool:
    """Whether these steps can run in that order, and what is wanted comes of what one has first."""
    there, begun = list(have), list(have[:1])
    for name in chain:
        each = graph.steps[name]
        if not all(any(graph.types.accepts(need, one) for one in there) for need in each.needs):
            return False
        if any(graph.types.accepts(read, one) for read in each.reads for one in begun):
            begun += each.makes
        there += each.makes
    return any(graph.types.accepts(want, one) for one in (begun if have else there))


def by_trying(graph: Graph, have: tuple[str, ...], want: str) -> set[frozenset[str]]:
    """The smallest sets of steps of which some order leads there."""
    if any(graph.types.accepts(want, one) for one in have):
        return {frozenset()}
    for count in range(len(graph.steps) + 1):
        sets = (frozenset(chosen) for chosen in combinations(graph.steps, count))
        found = {chosen for chosen in sets if any(runs(graph, order, have, want) for order in permutations(chosen))}
        if found:
            return found
    return set()


PORTS = st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=3, unique_by=lambda p: p[0])


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to six steps over six types, some of which are others."""
    parents = {
        n: " ".join(draw(st.lists(st.sampled_from(b), max_size=2))) for n, b in zip("abcde", _behind(), strict=True)
    }
    words = [" ".join(n + "?" * optional for n, optional in draw(PORTS)) for _ in range(2 * draw(st.integers(1, 6)))]
    return Graph((step(f"s{i}", words[2 * i], words[2 * i + 1]) for i in range(len(words) // 2)), types(**parents))


def _behind() -> list[str]:
    return ["abcdef"[i + 1 :] for i in range(5)]


@settings(max_examples=400, deadline=None)
@given(graphs(), st.lists(st.sampled_from("abcdef"), max_size=3, unique=True), st.sampled_from("abcdef"))
def test_all_shortest_chains_are_found_and_nothing_else(graph, have, want):
    found = graph.chain(have, want)
    assert found.shortest
    assert {frozenset(chain) for chain in found.chains} == by_trying(graph, tuple(have), want)
    assert len(found.chains) == len({frozenset(chain) for chain in found.chains})
    assert all(runs(graph, chain, tuple(have), want) for chain in found.chains if chain)


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_links_join_an_output_to_an_input_that_takes_it_the_narrowest_first(graph):
    for one in graph.steps.values():
        for other in graph.steps.values():
            made = {item.name: item for item in one.produces}
            wanted = {item.name: item for item in other.consumes}
            links = [(made[a].type, wanted[b].type) for a, b in graph.links(one.id, other.id)]
            assert all(graph.types.accepts(b, a) for a, b in links)
            assert len(links) == sum(
                graph.types.accepts(b.type, a.type) for a in made.values() for b in wanted.values()
            )
            exact = [a == b for a, b in links]
            assert exact == sorted(exact, reverse=True)


def test_an_optional_input_leads_there_and_is_never_needed():
    graph = Graph([step("train", "a", "b"), step("eval", "b? c?", "d")], types())
    assert graph.chain(["a"], "d").chains == (("train", "eval"),)
    assert graph.chain([], "d").chains == (("eval",),)
    assert graph.chain(["a", "c"], "d").chains == (("train", "eval"),), "it begins with what is named first"
    assert graph.chain(["c", "a"], "d").chains == (("eval",),)


def test_all_required_inputs_are_made():
    graph = Graph([step("one", "a", "b"), step("two", "a", "c"), step("both", "b c", "d")], types())
    assert graph.chain(["a"], "d").chains == (("one", "two", "both"),)
    assert graph.chain(["a", "c"], "d").chains == (("one", "both"),)


def test_what_is_made_only_of_itself_is_made_by_nobody():
    graph = Graph([step("one", "a b", "c"), step("two", "c", "b"), step("three", "f", "a")], types())
    found = graph.chain(["a"], "c")
    assert found.chains == ()
    assert graph.unreachable() == ["one", "two"]
    assert graph.cycles() == [["one", "two"]]


def test_where_nothing_leads_the_types_that_nobody_makes_are_named():
    graph = Graph([step("one", "a e", "b"), step("two", "b", "c")], types())
    found = graph.chain(["a"], "c")
    assert (found.chains, found.missing) == ((), ("e",))


def test_what_one_has_may_be_what_one_wants():
    assert Graph([], types(a="b")).chain(["a"], "b").chains == ((),)
    assert Graph([], types(a="b")).chain(["b"], "a").missing == ("a",)


def test_several_chains_that_are_as_short_are_all_given_those_without_optional_outputs_first():
    graph = Graph([step("x", "a", "b?"), step("y", "a", "b"), step("z", "a", "c b")], types())
    assert graph.chain(["a"], "b").chains == (("y",), ("z",), ("x",))


def test_an_unknown_type_is_refused():
    with pytest.raises(UserError, match="no type 'g'"):
        Graph([], types()).chain(["g"], "a")


def test_a_search_ends():
    """Sums of thirds: exact cover hides in it, so that the search gives up, and gives what it found by then."""
    names = [f"t{i}" for i in range(40)]
    steps = [
        step(f"s{i}_{k}", "start", f"t{i} t{(i * 7 + k) % 40} t{(i * 3 + 5 * k) % 40}")
        for i in range(40)
        for k in range(6)
    ]
    graph = Graph([*steps, step("all", " ".join(names), "end")], Types(map(ArtifactType, [*names, "start", "end"])))
    found = graph.chain(["start"], "end")
    assert found.visited <= VISITS
    assert not found.shortest
    assert runs(graph, found.chains[0], ("start",), "end")
