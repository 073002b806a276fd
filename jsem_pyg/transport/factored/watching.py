"""What is seen of a descent while it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..._progress import open_bar
from ..plan.plan import Step


@contextmanager
def descent_bar(shown: bool) -> Iterator[Callable[[Step], None]]:
    """Show the last step of a descent; yield what is to be called with each."""
    layout = "Aligning: {desc}{elapsed}"
    with open_bar(shown, bar_format=layout) as bar:
        yield lambda step: bar.set_description(describe(step))


def describe(step: Step) -> str:
    """A step in a line."""
    return (
        f"{step.stage}, epsilon {step.epsilon:.3g}, marginal error {step.marginal_error:.1e}, "
        f"sharpness {step.sharpness:.2f}"
    )


def in_units(step: Step, unit: float) -> Step:
    """A step in the unit of squared costs of the user."""
    return step._replace(epsilon=step.epsilon * unit, cost=step.cost * unit)
