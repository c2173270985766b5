import operator
import os
import time
from pathlib import Path

from mmengine.dist import barrier, is_main_process
from mmengine.fileio import LocalBackend, register_backend
from mmengine.hooks import CheckpointHook, Hook
from mmengine.runner import Runner
from torch import nn

from mmvidformer.checkpoints.partial import Base, hashes_of, keep_trained
from mmvidformer.checkpoints.published import row_of
from mmvidformer.engine.checkpointing.loop import ResumableTrainLoop
from mmvidformer.engine.checkpointing.own_files import STARTED, own_facts, remove_parts, started_of
from mmvidformer.engine.checkpointing.remote import CLIENT, checkpoint_folder
from mmvidformer.engine.checkpointing.resume import INTERRUPTED, LAST, checkpoints_in
from mmvidformer.engine.checkpointing.settings import (
    check_state,
    compare_settings,
    replay_schedules,
    settings_of,
    use_config,
)
from mmvidformer.engine.loading import model_of, read_checkpoint
from mmvidformer.registry import HOOKS
from mmvidformer.storage.atomic import write_atomically
from mmvidformer.storage.files import exists, is_remote, join, remove, split_path, write_file

SETTINGS = "settings"  # in the meta of a checkpoint
SHOWN = 6  # differences of configs in a message


class AtomicBackend(LocalBackend):
    """MMEngine's backend for local files, which writes with ``write_atomically``."""

    def put(self, obj: bytes, filepath: str | Path) -> None:
        """Write bytes."""
        with write_atomically(filepath) as part:
            part.write_bytes(obj)


class _DeferredDeletes(LocalBackend):
    """A backend that only notes what MMEngine wants deleted."""

    def __init__(self) -> None:
        self.outdated: list[str] = []

    def isfile(self, filepath: str | Path) -> bool:
        return exists(filepath)

    def remove(self, filepath: str | Path) -> None:
        self.outdated.append(str(filepath))


