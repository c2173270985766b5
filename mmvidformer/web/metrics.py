"""Counts of a server as Prometheus reads them."""

from collections import Counter
from collections.abc import Mapping

BOUNDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)  # seconds of answers


class Metrics:
    """Requests by status, and how long they took."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._within: Counter[float] = Counter()
        self._seconds, self._count = 0.0, 0

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered or refused."""
        self._requests[path, status] += 1
        if status == 200:
            self._count += 1
            self._seconds += seconds
            self._within.update(bound for bound in BOUNDS if seconds <= bound)

    def text(self, values: Mapping[str, tuple[str, float]]) -> str:
        """Return all in Prometheus's format, with further values by name: type and number."""
        lines = ["# TYPE mmvidformer_requests_total counter"]
        for (path, status), count in sorted(self._requests.items()):
            labels = f'path="{path}",status="{status}"'
            lines.append(f"mmvidformer_requests_total{{{labels}}} {count}")
        lines.append("# TYPE mmvidformer_answer_seconds histogram")
        for bound in BOUNDS:
            lines.append(f'mmvidformer_answer_seconds_bucket{{le="{bound}"}} {self._within[bound]}')
        lines.append(f'mmvidformer_answer_seconds_bucket{{le="+Inf"}} {self._count}')
        lines.append(f"mmvidformer_answer_seconds_sum {self._seconds:.6f}")
        lines.append(f"mmvidformer_answer_seconds_count {self._count}")
        for name, (type_name, number) in values.items():
            lines.append(f"# TYPE mmvidformer_{name} {type_name}")
            lines.append(f"mmvidformer_{name} {number:g}")
        return "\n".join([*lines, ""])
