"""Repositories mounted into a job: the ref as the remote has it now, exactly one commit, one place for each job."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from support import git, make_repository

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.addresses import MountRequests, read_auto_mount
from nemo_runspec.packaging.mounts import provide_mounts
from nemo_runspec.plans.model import AutoMount


@pytest.fixture
def remote(tmp_path):
    folder = tmp_path / "remotes/my lib"
    folder.mkdir(parents=True)
    (folder / "lib.py").write_text("1\n")
    make_repository(folder)
    git(folder, "tag", "-a", "v1", "-m", "first")
    git(folder, "branch", "feature/x")
    return folder


def change(remote, text):
    (remote / "lib.py").write_text(text)
    git(remote, "commit", "--quiet", "-am", text)
    return git(remote, "rev-parse", "HEAD").strip()


def mount_of(remote, ref, tmp_path, job="job-1", target="/opt/lib"):
    return read_auto_mount(f"git+file://{remote}@{ref},{target}", job, lambda: tmp_path / "git")[0]


def provided(*mounts):
    return provide_mounts(mounts, lambda line: None)[0]


def head(mount):
    return git(Path(mount.path), "rev-parse", "HEAD").strip()


def content(mount):
    return (Path(mount.path) / "lib.py").read_text()


def test_branches_tags_and_commits(remote, tmp_path):
    first = git(remote, "rev-parse", "HEAD").strip()
    second = change(remote, "2\n")
    wanted = {"main": second, "v1": first, "feature/x": first, first: first, first[:10]: first, "HEAD": second,
              "refs/tags/v1": first, first.upper(): first, first[:10].upper(): first}  # fmt: skip
    for ref, commit in wanted.items():
        mount = provided(mount_of(remote, ref, tmp_path))
        assert (mount.commit, head(mount)) == (commit, commit), ref
    assert git(Path(mount.path), "remote", "get-url", "origin").strip() == f"file://{remote}"


def test_a_branch_is_what_the_remote_says_now(remote, tmp_path):
    one = provided(mount_of(remote, "main", tmp_path))
    change(remote, "2\n")
    two = provided(mount_of(remote, "main", tmp_path, job="job-2"))
    assert (content(one), content(two)) == ("1\n", "2\n"), "no job changes another's files"
    git(remote, "commit", "--quiet", "--amend", "-m", "rewritten")
    three = provided(mount_of(remote, "main", tmp_path, job="job-3"))
    assert three.commit == git(remote, "rev-parse", "HEAD").strip() != two.commit


@pytest.mark.parametrize("ref", ["no-such-branch", "0" * 40, "abcdef12"])
def test_a_ref_that_is_not_there(remote, tmp_path, ref):
    with pytest.raises(UserError) as raised:
        provided(mount_of(remote, ref, tmp_path))
    assert f"file://{remote} at {ref}" in raised.value.what
    assert not list((tmp_path / "git").rglob("lib.py"))
    assert not list((tmp_path / "git").glob("*/mirror.git")), "nothing is left of what could not be had"
    assert not list((tmp_path / "git").glob("*/jobs/*"))


def test_a_ref_that_is_not_there_leaves_a_mirror_that_was(remote, tmp_path):
    provided(mount_of(remote, "main", tmp_path))
    with pytest.raises(UserError):
        provided(mount_of(remote, "0" * 40, tmp_path, job="job-2"))
    assert [folder.name for folder in (tmp_path / "git").glob("*/jobs/*")] == ["job-1"]
    assert list((tmp_path / "git").glob("*/mirror.git"))


def test_a_branch_that_was_deleted_is_never_an_older_copy(remote, tmp_path):
    provided(mount_of(remote, "feature/x", tmp_path))
    git(remote, "branch", "-D", "feature/x")
    with pytest.raises(UserError, match="is not there"):
        provided(mount_of(remote, "feature/x", tmp_path, job="job-2"))


def test_without_the_remote_only_known_commits(remote, tmp_path):
    first = provided(mount_of(remote, "main", tmp_path))
    remote.rename(remote.with_name("away"))
    for ref in ("main", "v1", "1" * 40):
        with pytest.raises(UserError, match="cannot be had"):
            provided(mount_of(remote, ref, tmp_path, job="job-2"))
    by_commit = provided(mount_of(remote, first.commit, tmp_path, job="job-3"))
    again = provided(replace(mount_of(remote, "main", tmp_path, job="job-4"), commit=first.commit))
    assert content(by_commit) == content(again) == "1\n"


def test_a_retry_has_the_commit_it_had(remote, tmp_path):
    first = provided(mount_of(remote, "main", tmp_path))
    change(remote, "2\n")
    again = provided(replace(mount_of(remote, "main", tmp_path, job="job-2"), commit=first.commit))
    assert content(again) == "1\n"


def test_a_branch_and_a_tag_of_one_name(remote, tmp_path):
    git(remote, "branch", "both")
    change(remote, "2\n")
    git(remote, "tag", "both")
    with pytest.raises(UserError, match="both a branch and a tag"):
        provided(mount_of(remote, "both", tmp_path))
    assert content(provided(mount_of(remote, "refs/heads/both", tmp_path))) == "1\n"


def test_submodules_come_along(remote, tmp_path):
    outer = tmp_path / "remotes/outer"
    outer.mkdir()
    (outer / "x").write_text("")
    make_repository(outer)
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(remote), "inner lib")
    git(outer, "commit", "--quiet", "-m", "submodule")
    mount = provided(mount_of(outer, "main", tmp_path))
    assert (Path(mount.path) / "inner lib/lib.py").read_text() == "1\n"


PROVIDE = """
import json, sys
from nemo_runspec.packaging.mounts import provide_mounts
from nemo_runspec.plans.model import AutoMount
print(provide_mounts((AutoMount(**json.loads(sys.argv[1])),), lambda line: None)[0].commit)
"""


@pytest.mark.slow
def test_many_jobs_at_once(remote, tmp_path):
    mounts = [mount_of(remote, "main", tmp_path, job=f"job-{number}") for number in range(12)]
    words = [[sys.executable, "-c", PROVIDE, json.dumps(asdict(mount))] for mount in mounts]
    children = [subprocess.Popen(w, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for w in words]
    outputs = [child.communicate(timeout=600) for child in children]
    assert [child.returncode for child in children] == [0] * 12, outputs
    assert len({out for out, _ in outputs}) == 1
    assert [content(mount) for mount in mounts] == ["1\n"] * 12
    assert not list((tmp_path / "git").rglob(".checkout.*")) + list((tmp_path / "git").rglob(".mirror.*"))


@pytest.mark.parametrize(
    ("text", "url", "ref"),
    [
        ("git+https://host/team/lib.git@main,/x", "https://host/team/lib.git", "main"),
        ("git+https://host:8443/team/lib@feature/x,/x", "https://host:8443/team/lib", "feature/x"),
        ("git+ssh://git@host/team/lib@v1.0,/x", "ssh://git@host/team/lib", "v1.0"),
        ("git+git@host:team/lib.git@v1.0, /x", "git@host:team/lib.git", "v1.0"),
        ("git+/srv/git/lib@0123abcd,/x", "/srv/git/lib", "0123abcd"),
        ("git+file:///srv/a,b/lib@main,/x", "file:///srv/a,b/lib", "main"),
    ],
)
def test_addresses(text, url, ref):
    mount, written = read_auto_mount(text, "job-1", lambda: Path("/cache"))
    assert (mount.url, mount.ref, mount.target, written) == (url, ref, "/x", "/x")
    assert mount.path.startswith("/cache/lib-")
    assert "/jobs/job-1/" in mount.path


@pytest.mark.parametrize(
    "text",
    ["git+https://host/lib,/x", "https://host/lib@main,/x", "git+https://host/lib@main", "git+https://host/lib@main,x",
     "git+ext::sh@main,/x", "git+https://host/lib@--upload-pack=x,/x", "git+ssh://-oProxyCommand=x/lib@main,/x",
     "git+lib@main,/x", ""],
)  # fmt: skip
def test_what_is_no_address(text):
    with pytest.raises(UserError, match=r"not (a )?git\+URL@ref"):
        read_auto_mount(text, "job-1", lambda: Path("/cache"))


@pytest.mark.parametrize("user", ["me:hunter22", "hunter22"])
def test_credentials_are_refused_and_not_repeated(user):
    with pytest.raises(UserError, match="holds a token or a password") as raised:
        read_auto_mount(f"git+https://{user}@host/lib@main,/x", "job-1", lambda: Path("/cache"))
    assert "hunter22" not in str(raised.value)
    requests = MountRequests("job-1", lambda: Path("/cache"))
    requests(f"git+https://{user}@host/lib@main", "/x")
    assert requests.found == {}
    assert "hunter22" not in str(requests.problem)


def test_credentials_that_git_was_given_are_not_repeated(remote, tmp_path, monkeypatch):
    for number, (key, value) in enumerate({"url.https://me:hunter22@127.0.0.1:1/.insteadOf": "https://host/"}.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    mount = read_auto_mount("git+https://host/lib@main,/x", "job-1", lambda: tmp_path / "git")[0]
    with pytest.raises(UserError, match="cannot be had") as raised:
        provided(mount)
    assert "hunter22" not in str(raised.value)


def test_different_addresses_have_different_places():
    def place(url):
        return read_auto_mount(f"git+{url}@main,/x", "job-1", lambda: Path("/cache"))[0].path

    assert place("https://host/a/lib") != place("https://host/b/lib")


def test_nothing_to_mount():
    assert provide_mounts((), print) == ()
    assert AutoMount("u", "r", "p", "t").commit is None
