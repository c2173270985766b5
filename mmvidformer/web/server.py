"""What a server answers with: models in processes, limits, a token, counts."""

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

from mmvidformer.engine.offer_options import ServeOptions
from mmvidformer.web.metrics import Metrics
from mmvidformer.web.models import Model
from mmvidformer.web.pool import Pool
from mmvidformer.web.process import AnswerProcess
from mmvidformer.web.rows import describe_model
from mmvidformer.web.shared_models import SharedModels
from mmvidformer.web.streams import Streams


class Server:
    """Models in processes, and what all requests share.

    Args:
        models: The models by name; the first is the default.
        options: How requests are answered, and what is refused.
        folder: Where videos are stored while they are answered.
        token: What clients must send; None: nothing.

    Attributes:
        streams: The streams that are open.
        pool: The processes that read videos, as many for each device.
        prefixes: Of the addresses from which videos are fetched.
        shared: The process of each device, which runs the models.
        about: What ``/models`` tells, by name; empty before the start.
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        options: ServeOptions,
        folder: Path,
        token: str | None = None,
    ) -> None:
        self.models, self.limits, self.folder, self.token = models, options.limits, folder, token
        self.prefixes = tuple(options.allow_addresses)
        self.metrics, self.about = Metrics(), dict[str, dict]()
        devices = options.device.split(",") if options.device else [None]
        readers = options.workers + math.ceil(options.streams / len(devices))
        size = min(options.batch, readers)  # each reads one sample at a time
        self.shared = [
            SharedModels(_on_device(models, device), options.limits, size, options.delay)
            for device in devices
        ]
        workers = [[self._reader(shared) for _ in range(options.workers)] for shared in self.shared]
        self.pool = Pool(workers, options.queue, self._prepare)
        places = islice(cycle(self.shared), options.streams)
        pools = [Pool([[self._reader(shared)]], 1, self._prepare) for shared in places]
        self.streams = Streams(pools)

    def start(self) -> None:
        """Load the models; a ``UserError`` says which one cannot be loaded, and why."""
        parts = *self.shared, self.pool, *self.streams.pools
        with ThreadPoolExecutor(len(parts)) as threads:
            for _ in threads.map(lambda part: part.start(), parts):
                pass

    def kill(self) -> None:
        """End all processes."""
        for pool in (self.pool, *self.streams.pools):
            pool.kill()
        for shared in self.shared:
            shared.kill()

    def metrics_text(self) -> str:
        """Return what ``/metrics`` tells."""
        kills = sum(process.kills for process in self.pool.processes)
        waiting = self.pool.inside - self.pool.running
        return self.metrics.text(
            dict(
                requests_running=("gauge", self.pool.running),
                requests_waiting=("gauge", waiting),
                streams_open=("gauge", len(self.streams)),
                processes_killed_total=("counter", kills),
            )
        )

    def _reader(self, shared: SharedModels) -> AnswerProcess:
        return AnswerProcess(shared.readers, self.limits, kept_models=len(self.models))

    def _prepare(self, process: AnswerProcess) -> None:
        for name in self.models:
            (self.about[name],) = process.ask(name, describe_model)


def _on_device(models: Mapping[str, Model], device: str | None) -> dict[str, Model]:
    """Return models on a device; None: where they are."""
    return {name: replace(model, device=device or model.device) for name, model in models.items()}
