"""Learned positions end where a real run of the same model ends."""

import pytest
import torch

import flopsight
from flopsight import cli
from flopsight.errors import InputError
from flopsight.targets.inputs import parse_inputs
from flopsight.targets.loading import load_target

TINY = {
    "hf:gpt2:n_layer=1,n_embd=12,n_positions=40": 40,
    "hf:bert:num_hidden_layers=1,hidden_size=12,intermediate_size=24,max_position_embeddings=40": 40,
    "hf:roberta:num_hidden_layers=1,hidden_size=12,intermediate_size=24,max_position_embeddings=40": 38,
    "hf:opt:num_hidden_layers=1,hidden_size=12,ffn_dim=24,word_embed_proj_dim=12,max_position_embeddings=40": 40,
    "hf:bart:encoder_layers=1,decoder_layers=1,d_model=16,encoder_ffn_dim=8,decoder_ffn_dim=8,max_position_embeddings=40": 40,
}
COMPUTED = [
    "hf:llama:num_hidden_layers=1,hidden_size=32,intermediate_size=64,max_position_embeddings=40",
    "hf:t5:num_layers=1,d_model=16,d_ff=8",
]


@pytest.mark.parametrize("text", TINY)
def test_tokens_past_a_table_of_positions_are_refused_on_meta_as_a_real_run_fails(text):
    most = TINY[text]
    target = load_target(text, parse_inputs([f"1x{most}"]))
    longer = {name: torch.full((1, most + 1), 5) for name in target.kwargs}

    target.model(*target.args, **target.kwargs)
    with pytest.raises((IndexError, RuntimeError)):
        target.model(**longer)
    load_target(text, parse_inputs([f"1x{most}"]), meta=True)
    with pytest.raises(InputError, match=f"has a table of {most} positions, and input_ids of {most + 1} tokens"):
        load_target(text, parse_inputs([f"1x{most + 1}"]), meta=True)


@pytest.mark.parametrize("text", COMPUTED)
def test_positions_that_are_computed_have_no_end(text):
    model = load_target(text, parse_inputs(["1x64"]), meta=True)

    assert model.kwargs["input_ids"].shape == (1, 64)


def test_new_tokens_need_positions_too():
    model = load_target("hf:gpt2:n_layer=1,n_embd=12,n_positions=40", meta=True).model
    prompt = torch.ones(1, 30, dtype=torch.int64, device="meta")

    assert flopsight.generation(model, prompt, 10).held == 40
    with pytest.raises(InputError, match="of 30 tokens and 11 new ones read past its end"):
        flopsight.generation(model, prompt, 11)


def test_a_sound_model_has_its_decoders_positions_in_a_table(capsys):
    assert cli.main(["profile", "hf:whisper-tiny", "--meta", "-i", "decoder_input_ids=1x449"]) == 2
    assert "448 positions, and decoder_input_ids of 449 tokens" in capsys.readouterr().err


def test_the_points_of_a_sweep_that_read_past_the_table_say_so():
    swept = flopsight.sweep("hf:gpt2:n_layer=1,n_embd=12,n_positions=40", {"seq": [20, 40, 80]})

    assert [bool(point.error) for point in swept.points] == [False, False, True]
    assert swept.points[-1].error.endswith("or a longer table after a second colon: n_positions=80.")
