"""Every architecture of the page gives the numbers on the page, and what fails there fails as it says."""

import architectures
import pytest


@pytest.mark.parametrize("name", architectures.TYPES)
def test_an_architecture_costs_what_the_page_says(name):
    assert architectures.line(name, *architectures.row(name)) == architectures.written()[name]


def test_the_page_has_at_least_sixty_architectures():
    assert len(architectures.TYPES) >= 60
    assert set(architectures.written()) == set(architectures.TYPES)


@pytest.mark.parametrize("name", architectures.FAILING)
def test_what_fails_fails_as_the_page_says(name):
    word, why = architectures.FAILING[name]

    with pytest.raises(Exception, match=word):
        architectures.row(name)
    assert f"| `{name}` | {why} |" in architectures.PAGE.read_text()
