"""The dry run is a page: short, each fact once with its source, and each line of a text as it would be sent."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator

import pytest
from support import PROFILES, REPOSITORY

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import Program, RenderedFile, Rendering, common_ranges
from nemo_runspec.digests import digest_of_text
from nemo_runspec.planning.codec import load_plan
from nemo_runspec.submission.layout import job_files
from nemotron.cli.dry_run import files
from nemotron.cli.dry_run.full import full
from nemotron.cli.dry_run.page import page
from nemotron.cli.dry_run.rows import PageRow, aligned

TINY = ("nano3", "pretrain", "-c", "tiny")
MOST, WIDTH = 120, 120
"""Lines of the page of a job, on a terminal that is so wide."""
HEADING = re.compile(r"--- .+: (\S+?)(?:, its own (\d+) of (\d+) lines?, sha256 ([0-9a-f]{12}))? ---")
LONG = re.compile(r"--- line (\d+): [\d,]+ characters, sha256 ([0-9a-f]{12}) ---")


@pytest.fixture
def shown(project, nemotron):
    """`shown(profile, *words)`: the plan of one dry run, and a function that shows it again in some view."""

    def make(profile, *words):
        chosen = ("--run", profile) if profile else ()
        nemotron(*TINY, *chosen, *words, "--dry-run", "--out", "plan.json").succeeds()
        plan = load_plan(project.folder / "plan.json")
        rendering = get_backend(plan.executor).make_rendering(plan)
        return plan, rendering, lambda *view: nemotron("apply", "plan.json", "--dry-run", *view).succeeds().out

    return make


def rows_of(text: str) -> dict[str, str]:
    """The table: key → value and source."""
    rows = text.partition("\nvalues\n")[2].partition("\n\n")[0].splitlines()
    found = [row.strip().partition(" = ") for row in rows if " = " in row]
    keys = [key.strip() for key, _, _ in found]
    assert len(keys) == len({*keys}), "no key twice"
    return {key.strip(): value.strip() for key, _, value in found}


def texts_of(text: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    """Heading and lines of each text."""
    parts = re.split(
        r"^(--- .+: \S+(?:, its own .*)? ---|--- started with ---|by name and digest .*)\n", text, flags=re.M
    )
    for head, body in zip(parts[1::2], parts[2::2], strict=True):
        match = HEADING.fullmatch(head)
        if match:
            yield match, body.removesuffix("\n\n").split("\n")


def assert_is_of(head: re.Match[str], lines: list[str], file: RenderedFile) -> None:
    """Each line is the file's own, in its order; what is left out is idle or common; all of it has a digest."""
    every = file.text.rstrip("\n").split("\n")
    _, shown, total, digest = head.groups()
    assert (int(shown or len(every)), int(total or len(every))) == (len(lines), len(every))
    assert digest_of_text(file.text).startswith(digest or "")
    common = {every[number] for first, end in file.common for number in range(first, min(end, len(every)))}
    at = -1
    for line in lines:
        long = LONG.fullmatch(line)
        if long:
            at, line = int(long[1]) - 1, every[int(long[1]) - 1]
            assert digest_of_text(line).startswith(long[2])
            continue
        before = at + 1
        at = every.index(line, before)
        assert all(skipped in common or is_idle(skipped, file) for skipped in every[before:at]), file.name
    assert all(skipped in common or is_idle(skipped, file) for skipped in every[at + 1 :])


def is_idle(line: str, file: RenderedFile) -> bool:
    """Whether it is empty, or in bash a comment, a shell option, an empty value. `#SBATCH` is none of these."""
    words = line.split()
    if not words or file.language != "bash":
        return not words
    is_option = len(words) > 1 and words[0] == "set" and words[1][0] in "-+"
    return is_option or words[0] in ("#", "##") or words[0].startswith("#!") or line.endswith(("=''", "=()"))


@pytest.mark.parametrize("profile", [None, *PROFILES])
def test_what_is_shown_is_what_is_sent(shown, profile):
    """The page, all of it, and the text alone: byte for byte, or by digest."""
    _, rendering, show = shown(profile)
    by_name = {file.name: file for file in rendering.files}
    text = show()
    found = [*texts_of(text)]
    for head, lines in found:
        assert_is_of(head, lines, by_name[head[1]])
    for name in by_name.keys() - {head[1] for head, _ in found}:
        digest = digest_of_text(by_name[name].text)[:12]
        assert re.search(rf"^  {re.escape(name)} .* lines?, sha256 {digest}$", text, re.M), name
    everything = show("--full")
    for file in rendering.files:
        assert f": {file.name} ---\n{file.text}" in everything
    assert show("--script") == rendering.sent_file.text


