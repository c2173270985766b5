"""The number of frames that a sampler has to choose from."""


def total_frames(results: dict) -> int:
    """Give ``results['total_frames']``.

    Raises:
        ValueError: If there are none, as in a video whose header is all there is; a sampler would
            choose frame -1 then.
    """
    total = results["total_frames"]
    if total < 1:
        raise ValueError(f"{results.get('filename')} has no frames")
    return total
