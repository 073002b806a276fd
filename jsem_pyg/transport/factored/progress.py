"""The progress bar of a solver."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..._progress import open_bar
from ..plan.plan import Step


@contextmanager
def progress_bar(shown: bool) -> Iterator[Callable[[Step], None]]:
    """Show the last step; yield a function that is called with each step."""
    layout = "Aligning: {desc}{elapsed}"
    with open_bar(shown, bar_format=layout) as bar:
        yield lambda step: bar.set_description(describe(step))


def describe(step: Step) -> str:
    """A step in a line."""
    return (
        f"{step.stage}, epsilon {step.epsilon:.3g}, marginal error {step.marginal_error:.1e}, "
        f"sharpness {step.sharpness:.2f}"
    )