@HOOKS.register_module()
class AtomicCheckpointHook(CheckpointHook):
    """MMEngine's ``CheckpointHook``, with a complete checkpoint on disk at every moment.

    Each is written atomically, and only then are outdated ones deleted. Checkpoints also hold what
    ``ResumableTrainLoop`` needs to resume in the middle of an epoch. Arguments are those of
    ``CheckpointHook``; ``out_dir`` may be an address in object storage, such as
    ``s3://BUCKET/DIR``. Of equally good checkpoints the last one is the best: with few validation
    videos the first epochs may be as good by chance.

    Only files of this run in its own folder are deleted, whatever paths a checkpoint holds. A run
    that is resumed in another folder searches for the best one of that folder anew.
    """

    rule_map = {"greater": operator.ge, "less": operator.le}
    _started: float | None = None
    _resumed_from: str | None = None
    _replays: bool = False

    def before_train(self, runner: Runner) -> None:
        """Delete the temporary files of killed runs, and note what this one resumes from."""
        # For all plain paths, since not every writer of MMEngine accepts a backend.
        register_backend("local", AtomicBackend, force=True, prefixes="")
        if self.out_dir and is_remote(self.out_dir):
            self.file_client_args = dict(CLIENT)
        if self._started is None:
            self._started = time.time()
        self._resumed_from = runner._load_from if runner._resume else None
        facts, folder = runner.message_hub.runtime_info, checkpoint_folder(self.out_dir, runner)
        known = own_facts(facts, folder, self.filename_tmpl.format, self._is_own)
        facts.clear()
        facts.update(known)
        super().before_train(runner)
        self.file_backend = _DeferredDeletes()
        if not is_remote(folder) and is_main_process():
            remove_parts(Path(folder))
            if not runner._resume and checkpoints_in(Path(folder)):
                used = f"{folder} has checkpoints of an earlier run"
                runner.logger.warning(f"{used}: new ones replace those of the same name")
        if runner._resume and runner.iter >= runner.max_iters:
            left = "nothing is left to train; --epochs N trains longer"
            runner.logger.warning(f"{runner.iter} of {runner.max_iters} steps are done: {left}")
        if self._replays:
            replay_schedules(runner)
        if runner._resume and runner._load_from and is_main_process():
            # A run that was killed before it noted its last checkpoint may have no steps left.
            # MMEngine writes and reads the note in the encoding of the system.
            Path(runner.work_dir, LAST).write_text(runner._load_from, encoding="locale")
        barrier()

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Add the start of the run, its settings, and what determines the order of the samples."""
        checkpoint["meta"] |= {STARTED: self._started, SETTINGS: settings_of(runner.cfg)}
        if isinstance(runner.train_loop, ResumableTrainLoop):
            checkpoint["meta"]["sampling"] = runner.train_loop.describe_order()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Resume the order of the samples; let settings of the config count, and say which.

        Raises:
            CannotContinue: If the checkpoint has weights only, or the state of another optimizer.
        """
        if not runner._resume:
            return
        check_state(checkpoint, runner._load_from)
        self._started = checkpoint["meta"].get(STARTED, 0.0)
        loop, same_length = runner.train_loop, True
        if isinstance(loop, ResumableTrainLoop):
            loop.saved = checkpoint["meta"].get("sampling") or {}
            same_length = not loop.has_new_length()
        changes = use_config(runner, checkpoint, same_length)
        self._replays = "param_schedulers" not in checkpoint
        if SETTINGS in checkpoint["meta"]:
            differences = compare_settings(checkpoint["meta"][SETTINGS], settings_of(runner.cfg))
            changes = [*differences] or changes
        if changes:
            more = f"; and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
            runner.logger.warning(
                f"the config counts where it differs from that of {runner._load_from}: "
                f"{'; '.join(changes[:SHOWN])}{more}"
            )

    def after_val_epoch(self, runner: Runner, metrics: dict[str, float]) -> None:
        """Keep the best checkpoint, unless the result that decides is not defined."""
        wanted = self.key_indicators if self.save_best else []
        undefined = [name for name in wanted if name not in ("auto", *metrics)]
        if undefined:
            runner.logger.warning(f"no {undefined[0]}: this checkpoint cannot be the best")
            return
        super().after_val_epoch(runner, metrics)

    def save_now(self, runner: Runner, iteration: int) -> str:
        """Save ``interrupted.pth``, which the next checkpoint replaces, and return its path."""
        self.filename_tmpl, self.max_keep_ckpts = INTERRUPTED, -1
        meta = dict(epoch=runner.epoch, iter=iteration)
        super()._save_checkpoint_with_step(runner, iteration, meta)
        self._note_last()
        return self.last_ckpt

    def _save_checkpoint_with_step(self, runner: Runner, step: int, meta: dict) -> None:
        super()._save_checkpoint_with_step(runner, step, meta)
        self._note_last()
        self.file_backend.remove(os.path.join(self.out_dir, INTERRUPTED))
        self._delete_outdated()

    def _save_best_checkpoint(self, runner: Runner, metrics: dict) -> None:
        super()._save_best_checkpoint(runner, metrics)
        self._delete_outdated()

    def _note_last(self) -> None:
        """Note the last checkpoint in object storage; MMEngine does so in the work dir alone."""
        if is_remote(self.out_dir) and is_main_process():
            write_file(join(self.out_dir, LAST), self.last_ckpt.encode())

    def _delete_outdated(self) -> None:
        several = getattr(self, "best_ckpt_path_dict", {}).values()
        best = {getattr(self, "best_ckpt_path", None), *several}
        for path in {*self.file_backend.outdated} - best if is_main_process() else ():
            if is_remote(path) or self._is_own(path):
                remove(path)
        self.file_backend.outdated.clear()

    def _is_own(self, path: str) -> bool:
        """Whether a file is there and of this run, which may have been resumed."""
        if is_remote(path):  # to ask the file would be to download it
            is_here = split_path(self._resumed_from or "")[0] == split_path(path)[0]
            return is_here and exists(path)
        return started_of(path) == self._started


@HOOKS.register_module()
class SaveTrainedHook(Hook):
    """Saves frozen weights once, so that checkpoints of LoRA are small.

    They are in ``base_<hash>.safetensors`` beside the checkpoints, in a local folder, or nowhere if
    they are published ones. The tools read both as one (``checkpoints.partial``). In object
    storage, checkpoints hold all weights that are not published ones.

    Args:
        weights: What the model started from, file or address; only a published address matters.
    """

    priority = "LOWEST"  # after hooks that exchange weights, such as EMAHook

    def __init__(self, weights: str | None = None) -> None:
        self.weights = weights
        self._published: Base | None = None

    def before_train(self, runner: Runner) -> None:
        """Read the published weights."""
        if is_main_process():
            self._published = published_base(self.weights, model_of(runner))

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Drop the frozen weights."""
        if not is_main_process():  # others write nothing, and may have no values
            return
        folder = self._folder(runner)
        if is_remote(folder) and self._published is None:
            return  # a checkpoint that is read from there cannot name a file beside it
        parameters = model_of(runner).named_parameters()
        frozen = [name for name, value in parameters if not value.requires_grad]
        keep_trained(checkpoint, frozen, folder, self._published)

    def _folder(self, runner: Runner) -> str:
        """Return the folder of the checkpoints."""
        folders = [hook.out_dir for hook in runner.hooks if isinstance(hook, CheckpointHook)]
        return [*folders, runner.work_dir][0] or runner.work_dir


def published_base(weights: str | None, model: nn.Module) -> Base | None:
    """Read the weights that a model starts from, if they are published."""
    if weights is None or row_of(weights) is None:
        return None
    state = read_checkpoint(weights, model)["state_dict"]
    return Base(weights, hashes_of(state, state))