def test_each_text_alone(shown, nemotron):
    """The one that a platform gets: sbatch's script, the body of a request, what bash runs."""
    sent = {
        "my-cluster": "_sbatch.sh",
        "lepton": "job.json",
        "runai": "job.json",
        "box": "container.json",
        None: "job.sh",
    }
    for profile, name in sent.items():
        assert shown(profile)[1].sent_file.name.endswith(name), profile


@pytest.mark.parametrize("profile", PROFILES)
def test_it_is_a_page(shown, project, profile):
    _, _, show = shown(profile)
    text = show().replace(str(project.home), "/home/me")
    assert rows_at(WIDTH, text.splitlines()) <= MOST, text


def rows_at(width: int, lines: Iterable[str]) -> int:
    """How many rows of a terminal they take."""
    return sum(max(1, -(-len(line) // width)) for line in lines)


def test_its_order(shown):
    _, _, show = shown("lepton", "run.wandb.entity=YOUR-TEAM")
    text = show()
    order = (
        "nano3/pretrain, config tiny", "wrong or missing", "holes: ", "values", "what travels", "cost  ",
        "--- payload: ", "by name and digest", "--- started with", "Dry run: ",
    )  # fmt: skip
    places = [f"\n{text}".index(f"\n{words}") for words in order]
    assert places == sorted(places)


def test_what_is_wrong_comes_first(project, nemotron):
    project.write("env.toml", project.env_file.read_text().replace('"acme"', '"YOUR-ACCOUNT"'))
    text = nemotron(*TINY, "--run", "my-cluster", "--dry-run").succeeds().out
    after = text.splitlines()[3:5]
    assert after == [
        "wrong or missing",
        "  before submission: account is still a placeholder: 'YOUR-ACCOUNT' (env.toml:10 [base-slurm])",
    ]


def test_an_input_that_is_missing_is_wrong(project, nemotron):
    out = nemotron(*TINY, "run.data.path=/nowhere", "run.data.make=null", "--dry-run").succeeds().out
    assert "wrong or missing\n  before submission: input 'data' is missing: /nowhere\n" in out
    assert "before submission" not in nemotron(*TINY, "--dry-run").succeeds().out, "it would be made"


def test_a_profile_of_another_folder_is_named_with_its_file(project, nemotron, monkeypatch):
    inner = project.write("below/it", "").parent
    monkeypatch.chdir(inner)
    out = nemotron(*TINY, "--run", "my-cluster", "--dry-run").succeeds().out
    assert out.startswith(f"nano3/pretrain, config tiny on profile my-cluster of {project.env_file} (slurm, run)\n")
    assert rows_of(out)["run.env.nodes"].split() == ["4", "env.toml:18", "[my-cluster]"]


def test_the_value_that_decides_has_its_row(shown):
    rows = rows_of(shown("my-cluster")[2]())
    assert rows["run.env.run_partition"].split() == ["interactive", "env.toml:17", "[my-cluster]"]
    assert rows["run.env.time"].split() == ["04:00:00", "env.toml:11", "[base-slurm]"]
    assert "run.env.partition" not in rows
    typed = rows_of(shown("my-cluster", "run.env.partition=mine")[2]())
    assert typed["run.env.partition"].split() == ["mine", "command", "line"]
    assert "run.env.run_partition" not in typed


def test_the_other_modes_keys_decide_nothing(project, nemotron):
    text = project.env_file.read_text().replace("run_partition", 'batch_partition = "night"\nrun_partition')
    project.write("env.toml", text)
    found = [rows_of(nemotron(*TINY, way, "my-cluster", "-d").succeeds().out) for way in ("--run", "--batch")]
    assert [[key for key in rows if "partition" in key] for rows in found] == [
        ["run.env.run_partition"],
        ["run.env.batch_partition"],
    ]


def test_keys_of_builds_decide_nothing_elsewhere(project, nemotron):
    own = 'build_partition = "interactive"\nbuild_cache_dir = "/lustre/c"\nrun_command = "true"\n'
    project.write("env.toml", project.env_file.read_text().replace("run_partition", f"{own}run_partition"))
    train = rows_of(nemotron(*TINY, "--run", "my-cluster", "-d").succeeds().out)
    assert [key for key in train if "build" in key or "partition" in key] == ["run.env.run_partition"]
    assert "run.env.run_command" in train
    build = rows_of(nemotron("omni3", "build", "sft", "--run", "my-cluster", "-d").succeeds().out)
    assert [key for key in build if "partition" in key] == ["run.env.build_partition"]
    assert "run.env.build_cache_dir" in build


@pytest.mark.parametrize("profile", PROFILES)
def test_sources_are_short(shown, profile):
    text = shown(profile)[2]()
    table = text.partition("\nvalues\n")[2].partition("\n\n")[0]
    assert "site-packages" not in text
    assert str(REPOSITORY) not in text
    assert "tiny.yaml:" in table
    assert "train.py:" in table or profile in ("box", "runai", "lepton"), "the recipe's image"
    assert "via extends" not in table


def test_two_files_of_one_name_are_told_apart(project, nemotron):
    project.recipe("mine/train", default="defaults: [group@a: one, other@b: one]\n")
    for group in ("group", "other"):
        project.write(f"recipes/mine/train/config/{group}/one.yaml", "x: 1\n")
    out = nemotron("mine", "train", "-d").succeeds().out
    assert "and of the config 1 value as in group/one.yaml, 1 value as in other/one.yaml\n" in out


def test_values_of_the_recipes_files_are_counted(shown):
    plan, _, show = shown("my-cluster", "train.train_iters=7", "~logger")
    rows = rows_of(show())
    assert rows["train.train_iters"].split() == ["7", "command", "line"]
    assert rows["~logger"].split() == ["(taken", "away)", "command", "line"]
    assert not {"model.hidden_size", "optimizer.lr"} & rows.keys()
    [number] = re.findall(r"^  and of the config (\d+) values as in tiny.yaml$", show(), re.M)
    assert int(number) == sum(plan.sources[path].layer.value == "yaml" for path in plan.sources if path[:4] != "run.")


def test_secrets_and_arguments_have_rows(project, nemotron):
    text = project.env_file.read_text().replace("[laptop]", '[laptop]\nsecrets = ["MY_TOKEN"]')
    project.write("env.toml", text)
    rows = rows_of(nemotron(*TINY, "--run", "laptop", "-d", "--", "--lr", "a b").succeeds().out)
    assert "MY_TOKEN" not in rows, "it is missing"
    assert rows["arguments"].startswith("--lr 'a b'")


def test_holes_are_named_with_their_place(shown):
    _, rendering, show = shown("runai")
    lines = rendering.sent_file.text.splitlines()
    for name, place in re.findall(r"^  ([A-Z_]+) +job\.json:(\d+)  ", show(), re.M):
        assert f'"{name}"' in lines[int(place) - 1]
    assert "holes: filled when it is submitted; --resolve asks its platform now" in show()
    assert "\nholes" not in shown("my-cluster")[2]()


def test_programs_are_named_by_version_and_digest(shown):
    plan, rendering, _ = shown("my-cluster")
    programs = (Program("supervisor.pyz", "1.2.3", "ab" * 32, 412_345), Program("start.sh", "1", "cd" * 32, 900))
    rendering = Rendering(rendering.files, rendering.command, programs=programs, sent=rendering.sent)
    [line] = [line for line in full(plan, rendering).splitlines() if "supervisor.pyz" in line]
    assert line.split() == ["supervisor.pyz", "1.2.3", "412.3", "kB,", "sha256", "abababababab"]
    assert "same for all jobs: supervisor.pyz abababababab, start.sh cdcdcdcdcdcd\n" in page(
        plan, rendering, width=None
    )


def test_a_platform_that_gets_no_text(shown):
    plan, rendering, _ = shown("lepton")
    bare = Rendering((), ("submit", "it"))
    assert bare.sent_file is None
    for text in (page(plan, bare, width=None), full(plan, bare)):
        assert "--- started with ---\nsubmit it\n" in text
    assert rendering.sent_file.name == "job.json"


def test_any_text_is_shown_line_by_line_or_by_digest():
    """Over random texts, with lines that are the same in every job and lines that are far too long."""
    some = random.Random(15)
    template = ["set -e", "exit 1", "fi"]
    for _ in range(300):
        own = [
            "",
            "own\t ",
            "# note",
            "#!/bin/sh",
            "set +u",
            "x=''",
            "  y=()",
            "x='' z",
            "#SBATCH --x",
            "x" * 1001,
            *template,
        ]
        lines = [some.choice(own) for _ in range(some.randrange(1, 90))]
        text = "\n".join(lines) + some.choice(["", "\n"])
        file = RenderedFile("text", "a.sh", text, common=common_ranges(text, "\n".join(template)))
        rendering = Rendering((file,), ())
        if files.is_on_page(file):
            first, *shown = files.excerpt(file, rendering)
            assert_is_of(HEADING.fullmatch(first), shown, file)
        else:
            [line] = files.by_digest(rendering)
            assert line.endswith(digest_of_text(text)[:12])


def test_a_source_that_does_not_fit_stands_below():
    rows = [
        PageRow("key", "value", "env.toml:4 [base]"),
        PageRow("other", "v" * 40, "env.toml:5 [base]", "a note " * 9),
    ]
    wide, narrow = aligned(rows), aligned(rows, 60)
    assert wide[1].endswith("v  env.toml:5 [base]")
    assert narrow[1:3] == [f"  other = {'v' * 40}", " " * 10 + "env.toml:5 [base]"]
    assert max(map(len, narrow)) <= 60


# --- the options


def test_full_script_and_json_exclude_each_other(project, nemotron):
    nemotron(*TINY, "-d", "--full", "--script").refuses("--full and --script exclude each other", "keep one")
    nemotron(*TINY, "-d", "--json", "--cfg", "job").refuses("--json and --cfg exclude each other")
    nemotron("apply", "p.json", "-d", "--full", "--script").refuses()


@pytest.mark.parametrize("option", ["--full", "--script"])
def test_they_belong_to_a_dry_run_of_one_job(project, nemotron, option):
    nemotron(*TINY, option).refuses(f"{option} belongs to --dry-run here", "add --dry-run")
    nemotron("apply", "plan.json", option).refuses(f"{option} belongs to --dry-run here")
    nemotron(*TINY, "-m", "rng.seed=1,2", "-d", option).refuses(f"{option} shows one job, and -m makes several")
    assert not project.state.exists()


def test_the_composed_config_alone(project, nemotron):
    """As Hydra's flag of that name: it shows what the script would read, and does nothing."""
    shown = nemotron(*TINY, "--run", "my-cluster", "rng.seed=7", "--cfg", "job").succeeds()
    nemotron(*TINY, "--run", "my-cluster", "rng.seed=7", "-d", "--out", "plan.json").succeeds()
    plan = load_plan(project.folder / "plan.json")
    rendering = get_backend(plan.executor).make_rendering(plan)
    other = re.search(r"output_dir: \S+/(\S+)", shown.out)[1]
    assert shown.out.replace(other, plan.name) == job_files(plan, rendering)["train.yaml"]
    assert shown.err == ""
    assert not project.state.exists()
    nemotron(*TINY, "--cfg", "hydra").refuses("--cfg hydra: there is 'job' alone")
    nemotron(*TINY, "--cfg").refuses()
    nemotron(*TINY, "-m", "rng.seed=1,2", "--cfg", "job").refuses("--cfg shows one job")


def test_the_script_is_all_there_is_on_standard_output(project, nemotron):
    shown = nemotron(*TINY, "--run", "runai", "-d", "--script").succeeds()
    assert shown.out.startswith("{\n")
    assert "nemotron: hole PROJECT_ID: the id of project team" in shown.err
    clean = nemotron(*TINY, "--run", "my-cluster", "-d", "--script").succeeds()
    assert clean.out.startswith("#!/bin/bash\n")


def test_what_is_optional_and_not_named_is_said_to_be_so(nemotron):
    page = nemotron("steps", "run", "byob/mcq", "-c", "tiny", "--dry-run").succeeds().out
    rows = [" ".join(line.split()) for line in page.splitlines()]
    reads = rows.index("reads benchmark = not named tiny.yaml:6")
    assert rows[reads + 1] == "may be left out"
    assert any(row.startswith("writes translated = not asked for") for row in rows)
