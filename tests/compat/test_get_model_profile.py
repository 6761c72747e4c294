"""get_model_profile with every argument of the older profilers: the inference call, printed or not."""

import pytest
import torch
from compat.printed import aggregate, number, summary, tree
from torch import nn
from toys import DOWN, HIDDEN, LINEAR_FLOPS, MACS, OUT, PARAMS, ROWS, UP, WIDE, Net, Raises, Trouble

from flopsight import get_model_profile
from flopsight.errors import InputError

FLOPS = LINEAR_FLOPS + 2 * ROWS * HIDDEN
"""In eval the norm is two an element, and dropout is nothing."""
X = torch.ones(ROWS, WIDE)


def quiet(model, **options):
    return get_model_profile(model, print_profile=False, as_string=False, **options)


def test_the_older_profilers_call_runs_as_printed(capsys):
    model = Net()
    batch_size = ROWS

    flops, macs, params = get_model_profile(model=model, # model
                                    input_shape=(batch_size, WIDE), # input shape to the model. If specified, the model takes a tensor with this shape as the only positional argument.
                                    args=None, # list of positional arguments to the model.
                                    kwargs=None, # dictionary of keyword arguments to the model.
                                    print_profile=True, # prints the model graph with the measured profile attached to each module
                                    detailed=True, # print the detailed profile
                                    module_depth=-1, # depth into the nested modules, with -1 being the inner most modules
                                    top_modules=1, # the number of top modules to print aggregated profile
                                    warm_up=10, # the number of warm-ups before measuring the time of each module
                                    as_string=True, # print raw numbers (e.g. 1000) or as human-readable strings (e.g. 1k)
                                    output_file=None, # path to the output file. If None, the profiler prints to stdout.
                                    ignore_modules=None)  # the list of modules to ignore in the profiling  # fmt: skip

    text = capsys.readouterr().out
    assert (flops, macs, params.strip()) == (f"{round(FLOPS / 1000, 2)} K", f"{MACS} MACs", f"{PARAMS}")
    assert "Profile Summary at step 10:" in text
    assert summary(text)["params per gpu"] == PARAMS
    assert summary(text)["fwd latency"] > 0
    assert list(tree(text)) == ["", "up", "norm", "drop", "down"]


INPUTS = {
    "input_shape": {"input_shape": (ROWS, WIDE)},
    "args": {"args": [X]},
    "a tuple of args": {"args": (X,)},
    "a bare tensor": {"args": X},
    "kwargs": {"kwargs": {"x": X}},
    "kwargs, no args": {"args": [], "kwargs": {"x": X}},
    "args, no kwargs": {"args": [X], "kwargs": {}},
}


@pytest.mark.parametrize("case", INPUTS)
def test_inputs_come_in_every_form_and_totals_as_plain_numbers(case):
    totals = quiet(Net(), **INPUTS[case])

    assert totals == (FLOPS, MACS, PARAMS)
    assert {type(figure) for figure in totals} == {int}


def test_nothing_is_printed_when_nothing_is_asked_for(capsys):
    quiet(Net(), args=[X])

    assert capsys.readouterr() == ("", "")


def test_a_file_gets_the_text_instead(tmp_path, capsys):
    path = tmp_path / "new" / "dir" / "profile.txt"

    for warm_up in (1, 2):
        get_model_profile(Net(), args=[X], output_file=str(path), warm_up=warm_up)

    assert capsys.readouterr().out == ""
    assert path.read_text().count("Profile Summary") == path.read_text().count("Profile Summary at step 2:") == 1


def test_depth_top_modules_and_details_shape_the_text(capsys):
    model = nn.Sequential(Net(), nn.Linear(OUT, OUT))

    get_model_profile(model, args=[X], module_depth=1, top_modules=2, detailed=False)
    text = capsys.readouterr().out

    depths = aggregate(text)
    assert list(depths) == [0, 1]
    assert depths[1]["params"] == {"Net": PARAMS, "Linear": OUT * OUT + OUT}
    assert tree(text) == {}


@pytest.mark.parametrize(
    "ignore",
    [
        [nn.Linear],
        nn.Linear,
        ["Linear"],
        ["up", "down"],
        lambda m: [m.up, m.down],
        lambda m: {m.up, "down"},
        lambda m: iter([m.up, m.down]),
    ],
    ids=["class", "bare class", "class by name", "names", "modules", "mixed", "an iterator"],
)
def test_ignored_modules_leave_the_totals_and_keep_their_rows(ignore, capsys):
    model = Net()
    ignored = ignore(model) if callable(ignore) and not isinstance(ignore, type) else ignore

    flops, macs, params = get_model_profile(model, args=[X], as_string=False, ignore_modules=ignored)
    text = capsys.readouterr().out

    assert (flops, macs) == (2 * ROWS * HIDDEN, 0)  # the norm is left
    assert params == PARAMS  # they are still there
    rows = tree(text)
    assert list(rows) == ["", "up", "norm", "drop", "down"]
    assert number(rows["up"]["macs"]) == 0
    assert "ignored" in rows["up"]["rest"]
    assert "ignored" in rows["down"]["rest"]
    assert "ignored" not in rows["norm"]["rest"]


