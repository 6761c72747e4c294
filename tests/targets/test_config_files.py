"""Configurations on this machine: files, folders, the hub's cache, presets; and what is said where there is none."""

import json

import pytest

from flopsight.errors import InputError
from flopsight.targets import config_files
from flopsight.targets.config_files import check_configuration, find_configuration, read_configuration
from flopsight.targets.presets import find_preset, preset_names

TYPES = {"llama": "LlamaConfig", "bert": "BertConfig"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


def found(name):
    configuration = find_configuration(name, TYPES)
    check_configuration(name, configuration, TYPES)
    return configuration


def test_a_file_and_a_folder_hold_a_configuration(here):
    (here / "config.json").write_text('{"model_type": "llama", "hidden_size": 8}')

    for name in ("./config.json", "config.json", "./", str(here)):
        assert found(name).values == {"model_type": "llama", "hidden_size": 8}


def test_a_name_in_the_hubs_cache_is_read_from_the_revision_that_main_is(here):
    home = here / "hub" / "models--org--name"
    for revision, size in (("old", 1), ("new", 2)):
        (home / "snapshots" / revision).mkdir(parents=True)
        (home / "snapshots" / revision / "config.json").write_text(json.dumps({"model_type": "llama", "size": size}))
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("old")

    assert found("org/name").values["size"] == 1


def test_a_type_means_its_defaults():
    assert found("llama").values == {"model_type": "llama"}


def test_a_preset_is_found_by_its_name_and_by_its_name_on_the_hub():
    assert found("LLAMA-3.1-8B").values["hidden_size"] == 4096
    assert found("meta-llama/Llama-3.1-8B").values["hidden_size"] == 4096


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_says_where_it_comes_from_and_what_was_published(name):
    preset = find_preset(name)

    assert preset.source == f"https://huggingface.co/{preset.hub}/blob/main/config.json"
    assert preset.params > 1_000_000
    assert set(preset.config) >= {"model_type", "architectures"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("./absent.json", None, "There is no file ./absent.json."),
        ("./", None, "The folder ./ has no config.json."),
        ("./c.json", "{", "c.json is not a configuration: it is not JSON"),
        ("./c.json", "[1]", "c.json is not a configuration: it holds a list"),
        ("./c.json", "{}", "c.json is not a configuration of a model: it has no model_type."),
        ("./c.json", '{"model_type": "lama"}', "the model_type 'lama', which transformers here does not know. Did you mean 'llama'?"),
        ("./c.json", '{"model_type": "new", "auto_map": {}}', "needs code from the hub (auto_map), which is not run."),
        ("./c.json", '{"_class_name": "UNet"}', "configures UNet of diffusers: name it diffusers:./c.json."),
        ("org/nme", None, "org/nme is not in the hub's cache"),
        ("org/nme", None, "hf download org/nme config.json"),
        ("lama", None, "transformers has no model type 'lama', and there is no preset of that name. Did you mean 'llama'?"),
        ("llama-3.1-80b", None, "Did you mean 'llama-3.1-8"),
        ("zzzz", None, "See `flopsight targets hf`."),
    ],
)  # fmt: skip
def test_what_is_no_configuration_is_answered_in_one_sentence(here, name, content, said):
    if content is not None:
        (here / "c.json").write_text(content)

    with pytest.raises(InputError) as problem:
        found(name)

    assert said in str(problem.value)
    assert "\n" not in str(problem.value)


def test_the_cache_is_where_hugging_face_puts_it(monkeypatch, tmp_path):
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))

    assert config_files.hub_cache() == tmp_path / "home" / "hub"


def test_a_folder_with_several_models_names_them(tmp_path):
    for part in ("unet", "vae"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "config.json").write_text("{}")

    with pytest.raises(InputError, match=r"has no config.json. It holds unet, vae: name one of them, hf:.*/unet\."):
        read_configuration(str(tmp_path))
    (tmp_path / "model_index.json").write_text("{}")
    with pytest.raises(InputError, match=r"name one of them, diffusers:.*/unet\."):
        read_configuration(str(tmp_path))


def test_a_file_of_weights_is_no_configuration(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\x80\xff")

    with pytest.raises(InputError, match="it is not text. Name the config.json beside it."):
        read_configuration(str(tmp_path / "model.safetensors"))
