"""The text of a target taken apart, and what is said of a text that is none."""

import pytest

from flopsight.errors import InputError
from flopsight.targets.address import parse_address
from flopsight.targets.changes import parse_changes


@pytest.mark.parametrize(
    ("text", "kind", "home", "name", "changes"),
    [
        ("net.py", "file", "net.py", "model", {}),
        ("net.py:Net", "file", "net.py", "Net", {}),
        ("net.py:Net:width=32,depth=4", "file", "net.py", "Net", {"width": "32", "depth": "4"}),
        ("net.py:width=32", "file", "net.py", "model", {"width": "32"}),
        ("a.b:make:x=1", "module", "a.b", "make", {"x": "1"}),
        (r"C:\models\net.py:Net", "file", r"C:\models\net.py", "Net", {}),
        ("c:/net.py:width=32", "file", "c:/net.py", "model", {"width": "32"}),
        (r"hf:D:\models\config.json", "hf", "", r"D:\models\config.json", {}),
        ("hf:/models/config.json", "hf", "", "/models/config.json", {}),
        ("hf:llama", "hf", "", "llama", {}),
        ("hf:./config.json:num_hidden_layers=4", "hf", "", "./config.json", {"num_hidden_layers": "4"}),
        ("hf:meta-llama/Llama-3.1-8B", "hf", "", "meta-llama/Llama-3.1-8B", {}),
        ("timm:vit_base_patch16_224:img_size=384", "timm", "", "vit_base_patch16_224", {"img_size": "384"}),
        ("hf:gemma3:text_config.num_hidden_layers=2", "hf", "", "gemma3", {"text_config.num_hidden_layers": "2"}),
    ],
)
def test_a_target_is_a_place_a_name_and_changes(text, kind, home, name, changes):
    address = parse_address(text)

    assert (address.kind, address.home, address.name, address.changes) == (kind, home, name, changes)


def test_a_comma_or_colon_inside_brackets_or_quotes_belongs_to_the_value():
    assert parse_changes("sizes=[1,2],name='a,b',table={1:2}") == {
        "sizes": "[1,2]",
        "name": "'a,b'",
        "table": "{1:2}",
    }
    assert parse_address("net.py:Net:path=a:b").changes == {"path": "a:b"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("resnet18", "Did you mean 'zoo:resnet18'? A target is file.py:Class"),
        ("llama-3.1-8b", "Did you mean 'hf:llama-3.1-8b'?"),
        ("config.json", "Did you mean 'hf:config.json'?"),
        ("hf:", "'hf:' names no model of hf. See `flopsight targets hf`."),
        ("hf:llama:tiny", "'tiny' in hf:llama:tiny changes nothing. Changes look like hf:llama:width=32"),
        ("net.py:Net:tiny", "'tiny' in net.py:Net:tiny changes nothing"),
        ("net.py:Net:width=", "'width=' changes nothing. Changes look like width=32,depth=4."),
        ("net.py:Net:width=1,width=2", "width is given twice"),
    ],
)
def test_a_text_that_is_no_target_is_answered_in_one_sentence(text, said):
    with pytest.raises(InputError) as problem:
        parse_address(text)

    assert said in str(problem.value)
    assert "\n" not in str(problem.value)
