"""Verbs of a mixture of experts: the choice of experts for each token, their linear layers, sums by weight."""

from __future__ import annotations

import dataclasses

from edgeinfer.op import Value
from edgeinfer.verbs.rows import Rows
from edgeinfer.verbs.tracer import expect


@dataclasses.dataclass(frozen=True)
class Router:
    """How experts are chosen and weighed."""

    used: int  # experts of each token
    gate: str = "softmax"  # of the scores: softmax, sigmoid, sqrtsoftplus, or "chosen": softmax over the chosen ones
    bias: str | None = None  # tensor, with its ending, added to the gate's values for the choice but not to the weights
    normalise: bool = False  # weights of the chosen ones sum to 1
    scale: float = 1.0  # of the weights, at last
    groups: int = 1  # experts come in so many equal groups,
    groups_used: int = 1  # of which the best are looked at: those whose two best experts are best together


class Experts(Rows):
    """One op each.

    A choice is 2 * used wide: the numbers of the chosen experts, best first, and then their weights.
    """

    def route(self, scores: Value, router: Router) -> Value:
        """The experts of each token, from a score for each."""
        experts, used = scores.width, router.used
        fits = 1 <= used <= experts and experts % router.groups == 0 and router.groups_used <= router.groups
        expect(fits, f"route with {router} among {experts} experts")
        weights = () if router.bias is None else self._tensor(router.bias, (experts,))
        attrs = dataclasses.asdict(router)
        del attrs["bias"]
        return self._emit("route", 2 * used, (scores,), weights, **attrs)

    def assign(self, scores: Value, name: str, router: Router) -> Value:
        """The same where the experts are those that a table of whole numbers, vocabulary x used, has for the token's
        id; the weights go by the scores."""
        table = self._whole_numbers(f"{name}.weight", (self.config.vocab, router.used), scores.width)
        attrs = {name: getattr(router, name) for name in ("used", "gate", "normalise", "scale")}
        return self._emit("assign", 2 * router.used, (scores,), table, **attrs)

    def expert_linear(
        self, x: Value, choice: Value, name: str, experts: int, width: int, each: bool = False, ending: str = ".weight"
    ) -> Value:
        """Linear layers of the chosen experts, side by side: used * width.

        x is one row for all of them, with `each` as many side by side as there are experts chosen.  The tensor is
        experts x width x row; `name`.bias, experts x width, is added where the file has it.  Where it
        has `name`.scale, a number for each expert, the matrices are that times what is stored.
        """
        used = choice.width // 2
        expect(not each or x.width % used == 0, f"expert_linear of {x.width} for {used} experts")
        weights = self._tensor(f"{name}{ending}", (experts, width, x.width // used if each else x.width))
        biases = self._optional(f"{name}.bias", experts, width)
        y = self._emit("expert_linear", used * width, (x, choice), weights + biases, used=used, each=each)
        if biases or not self._scaled(name, experts):  # no file has both, and one that had would be refused
            return y
        return self.mul(y, self.pick(choice, f"{name}.scale", experts))

    def pick(self, choice: Value, tensor: str, experts: int) -> Value:
        """The chosen experts' numbers from a vector with one for each; the tensor is given with its ending."""
        return self._emit("pick", choice.width // 2, (choice,), self._tensor(tensor, (experts,)))

    def group(self, choice: Value, experts: int, size: int) -> Value:
        """The choice with each number divided by `size`: that of the group of so many experts, in order, it is in."""
        expect(experts % size == 0, f"group of {size} of {experts} experts")
        used = choice.width // 2
        numbers = self._emit("group", used, (choice,), experts=experts, size=size)
        return self.join(numbers, self.split(choice, used, used))

    def mix(self, x: Value, w: Value, parts: int) -> Value:
        """Weighted sums of the `parts` equal parts of x.

        w holds the weights of one or more sums, `parts` for each; the sums stand side by side.
        """
        expect(x.width % parts == 0 and w.width % parts == 0, f"mix of {parts} parts of {x.width} by {w.width}")
        return self._emit("mix", x.width // parts * (w.width // parts), (x, w), parts=parts)
