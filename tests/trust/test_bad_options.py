"""Every option of the command refuses what it cannot mean: status 2, and a line that names it.

The cases are made of the options themselves, as click knows them.
"""

import click
import numpy as np
import pytest
from command.command_cases import run

from jsem_pyg.command import main

# Any text is a name of something, which is looked up where the file is read, with the status 1.
NAMES = {"columns", "texts", "labels", "model"}


def bad_values(option, folder):
    """What an option must not be, as words."""
    kind = option.type
    if isinstance(kind, click.FloatRange):
        return ["-0.1", "nan", "inf", "-inf", "many", ""]
    if option.callback is not None or kind.name == "choice":
        return ["nonsense", "", "ärger"]
    if kind.name == "NAME=TYPE":
        return ["nonsense", "x=nonsense", "=number", ""]
    if kind.name == "number or auto":
        return ["0", "-3", "1.5", "nan", "many", ""]
    if isinstance(kind, click.IntRange):
        return [str(kind.min - 1), "-7", "1.5", "nan", "many", ""]
    if isinstance(kind, click.Path):
        missing = [str(folder / "missing")] if kind.exists else []
        no_folder = [] if kind.dir_okay else [str(folder)]
        return [*missing, *no_folder] + ([] if kind.file_okay else [str(folder / "x.npy")])
    if getattr(option, "is_flag", False):
        return ["yes"]
    return [] if option.name in NAMES else None


CASES = [
    (name, option)
    for name, command in main.commands.items()
    for option in command.params
    if option.name != "help"
]


@pytest.fixture
def words(tmp_path):
    """A line of each command that is right so far, by its name."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(12, 3)))
    (tmp_path / "map").mkdir()
    file = str(tmp_path / "x.npy")
    out = ["--layout", "none", "-k", "2", "-o", str(tmp_path / "new")]
    return {"map": [file, *out], "predict": [str(tmp_path / "map"), file], "info": []}


@pytest.mark.parametrize(("name", "option"), CASES, ids=lambda each: getattr(each, "name", each))
def test_a_bad_value_is_a_line_that_names_the_option(name, option, words, tmp_path):
    values = bad_values(option, tmp_path)
    assert values is not None, f"no bad values are known of {option.name}, of type {option.type}"
    shown = option.human_readable_name if isinstance(option, click.Argument) else option.opts[-1]
    for value in values:
        given = list(words[name])
        if isinstance(option, click.Argument):
            place = [each.name for each in main.commands[name].params].index(option.name)
            given[place] = value
        else:
            given.append(f"{option.opts[-1]}={value}" if option.opts[-1][:2] == "--" else value)
        result = run(name, *given)
        assert result.exit_code == 2, f"{value!r}: {result.exit_code} {result.output}"
        assert isinstance(result.exception, SystemExit)
        said = result.output.lower()
        assert shown.lower() in said, f"{value!r}: {result.output}"
        assert "traceback" not in said
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", main.commands)
def test_unknown_options_and_surplus_words_are_refused(name, words):
    for more in ("--nonsense", "surplus"):
        result = run(name, *words[name], more)
        assert result.exit_code == 2
        assert more in result.output
