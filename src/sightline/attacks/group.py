"""The coordinates that a transcript depends on, and whether its answers depend on their order."""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray, coordinates
from sightline.attacks.model import Objective, columns_of
from sightline.attacks.transcript_model import model_of
from sightline.errors import InvalidInput
from sightline.geometry.transcript import Transcript
from sightline.noise.laws import GaussianNoise


def touched(transcript: Transcript) -> tuple[int, ...]:
    """Positions (record · dimension + place in it) of all coordinates that some release depends on."""
    members = np.unique(np.concatenate([query.members for query in transcript.queries]))
    return tuple(coordinates(members, transcript.dimension).tolist())


def separable(transcript: Transcript) -> Objective | None:
    """The transcript's answers as sums of curves, without noise; ``None`` for queries of another form."""
    try:
        return model_of(transcript.queries, GaussianNoise(stddevs=np.ones(transcript.outputs)))
    except InvalidInput:
        return None


def one_group(transcript: Transcript) -> bool:
    """Whether no answer depends on the order of the values, so that only their multiset is identifiable."""
    model = separable(transcript)
    return model is not None and model.exchangeable and not model.linear


def exact_answers(transcript: Transcript, records: FloatArray) -> FloatArray:
    """The exact answers (draws × outputs) at many sets of records (draws × records · dimension)."""
    model = separable(transcript)
    if model is None:
        p = transcript.dimension
        return np.stack([transcript.answers(draw.reshape(-1, p)) for draw in records])
    columns = model.expected(columns_of(records[:, list(model.records)]))
    return np.stack(columns, axis=1)
