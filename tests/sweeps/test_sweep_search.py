"""Hydra's sweeper plugins: what is asked of them, and that the real Optuna plugin runs on our launcher."""

from __future__ import annotations

import logging

import pytest

from nemo_runspec.config.yaml_file import YamlChoice
from nemo_runspec.errors import UserError
from nemo_runspec.sweeps.plugin import Stopped, TrialResult, run_search
from nemo_runspec.sweeps.search import compose_search, first_value

pytestmark = pytest.mark.slow  # what it looks at takes seconds to import


OPTUNA = ("hydra/sweeper=optuna", "hydra.sweeper.n_trials=5", "hydra.sweeper.n_jobs=2", "hydra.sweeper.sampler.seed=1")


def lr_of(job):
    return float(next(text for text in job if text.startswith("lr=")).partition("=")[2])


def search(tmp_path, *overrides):
    return compose_search(overrides, None, tmp_path)


def batches_of(asked, tmp_path, trial=lambda job: TrialResult((lr_of(job) - 3) ** 2)):
    batches = []

    def launch(jobs):
        batches.append([list(job) for job in jobs])
        return [trial(job) for job in jobs]

    run_search(asked, launch, tmp_path / "sweeper.log")
    return batches


@pytest.mark.parametrize(
    "asked",
    ["lr=interval(0,10)", "hydra.sweeper.params.lr=interval(0,10)", "+hydra.sweeper.params.lr='interval(0,10)'"],
)
def test_optuna_chooses_in_batches(tmp_path, asked):
    made = search(tmp_path, *OPTUNA, asked, "steps=3")
    assert (made.name, made.trials, made.maximize, made.fixed) == ("optuna", 5, False, ("steps=3",))
    assert made.space == {"lr": "interval(0,10)"}
    batches = batches_of(made, tmp_path)
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert len({lr_of(job) for batch in batches for job in batch}) == 5
    assert all(len(job) == 1 for batch in batches for job in batch)  # what all have is not its business
    best = min(((lr_of(job) - 3) ** 2, lr_of(job)) for batch in batches for job in batch)[1]
    assert str(best) in (tmp_path / "optimization_results.yaml").read_text()


def test_keys_with_dots_stay_keys(tmp_path):
    made = search(tmp_path, *OPTUNA, "hydra.sweeper.params.train.lr=choice(1,2)", "a.b=choice(x,y)")
    assert made.space == {"train.lr": "choice(1,2)", "a.b": "choice(x,y)"}
    jobs = [job for batch in batches_of(made, tmp_path, lambda _: TrialResult(1.0)) for job in batch]
    assert all({text.partition("=")[0] for text in job} == {"train.lr", "a.b"} for job in jobs)


def test_the_direction_arrives(tmp_path):
    made = search(tmp_path, *OPTUNA, "lr=interval(0,10)", "hydra.sweeper.direction=maximize")
    assert made.maximize
    jobs = [job for batch in batches_of(made, tmp_path, lambda job: TrialResult(lr_of(job))) for job in batch]
    assert str(max(map(lr_of, jobs))) in (tmp_path / "optimization_results.yaml").read_text()


def test_a_failed_trial_does_not_end_the_search(tmp_path):
    made = search(tmp_path, *OPTUNA, "lr=interval(0,10)")
    seen = []

    def trial(job):
        seen.append(job)
        return TrialResult(problem="out of memory") if len(seen) == 2 else TrialResult(1.0)

    assert [len(batch) for batch in batches_of(made, tmp_path, trial)] == [2, 2, 1]


def test_unless_the_plugin_was_told_so(tmp_path):
    made = search(tmp_path, *OPTUNA, "lr=interval(0,10)", "hydra.sweeper.max_failure_rate=0")
    with pytest.raises(UserError, match="the sweeper 'optuna' has failed: out of memory"):
        batches_of(made, tmp_path, lambda _: TrialResult(problem="out of memory"))


def test_what_is_fixed_wins_over_the_plugins_own_parameters(tmp_path):
    made = search(tmp_path, *OPTUNA, "hydra.sweeper.params.lr=interval(0,10)", "lr=5")
    assert all(lr_of(job) == 5 for batch in batches_of(made, tmp_path) for job in batch)


def test_hydras_own_sweeper_in_batches(tmp_path):
    made = search(
        tmp_path, "hydra/sweeper=basic", "hydra.sweeper.max_batch_size=2", "hydra.sweeper.params.lr=1,2", "x=a,b,c"
    )
    batches = batches_of(made, tmp_path, lambda _: TrialResult())
    assert [len(batch) for batch in batches] == [2, 2, 2]
    assert batches[0] == [["lr=1", "x=a"], ["lr=1", "x=b"]]