def test_what_is_below_an_ignored_module_is_ignored_with_it():
    model = nn.Sequential(Net(), nn.Linear(OUT, OUT, bias=False))

    assert quiet(model, args=[X], ignore_modules=[Net])[1] == ROWS * OUT * OUT
    assert quiet(model, args=[X], ignore_modules=["0.up"])[1] == DOWN + ROWS * OUT * OUT


def test_a_module_that_is_not_there_cannot_be_ignored():
    with pytest.raises(InputError, match="'dwon', which the model does not have. Did you mean 'down'"):
        quiet(Net(), args=[X], ignore_modules=["dwon"])
    with pytest.raises(InputError, match="module classes, modules and names, not 3"):
        quiet(Net(), args=[X], ignore_modules=[3])


class Writer(nn.Module):
    """A model that can generate: one forward for every token."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDE, OUT)

    def forward(self, x):
        return self.layer(x)

    def generate(self, x, tokens=3):
        for _ in range(tokens):
            self(x)
        return x


def test_the_model_runs_in_eval_mode_without_gradients():
    model, seen = Writer(), []
    model.layer.register_forward_hook(lambda module, *_: seen.append((module.training, torch.is_grad_enabled())))

    quiet(model, args=[X])

    assert set(seen) == {(False, False)}


@pytest.mark.parametrize("raises", [False, True])
def test_every_submodule_gets_its_own_mode_back(no_trace, raises):
    model = Raises() if raises else Net()
    model.norm.eval()

    with no_trace(model):
        if raises:
            with pytest.raises(Trouble):
                quiet(model, args=[X])
        else:
            quiet(model, args=[X])

    assert [module.training for module in model.children()] == [True, False, True, True]


def test_generate_counts_every_step_of_the_generation():
    per_step = ROWS * WIDE * OUT

    assert quiet(Writer(), args=[X], mode="generate")[1] == 3 * per_step
    assert quiet(Writer(), args=[X], kwargs={"tokens": 5}, mode="generate")[1] == 5 * per_step
    assert quiet(Writer(), args=[X], mode="forward")[1] == per_step


def test_a_model_that_cannot_generate_is_told_so():
    with pytest.raises(InputError, match="Net has none"):
        quiet(Net(), args=[X], mode="generate")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Say what the model runs on"),
        ({"args": None, "kwargs": None}, "Say what the model runs on"),
        ({"args": 3}, r"args must be a tuple .* not int"),
        ({"args": 3, "input_shape": (ROWS, WIDE)}, r"args must be a tuple .* not int"),
        ({"args": [X], "mode": "train"}, "mode must be 'forward' or 'generate', not 'train'"),
        ({"args": [X], "input_shape": (ROWS, WIDE)}, "either input_shape or args"),
        ({"args": [X], "warm_up": -1}, "warmup must be a whole number"),
        ({"input_shape": "4x8"}, "input_shape must be a sequence of integers"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(options, words):
    with pytest.raises(InputError, match=words):
        quiet(Net(), **options)


BAD_PAGES = {
    "module_depth": ["x", 1.5, -2, True],
    "top_modules": ["x", 1.5, -1, True],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD_PAGES.items() for value in values])
def test_a_page_that_cannot_be_printed_is_refused_before_the_model_runs(name, value):
    with pytest.raises(InputError, match=f"{name} must be a whole number, 0 or more.*, not {value!r}"):
        get_model_profile(Raises(), args=[X], **{name: value})


def test_what_is_no_module_is_refused():
    with pytest.raises(InputError, match="must be a torch.nn.Module, not function"):
        quiet(lambda x: x, args=[X])


def test_a_model_on_meta_is_counted_and_printed_without_time(capsys):
    with torch.device("meta"):
        model = Net()

    flops, macs, _ = get_model_profile(model, input_shape=(ROWS, WIDE), as_string=False)
    text = capsys.readouterr().out

    assert (flops, macs) == (FLOPS, MACS)
    assert "fwd latency" not in summary(text)
    assert number(tree(text)["up"]["macs"]) == UP


def test_an_exported_program_which_has_no_eval_is_profiled_as_it_is():
    exported = torch.export.export(nn.Linear(WIDE, OUT, bias=False), (X,)).module()

    assert quiet(exported, args=[X]) == (2 * ROWS * WIDE * OUT, ROWS * WIDE * OUT, WIDE * OUT)


def test_one_warm_up_is_the_count_and_no_warm_up_is_possible():
    assert quiet(Net(), args=[X], warm_up=0) == (FLOPS, MACS, PARAMS)
