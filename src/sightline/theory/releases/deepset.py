"""Any differentiable permutation-invariant release, written by the user and differentiated by JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, IndexArray, Members, frozen_floats, frozen_index
from sightline.checked_numbers import positive_number, whole_number
from sightline.errors import InvalidRelease, MissingExtra, require
from sightline.theory.releases.query import OneCell, member_values


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeepSet(OneCell):
    r"""A readout of the sum of the members' features, eq. ``deepsets_general``.

    .. math:: q(x) = \rho\Bigl(\sum_{k \in C} \phi(x_k)\Bigr), \qquad
              \frac{\partial q}{\partial x_k} = J_\rho(s)\,J_\phi(x_k)

    ``feature`` is :math:`\phi` of one record, a scalar if ``dimension`` is 1, else a vector of that length;
    ``readout`` is :math:`\rho` of the summed feature. Both are written with ``jax.numpy`` and run in double
    precision, whatever JAX's own setting. Constants inside them must be Python or NumPy numbers: an array
    that ``jax.numpy`` made outside has single precision.

    A program cannot derive the sensitivity of a function, so you must state it: ``sensitivity`` in the L2
    norm, one number or one for each output. By default ``sensitivity_l1`` is :math:`\sqrt{\text{outputs}}`
    times it, which is always enough (Cauchy–Schwarz).

    >>> import jax.numpy as jnp
    >>> spread = DeepSet(          # variance of three values in [-1, 1]
    ...     feature=lambda x: jnp.stack([x, x * x]),
    ...     readout=lambda s: s[1] / 3 - (s[0] / 3) ** 2,
    ...     members=[0, 1, 2],
    ...     sensitivity=8 / 9,
    ... )
    >>> spread.value([0.0, 1.0, -1.0]).round(6).tolist()
    [0.666667]
    >>> spread.jacobian([0.0, 1.0, -1.0]).ravel().round(6).tolist()
    [0.0, 0.666667, -0.666667]
    """

    feature: Callable[[Any], Any]
    readout: Callable[[Any], Any]
    members: IndexArray
    sensitivity: FloatArray
    sensitivity_l1: FloatArray = None  # type: ignore[assignment]  # __post_init__ fills it in
    dimension: int = 1
    outputs: int = 1

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(  # many parameters: the fields of the dataclass
            self,
            *,
            feature: Callable[[Any], Any],
            readout: Callable[[Any], Any],
            members: Members,
            sensitivity: ArrayLike,
            sensitivity_l1: ArrayLike | None = None,
            dimension: int = 1,
            outputs: int = 1,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", frozen_index(self.members, error=InvalidRelease))
        object.__setattr__(self, "dimension", whole_number(self.dimension, name="dimension"))
        object.__setattr__(self, "outputs", whole_number(self.outputs, name="outputs"))
        l2 = _per_output(self.sensitivity, self.outputs, name="sensitivity")
        l1 = math.sqrt(self.outputs) * l2 if self.sensitivity_l1 is None else self.sensitivity_l1
        object.__setattr__(self, "sensitivity", l2)
        object.__setattr__(self, "sensitivity_l1", _per_output(l1, self.outputs, name="sensitivity_l1"))
        record = (self.dimension,) if self.dimension > 1 else ()
        summed = _output_shape(self.feature, record, name="feature")
        outputs = math.prod(_output_shape(self.readout, summed, name="readout"))
        require(
            outputs == self.outputs,
            f"a readout of {self.outputs} number(s)",
            got=outputs,
            fix=f"say outputs={outputs}",
            error=InvalidRelease,
        )

    def value(self, records: FloatArray) -> FloatArray:
        """The readout of the summed features."""
        values = self._values(records)
        jax = load_jax()
        with jax.enable_x64(True):
            answer = np.asarray(self.readout(jax.vmap(self.feature)(values).sum(axis=0))).reshape(
                self.outputs
            )
        require(
            bool(np.isfinite(answer).all()),
            "a readout that is finite at the records",
            got=f"NaN or infinity in outputs {np.flatnonzero(~np.isfinite(answer)).tolist()}",
        )
        return np.array(answer)

    def jacobian(self, records: FloatArray | None) -> FloatArray:
        r"""The chain rule :math:`J_\rho(s) J_\phi(x_k)` for member k, eq. ``deepsets_grad``."""
        values = self._values(records)
        jax = load_jax()
        with jax.enable_x64(True):
            s = jax.vmap(self.feature)(values).sum(axis=0)
            J_rho = np.asarray(jax.jacrev(self.readout)(s)).reshape(self.outputs, -1)
            J_phi = np.asarray(jax.vmap(jax.jacfwd(self.feature))(values))
        J_phi = J_phi.reshape(len(self.members), -1, self.dimension)
        rows: FloatArray = np.einsum("od,kdp->okp", J_rho, J_phi)
        bad = self.members[~np.isfinite(rows).all(axis=(0, 2))]
        require(
            bad.size == 0,
            "a feature and a readout that have derivatives at the records",
            got=f"NaN or infinity for record {bad[:1].tolist()}",
            fix="smooth the function there",
        )
        return rows

    def _values(self, records: FloatArray | None) -> FloatArray:
        values = member_values(records, members=self.members, dimension=self.dimension)
        return values if self.dimension > 1 else values[:, 0]


def load_jax() -> Any:
    """JAX, which is an optional dependency."""
    try:
        import jax
        from jax import enable_x64  # noqa: F401  # JAX has it from 0.8 on
    except ImportError as error:
        raise MissingExtra(
            'expected JAX 0.8 or newer, which differentiates a DeepSet; pip install "sightline[autodiff]"'
        ) from error
    return jax


def _per_output(stated: ArrayLike, outputs: int, *, name: str) -> FloatArray:
    """``stated``, one number or one for each output, as a locked array with an entry for each output."""
    numbers = frozen_floats(stated, name=name, error=InvalidRelease)
    require(
        numbers.shape in ((), (outputs,)),
        f"{name} as one number or as {outputs}",
        got=f"shape {numbers.shape}",
        error=InvalidRelease,
    )
    for number in numbers.ravel().tolist():
        positive_number(number, name=name)
    return frozen_floats(np.broadcast_to(numbers, outputs), name=name)


def _output_shape(function: Callable[[Any], Any], shape: tuple[int, ...], *, name: str) -> tuple[int, ...]:
    """The output shape of ``function`` for a double array of ``shape``, without running it."""
    jax = load_jax()
    with jax.enable_x64(True):
        try:
            output = jax.eval_shape(function, jax.ShapeDtypeStruct(shape, np.float64))
        except Exception as error:  # the user's function may raise anything
            raise InvalidRelease(
                f"expected {name} to accept an array of shape {shape}, got {type(error).__name__}: {error}"
            ) from error
    require(
        getattr(output, "dtype", None) == np.float64,
        f"{name} to return one array in double precision",
        got=getattr(output, "dtype", type(output).__name__),
        error=InvalidRelease,
    )
    return tuple(output.shape)
