"""t-SNE (van der Maaten & Hinton, JMLR 2008): points in the plane that keep their neighbours."""

import numpy as np


def check_perplexity(perplexity: float, count: int) -> None:
    """Check that points can have so many neighbours.

    Args:
        perplexity: About how many neighbours a point has.
        count: Points.

    Raises:
        ValueError: If there are not more points than ``perplexity``, or it is not positive.
    """
    if not 0 < perplexity < count:
        raise ValueError(
            f"perplexity must be above 0 and below the number of videos, {count}; got {perplexity}"
        )


def embed_in_plane(values: np.ndarray, perplexity: float = 30.0, seed: int = 0) -> np.ndarray:
    """Place points in the plane by scikit-learn's t-SNE, started from their principal components.

    Args:
        values: Points (N, D).
        perplexity: About how many neighbours a point has; below N.
        seed: Of the optimisation.

    Returns:
        Places (N, 2).

    Raises:
        ValueError: If ``perplexity`` does not fit (``check_perplexity``).
    """
    check_perplexity(perplexity, len(values))
    from sklearn.manifold import TSNE  # slow to import, and needed nowhere else

    return TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(values)
