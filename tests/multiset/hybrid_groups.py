"""Groups and families of the tests of hybrid transcripts."""

from __future__ import annotations

import sightline as sl

PAIR, TRIPLE, FOUR = (-0.4, 0.7), (-0.5, 0.2, 0.8), (-0.7, -0.2, 0.3, 0.8)
STEPS = sl.Thresholds(bandwidth=0.3)
SUBSETS = sl.multiset.Memberships(sets=[(0, 1), (1, 2), (0, 2, 3)])
Regime = sl.multiset.HybridRegime
