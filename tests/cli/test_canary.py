"""A secret in every place one can be put; then no byte of it in anything the tool shows, writes or starts.

Every place has a value of its own, so that a failure says which one leaked. What the user wrote (the env file, the
login files) holds the values, of course; everything else is searched.
"""

from __future__ import annotations

import base64
import json
import secrets
import signal
import stat
from pathlib import Path
from urllib.parse import quote

import pytest
from support import ENV_TOML, HEADER, Project, contents, start
from waiting import until

CANARY = "canary"
MARK = f"-7Hq{secrets.token_hex(4)}"
"""In every value, and in no process of another run of these tests on this machine."""
VALUES = {
    place: f'{CANARY}-{place.replace("_", "-")}{MARK}/9+x=Zw"{number}'
    for number, place in enumerate(
        (
            "environment",
            "listed",
            "env_vars",
            "netrc",
            "token_file",
            "client_secret",
            "argv",
            "argv_client_secret",
            "literal",
            "around",
            "argument",
        )
    )
} | {"signature": f"canary-signature{MARK}9xZw"}

PRINTING = """\
import base64, binascii, json, os, subprocess, sys, time, urllib.parse
names = ("HF_TOKEN", "WANDB_API_KEY", "MY_OWN", "NGC_API_KEY", "MY_PASSWORD", "PGPASSWORD")
values = {name: os.environ.get(name, "") for name in names}
if "--token" in sys.argv:
    values["argument"] = sys.argv[sys.argv.index("--token") + 1]
print("lengths", {name: len(value) for name, value in values.items()}, flush=True)
for name, value in values.items():
    print("stdout", name, value, flush=True)
    print("stderr", name, value, file=sys.stderr, flush=True)
    print("quoted", urllib.parse.quote(value), repr(value), repr([value + "'"]), repr(value.encode()))
    print(json.dumps({"v": value}), json.dumps(json.dumps(value)), urllib.parse.quote_plus(value).lower())
    print(binascii.hexlify(value.encode()), value.encode().hex().upper(), urllib.parse.urlencode({"v": value}))
    for start in range(3):
        part = b"me:"[:start] + value.encode() + b"!"
        print(base64.b64encode(part).decode(), base64.urlsafe_b64encode(part).decode())
    sys.stdout.write("in two " + value[:10]); sys.stdout.flush(); time.sleep(0.05); sys.stdout.write(value[10:] + "\\n")
    sys.stdout.write("\\rprogress " + value + "\\r\\n")
    subprocess.run(["printenv", name])
    subprocess.run(["bash", "-c", "set -x; : \\"${!1-}\\"", "-", name], stderr=sys.stdout)
    sys.stdout.flush()
sys.stdout.write("no line end " + values["HF_TOKEN"])
sys.stdout.flush()
if "wait" in sys.argv:
    open(os.environ["GO_FILE"], "w").close()
    time.sleep(600)
if "raise" in sys.argv:
    raise ValueError(values["HF_TOKEN"])
"""


