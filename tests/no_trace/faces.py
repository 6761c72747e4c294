"""Every way in which a user can have one forward of a model profiled in the middle of a loop."""

import contextlib
import io

import flopsight


def flops_profiler(model, x):
    profiler = flopsight.FlopsProfiler(model)
    profiler.start_profile()
    try:
        return model(x)
    finally:
        profiler.stop_profile()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(flopsight.FlopsightError):
            profiler.print_model_profile()
        profiler.end_profile()


def tids_profiler(model, x):
    profiler = flopsight.TIDSProfiler(model)
    profiler.start_profile()
    try:
        output = model(x)
        str(profiler.generate_profile())
        return output
    finally:
        profiler.end_profile()


def a_profiler(model, x):
    profiler = flopsight.AProfiler(model)
    profiler.start_profile()
    try:
        output = model(x)
        profiler.get_total_activation(as_string=True)
        return output
    finally:
        profiler.end_profile()


def step_profiler(model, x):
    with flopsight.step_profiler(model, steps=range(1)):
        return model(x)


def recording(model, x):
    with flopsight.recording(model):
        return model(x)


FACES = {
    "FlopsProfiler": flops_profiler,
    "TIDSProfiler": tids_profiler,
    "AProfiler": a_profiler,
    "step_profiler": step_profiler,
    "recording": recording,
}
