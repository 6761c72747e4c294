"""Our wrappers around a function, and a patch that the user puts over it: each sees every call once."""

import gc
from weakref import ref

import pytest
from torch import nn

from flopsight.capture.hooks.patches import _patch, module_calls, unpatched_if_alone, wrapped


class Owner:
    """A stand-in for the class in torch that is patched."""


@pytest.fixture(name="owner")
def _owner():
    Owner.call = lambda: "plain"
    return Owner


@pytest.fixture(name="seen")
def _seen():
    return []


def noting(name, seen):
    def around(plain):
        def noted():
            seen.append(name)
            return plain()

        return noted

    return around


def put_over(owner, seen, name="theirs"):
    """What a user's script does who counts calls."""
    covered = owner.call
    owner.call = noting(name, seen)(covered)
    return covered


def test_a_wrapper_that_comes_after_a_users_patch_sees_the_calls(owner, seen):
    put_over(owner, seen)
    theirs = owner.call

    with wrapped(owner, "call", noting("ours", seen)):
        owner.call()

    assert seen == ["ours", "theirs"]
    assert owner.call is theirs


def test_wrappers_before_and_after_a_users_patch_each_see_a_call_once(owner, seen):
    with wrapped(owner, "call", noting("early", seen)):
        put_over(owner, seen)
        theirs = owner.call
        with wrapped(owner, "call", noting("late", seen)):
            owner.call()

    assert seen == ["late", "theirs", "early"]
    assert owner.call is theirs


def test_a_wrapper_that_comes_when_the_one_below_a_users_patch_has_ended_sees_the_calls(owner, seen):
    with wrapped(owner, "call", noting("early", seen)):
        put_over(owner, seen)
    seen.clear()

    with wrapped(owner, "call", noting("late", seen)):
        owner.call()

    assert seen[:2] == ["late", "theirs"]


def test_a_user_who_takes_the_patch_off_again_gets_torchs_own_function_back_in_the_end(owner, seen):
    plain = owner.call
    with wrapped(owner, "call", noting("early", seen)):
        covered = put_over(owner, seen)
        with wrapped(owner, "call", noting("late", seen)):
            pass
        owner.call = covered
        with wrapped(owner, "call", noting("last", seen)):
            owner.call()

    assert seen == ["last", "early"]
    assert owner.call is plain


def test_wrappers_below_a_users_patch_are_freed_when_the_user_drops_the_patch(owner, seen):
    class Watched:
        """Stands for a model that a wrapper holds."""

    plain, watched = owner.call, Watched()
    freed = ref(watched)

    def around(call, watched=watched):
        return lambda: (seen.append(watched), call())[1]

    with wrapped(owner, "call", around):
        put_over(owner, seen)
    owner.call = plain  # the user kept torch's own, and not what the patch had covered
    del around, watched
    with wrapped(owner, "call", noting("later", seen)):
        pass
    gc.collect()

    assert freed() is None


def test_a_suspension_that_could_not_end_goes_with_the_last_wrapper(owner, seen):
    with wrapped(owner, "call", noting("ours", seen)):
        _patch(owner, "call").suspend(1)  # a block whose end raised
        owner.call()

    with wrapped(owner, "call", noting("next", seen)):
        owner.call()

    assert seen == ["next"]


def test_a_wrapper_that_comes_while_the_only_one_rests_sees_the_calls():
    seen, plain = [], nn.Module.__call__

    def watching(name):
        return lambda call: lambda module, *given: seen.append(name) or call(module, *given)

    with module_calls(watching("first")):
        with unpatched_if_alone():
            assert nn.Module.__call__ is plain
            with module_calls(watching("second")):
                nn.Identity()(1)
            assert nn.Module.__call__ is plain
        assert "second" in seen
        seen.clear()
        nn.Identity()(1)
    assert seen == ["first"]
    assert nn.Module.__call__ is plain
