"""Write the tables of scalar risks that the package ships: ``python tools/risk_tables.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sightline.labeled.bounds import scalar_risk


def computed() -> dict[str, np.ndarray]:
    """Every table, from its integrals."""
    densities, two_point = scalar_risk.DENSITY_GRID, scalar_risk.TWO_POINT_GRID
    return {
        "uniform": scalar_risk.deficits(scalar_risk.uniform_risk, densities),
        "cos2": scalar_risk.deficits(scalar_risk.cosine_risk, densities),
        "two_point": scalar_risk.deficits(scalar_risk.two_point_risk, two_point),
        "uniform_laplace": scalar_risk.falling_values(scalar_risk.uniform_laplace_risk),
        "cos2_laplace": scalar_risk.falling_values(scalar_risk.cosine_laplace_risk),
    }


if __name__ == "__main__":
    place = Path(scalar_risk.__file__).with_name(scalar_risk.FILE)
    np.savez_compressed(place, allow_pickle=False, **computed())
    print(f"{place}: {place.stat().st_size:,} bytes")