@pytest.fixture
def place(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Puts every value into its place."""
    netrc = project.home / ".netrc"
    netrc.write_text(f"machine api.wandb.ai login user password {VALUES['netrc']}\n", encoding="utf-8")
    netrc.chmod(0o600)
    token = project.home / ".cache" / "huggingface" / "token"
    token.parent.mkdir(parents=True)
    token.write_text(VALUES["token_file"], encoding="utf-8")
    secret = json.dumps(VALUES["client_secret"])
    text = ENV_TOML.replace("client_secret = \"${oc.env:DGX_CLIENT_SECRET,''}\"", f"client_secret = {secret}")
    for section in ("base-slurm", "laptop", "box", "runai", "lepton"):
        variables = f'env_vars = {{ NGC_API_KEY = {json.dumps(VALUES["env_vars"])}, PLAIN = "1" }}'
        variables = variables.replace(" }", f", MY_PASSWORD = {json.dumps(VALUES['literal'])} }}")
        text = text.replace(f"[{section}]\n", f'[{section}]\nsecrets = ["MY_OWN"]\n{variables}\n')
    project.write("env.toml", text)
    project.extra["MY_OWN"] = VALUES["listed"]
    monkeypatch.setenv("MY_OWN", VALUES["listed"])
    project.extra["PGPASSWORD"] = VALUES["around"]
    project.recipe("mine/train", header=HEADER, default="value: 1\n", body=PRINTING)
    return project


def forms(value: str) -> list[bytes]:
    """The value itself, and the ways it may be written in JSON, YAML, a URL and a shell script, in base64 and hex."""
    texts = [
        value,
        value.replace('"', '\\"'),
        value.replace('"', '\\\\\\"'),
        quote(value, safe=""),
        quote(value).lower(),
    ]
    return [*(text.encode() for text in texts), *encoded(value.encode())]


def encoded(value: bytes) -> list[bytes]:
    """Its middle in base64, wherever it begins in what is encoded, and in hex; a part of one is one too many."""
    found = [value[6:-6].hex().encode(), value[6:-6].hex().upper().encode()]
    for number in range(3):
        middle = base64.b64encode(b"x" * number + value)[4:-4]
        found += [middle, middle.translate(bytes.maketrans(b"+/", b"-_"))]
    return found


def leaks(data: bytes) -> list[str]:
    found = [place for place, value in VALUES.items() if any(form in data for form in forms(value))]
    return found or (["a part of one"] if MARK.encode() in data else [])


def leaks_in_files(project: Project) -> dict[str, list[str]]:
    written = {project.home / ".netrc", project.home / ".cache" / "huggingface" / "token", project.env_file}
    files = {f: content for f, content in contents(project.home, project.folder).items() if f not in written}
    return {str(f): found for f, content in files.items() if (found := leaks(content) or leaks(str(f).encode()))}


def clean(outcome) -> None:
    assert leaks(outcome.out.encode()) == []
    assert leaks(outcome.err.encode()) == []


OVERRIDES = {
    "my-cluster": ["+run.env.env_vars.HF_TOKEN='{argv}'"],
    "base-slurm": [],
    "laptop": ["run.env.env_vars.HF_TOKEN='{argv}'"],
    "box": ["run.env={{env_vars:{{HF_TOKEN:'{argv}'}}}}"],
    "runai": ["run.env.client_secret='{argv_client_secret}'"],
    "lepton": ["++run.env.env_vars.HF_TOKEN='{argv}'"],
}


@pytest.mark.slow
@pytest.mark.parametrize("profile", list(OVERRIDES))
def test_dry_runs(place, nemotron_process, profile):
    overrides = [text.format(**VALUES) for text in OVERRIDES[profile]]
    words = ["mine", "train", "--run", profile, *overrides]
    shown = nemotron_process(*words, "--dry-run", "--out", "plan.json").succeeds()
    clean(shown)
    assert "NGC_API_KEY" in shown.out
    assert "(secret)" in shown.out
    for view in (["--json"], ["--full"], ["--script"], ["--cfg", "job"]):
        clean(nemotron_process(*words, "--dry-run", *view).succeeds())
    clean(nemotron_process(*words, "-m", "value=1,2", "--dry-run", "--json").succeeds())
    clean(nemotron_process("apply", "--dry-run", "plan.json").succeeds())
    if profile != "laptop":
        clean(nemotron_process(*words))
    assert leaks_in_files(place) == {}


@pytest.mark.slow
def test_other_commands(place, nemotron_process):
    for words in (
        ["env", "list"], ["env", "check"], ["env", "check", "--json"], ["nano3", "pretrain", "--help"], ["list"],
        *(["env", "show", profile, *json_] for profile in OVERRIDES for json_ in ([], ["--json"])),
    ):  # fmt: skip
        clean(nemotron_process(*words))
    assert leaks_in_files(place) == {}


MISTAKES = [
    ["run.env.nodse=2"],
    ["run.env.env_vars.HF_TOKEN={argv}"],
    ["run.env.env_vars.HF_TOKEN=[{argv}"],
    ["run.env.client_secret=[{argv}"],
    ["run.env.client_sceret='{argv}'"],
    ["--hf-token", "{argv}"],
    ["--api-key={argv}"],
    ["value='{listed}'"],
    ["+api_key='{argv}'"],
    ["run.env.startup_commands=['x {listed}']"],
    ["--run", "{listed}"],
    ["-c", "{listed}"],
    ["--", "{listed}"],
    ["--", "--hf-token={argv}"],
    ["--", "--token", "{argument}"],
    ["--", "--db=postgres://me:{argument}@db/x"],
    ["value='https://b.s3/x?X-Amz-Signature={signature}'"],
    ["value='postgres://me:{signature}@db/x'"],
    ["run.env.startup_commands=['login --token {signature}']"],
    ["value=${{oc.env:PGPASSWORD}}"],
    ["value='{around}'"],
    ["run.env.nodse=2", "--", "--header", "Authorization: Bearer {argument}"],
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "mistake"),
    [
        *(("my-cluster", mistake) for mistake in MISTAKES),
        *(("runai", mistake) for mistake in MISTAKES if mistake[0].startswith("run.env")),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_messages_about_mistakes(place, nemotron_process, profile, mistake):
    words = [word.format(**VALUES) for word in mistake]
    outcome = nemotron_process(
        "mine", "train", "--dry-run", *(["--run", profile] if "--run" not in words else []), *words
    )
    assert outcome.code in (0, 2)
    known = {"value='{listed}'", "--run", "-c"}  # a value typed where no secret is looked for is what it is
    if not known & set(mistake):
        clean(outcome)
    assert leaks_in_files(place) == {}


@pytest.mark.slow
def test_a_signature_in_a_config_is_not_shown(place, nemotron_process):
    """What the job reads it must have; nobody else is shown it."""
    url = f"postgres://me:{VALUES['signature']}@db/x"
    words = ["mine", "train", "--run", "my-cluster", f"value='{url}'", "--dry-run"]
    for options in ([], ["--json"]):
        shown = nemotron_process(*words, *options).succeeds()
        clean(shown)
        assert "postgres://me:******@db/x" in shown.out


@pytest.mark.slow
def test_mistakes_in_the_env_file(place, nemotron_process):
    """A wrong type, an unknown key, a syntax error beside a secret: the message repeats none."""
    good = place.env_file.read_text(encoding="utf-8")
    secret = json.dumps(VALUES["client_secret"])
    for line in (
        f"client_secret = [{secret}]", f"client_secret = {{ a = {secret} }}", f"client_secret = {secret} {secret}",
        f"client_secret = {secret[:-1]}", f"client_sceret = {secret}", f"hf_token = {secret}",
    ):  # fmt: skip
        place.write("env.toml", good.replace(f"client_secret = {secret}", line))
        for words in (["env", "check"], ["mine", "train", "--run", "runai", "-d"], ["env", "show", "runai"]):
            outcome = nemotron_process(*words)
            assert outcome.code == 2
            clean(outcome)


def jobs_of(project: Project) -> list[Path]:
    return sorted((project.state / "jobs").iterdir())


@pytest.mark.slow
def test_a_real_run(place, nemotron_process):
    """The script prints its secrets in every way it can: it got them, and nobody else sees them."""
    extra = ["--", "--token", "{argument}", "--url=https://b.s3/x?X-Amz-Signature={signature}"]
    for words in ([], ["run.env.env_vars.HF_TOKEN='{argv}'", *extra], ["run.env.nproc_per_node=2"]):
        overrides = [word.format(**VALUES) for word in words]
        outcome = nemotron_process("mine", "train", "--run", "laptop", *overrides).succeeds()
        clean(outcome)
        text = outcome.out + outcome.err
        used = {
            "HF_TOKEN": VALUES["argv" if "HF_TOKEN" in str(words) else "token_file"],
            "WANDB_API_KEY": VALUES["netrc"],
        }
        used |= {"MY_OWN": VALUES["listed"], "NGC_API_KEY": VALUES["env_vars"]}
        used |= {"MY_PASSWORD": VALUES["literal"], "PGPASSWORD": VALUES["around"]}
        used |= {"argument": VALUES["argument"]} if "--token" in words else {}
        assert str({name: len(value) for name, value in used.items()}) in text
        assert "******" in text
    assert leaks_in_files(place) == {}
    for job in jobs_of(place):
        assert stat.S_IMODE(job.stat().st_mode) == 0o700
    for words in (
        ["jobs", "list"],
        ["jobs", "show", "last"],
        ["jobs", "show", "last", "--json"],
        ["diff", "last", "last"],
    ):
        clean(nemotron_process(*words))


def test_a_run_that_fails(place, nemotron_process):
    outcome = nemotron_process("mine", "train", "--run", "laptop", "--", "raise")
    assert outcome.code == 1
    clean(outcome)
    assert "ValueError: ******" in outcome.out + outcome.err
    assert leaks_in_files(place) == {}


@pytest.mark.slow
def test_apply(place, nemotron_process):
    nemotron_process("mine", "train", "--run", "laptop", "--dry-run", "--out", "plan.json").succeeds()
    outcome = nemotron_process("apply", "plan.json").succeeds()
    clean(outcome)
    assert f"'NGC_API_KEY': {len(VALUES['env_vars'])}" in outcome.out + outcome.err
    assert leaks_in_files(place) == {}


@pytest.mark.slow
def test_the_command_line_of_an_attached_run(place, tmp_path):
    """It holds a secret under a secret's name, and one under a name that only the profile knows."""
    go = tmp_path / "go"
    words = [f"+run.env.env_vars.MY_OWN='{VALUES['argv']}'", f"run.env.env_vars={{HF_TOKEN:'{VALUES['argv']}'}}"]
    child = start(place, "mine", "train", "--run", "laptop", *words, "--", "wait", cold=True, GO_FILE=str(go))
    try:
        until(lambda: go.exists() or child.poll() is not None, "its start")
        assert go.exists(), child.communicate()
        assert command_lines_with_leaks() == []
        shown = Path(f"/proc/{child.pid}/cmdline").read_bytes()
        assert b"mine train --run laptop" in shown
    finally:
        child.terminate()
        out, err = child.communicate(timeout=120)
    assert leaks((out + err).encode()) == []


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_processes_and_files_while_it_runs_and_after_it_is_stopped(place, tmp_path, ending):
    go = tmp_path / "go"
    child = start(place, "mine", "train", "--run", "laptop", "--", "wait", cold=True, GO_FILE=str(go))
    try:
        until(lambda: go.exists() or child.poll() is not None, "its start")
        assert go.exists(), child.communicate()
        assert command_lines_with_leaks() == []
        readable = {
            f: found for f, found in leaks_in_files(place).items() if stat.S_IMODE(Path(f).stat().st_mode) != 0o600
        }
        assert readable == {}
    finally:
        child.send_signal(ending)
        out, err = child.communicate(timeout=120)
    assert leaks((out + err).encode()) == []
    assert leaks_in_files(place) == {}


def command_lines_with_leaks() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        if leaks(data):
            found.append(data.decode(errors="replace"))
    return found
