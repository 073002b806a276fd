import logging

from jsem_pyg.command.steps import Steps


def test_warnings_alone_are_notes(capsys):
    steps, logger = Steps(), logging.getLogger("jsem_pyg.test")
    with steps.listening(verbose=True):
        logger.info("five rounds")
        logger.warning("too few")
    assert capsys.readouterr().err == "five rounds\nWarning: too few\n"
    assert steps.notes == ["Warning: too few"]