def test_nothing_reaches_the_terminal_or_stays_behind(tmp_path, capfd):
    before = (logging.getLogger().level, list(logging.getLogger().handlers))
    batches_of(search(tmp_path, *OPTUNA, "lr=interval(0,10)"), tmp_path)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
    assert "Best value" in (tmp_path / "sweeper.log").read_text()
    assert (logging.getLogger().level, list(logging.getLogger().handlers)) == before
    from hydra.core.plugins import Plugins

    assert "instantiate_launcher" not in vars(Plugins.instance())


@pytest.mark.parametrize("error", [Stopped(), UserError("no metric"), ZeroDivisionError()], ids=repr)
def test_what_our_side_raises_comes_through(tmp_path, error):
    def trial(job):
        raise error

    with pytest.raises(type(error)) as caught:
        batches_of(search(tmp_path, *OPTUNA, "lr=interval(0,10)"), tmp_path, trial)
    assert caught.value is error


@pytest.mark.parametrize(
    ("overrides", "what", "remedy"),
    [
        (["hydra/sweeper=optun", "a=1,2"], "no Hydra sweeper 'optun' is installed", "did you mean 'optuna'?"),
        (["hydra/sweeper=nevergrad", "a=1,2"], "no Hydra sweeper 'nevergrad'", "pip install hydra-nevergrad-sweeper"),
        ([*OPTUNA, "hydra.sweeper.n_trial=3", "a=1,2"], "it has no setting 'n_trial'", "did you mean 'n_trials'?"),
        (["hydra.sweeper.n_trials=3", "a=1,2"], "it has no setting 'n_trials'", "hydra/sweeper=optuna"),
        ([*OPTUNA, "hydra.sweeper.n_trials=many", "a=1,2"], "cannot set up the sweeper 'optuna'", None),
        ([*OPTUNA, "hydra/sweeper/sampler=gird", "a=1,2"], "hydra/sweeper/sampler/gird", None),
        ([*OPTUNA, "hydra.sweeper.params=3"], "is not a table", None),
        ([*OPTUNA, "hydra.sweeper.direction=[minimize,maximize]", "a=1,2"], "names several", "sweep_metric"),
        ([*OPTUNA, "a=1"], "nothing for 'optuna' to choose from", "interval"),
        ([*OPTUNA, "hydra/launcher=joblib", "a=1,2"], "'hydra/launcher' means nothing here", "max_parallel"),
        ([*OPTUNA, "hydra.sweep.dir=/tmp/x", "a=1,2"], "'hydra.sweep.dir' means nothing here", "hydra.sweeper.*"),
        ([*OPTUNA, "hydra.job.chdir=true", "a=1,2"], "'hydra.job.chdir' means nothing here", None),
        ([*OPTUNA, "run.env.env_vars.HF_TOKEN=abcdef,ghijkl"], "holds a secret", "plain -m"),
    ],
    ids=lambda value: value[-2] if isinstance(value, list) and len(value) > 1 else None,
)  # fmt: skip
def test_mistakes(tmp_path, overrides, what, remedy):
    with pytest.raises(UserError) as error:
        search(tmp_path, *overrides)
    assert what in error.value.what
    assert remedy is None or remedy in str(error.value.remedy)


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=1,2", "a=1"), ("a=range(3,9)", "a=3"), ("a=interval(0.5,2)", "a=0.5"), ("a=int(interval(1,9))", "a=1"),
     ("a=choice('x,y',z)", r"a=x\,y"), ("a=tag(log,interval(1e-4,1))", "a=0.0001"), ("a=5", "a=5"), ("~a", "~a")],
)  # fmt: skip
def test_an_example(text, value):
    assert first_value(text) == value


def test_config_groups_of_the_recipe_can_be_swept(tmp_path):
    for name in ("small", "large"):
        (tmp_path / "model").mkdir(exist_ok=True)
        (tmp_path / "model" / f"{name}.yaml").write_text("x: 1\n")
    (tmp_path / "default.yaml").write_text("defaults:\n  - model: small\n")
    made = compose_search(["hydra/sweeper=basic", "model=glob(*)"], YamlChoice("default", tmp_path), tmp_path)
    assert [job for batch in batches_of(made, tmp_path, lambda _: TrialResult()) for job in batch] == [
        ["model=large"], ["model=small"],
    ]  # fmt: skip
