"""A long chain of `extends` is read once, section by section."""

from __future__ import annotations

import pytest

from nemo_runspec.doctor.envcheck import check_env_file
from nemo_runspec.profiles import profile
from nemo_runspec.profiles.envfile import load_env_file
from nemo_runspec.profiles.profile import resolve_profile


@pytest.fixture
def chain(tmp_path):
    file = tmp_path / "env.toml"
    head = '[p0]\nexecutor = "slurm"\naccount = "a"\npartition = "b"\nenv_vars = { A = "0" }\n'
    rest = (
        f'[p{i}]\nextends = "p{i - 1}"\nnodes = {i}\nbogus{i} = 1\nenv_vars = {{ B{i % 3} = "{i}" }}\n'
        for i in range(1, 60)
    )
    file.write_text(head + "".join(rest))
    return load_env_file(file)


def test_every_section_is_read_once(chain, monkeypatch):
    read = []
    monkeypatch.setattr(profile, "read_section", lambda *a, f=profile.read_section: (read.append(a[1]), f(*a))[1])
    report = check_env_file(chain)
    assert len(read) == len(set(read)) == 60
    assert len([e for e in report.errors if "bogus" in e.what]) == 59


def test_values_and_sources_are_those_of_the_chain(tmp_path):
    file = tmp_path / "env.toml"
    file.write_text(
        '[a]\nnproc_per_node = 2\nenv_vars = { X = "1" }\n[b]\nextends = "a"\n[c]\nextends = "b"\nnproc_per_node = 3\n'
    )
    env = load_env_file(file)
    for name in ("c", "a", "b", "c"):  # in any order, and twice
        found = resolve_profile(env, name)
        assert found.values == {"nproc_per_node": 3 if name == "c" else 2, "env_vars": {"X": "1"}}
        assert found.sources["env_vars.X"].inherited is (name != "a")
        assert found.sources["nproc_per_node"].inherited is (name == "b")
