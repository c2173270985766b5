"""Checkpoints that survive a kill or a full disk while they are written."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from mmengine.dist import barrier, is_main_process
from mmengine.hooks import CheckpointHook
from mmengine.runner import Runner

from mmvidformer.engine.checkpointing.atomic import AtomicBackend, remove_parts, use_atomic_files
from mmvidformer.engine.checkpointing.loop import ResumableTrainLoop
from mmvidformer.engine.checkpointing.resume import INTERRUPTED
from mmvidformer.registry import HOOKS


class _DeferredDeletes(AtomicBackend):
    """A backend that only notes what MMEngine wants deleted."""

    def __init__(self) -> None:
        self.outdated: list[str] = []

    def remove(self, filepath: str | Path) -> None:
        """Note a file or a folder of shards."""
        self.outdated.append(str(filepath))

    rmtree = remove


@HOOKS.register_module()
class AtomicCheckpointHook(CheckpointHook):
    """MMEngine's ``CheckpointHook``, with a complete checkpoint on disk at every moment.

    MMEngine 0.10 writes in place, and deletes the oldest and the previous best checkpoint before it
    writes the next. Here each checkpoint is written atomically, then the file ``last_checkpoint``,
    and only then are outdated ones deleted. On a full disk training ends with an error, and all
    earlier checkpoints remain. Checkpoints also hold what ``ResumableTrainLoop`` needs to resume in
    the middle of an epoch. The arguments are those of ``mmengine.hooks.CheckpointHook``, except
    that ``out_dir`` must be a local or mounted folder.
    """

    def before_train(self, runner: Runner) -> None:
        """Delete the temporary files of killed runs."""
        use_atomic_files()
        super().before_train(runner)
        self.file_backend = _DeferredDeletes()
        if is_main_process():
            for name in remove_parts(self.out_dir):
                runner.logger.warning(f"removed {name}, the unfinished file of a killed run")
        barrier()

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Add what determines the order of the samples."""
        if isinstance(runner.train_loop, ResumableTrainLoop):
            checkpoint["meta"]["sampling"] = runner.train_loop.sampling_state()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Pass it to the train loop when the run resumes."""
        if runner._resume and isinstance(runner.train_loop, ResumableTrainLoop):
            runner.train_loop.load_sampling_state(checkpoint["meta"].get("sampling"))

    def save_now(self, runner: Runner, iteration: int) -> str:
        """Save the state between two training steps as ``interrupted.pth``.

        The next regular checkpoint replaces it.

        Args:
            runner: Runner in training.
            iteration: Number of finished steps.

        Returns:
            Path of the checkpoint.
        """
        self._save(runner, INTERRUPTED, dict(epoch=runner.epoch, iter=iteration), by_epoch=False)
        return self.last_ckpt

    def _save(self, runner: Runner, name: str, meta: dict, by_epoch: bool) -> None:
        """Save a checkpoint to resume from, then point to it in ``last_checkpoint``."""
        self.last_ckpt = os.path.join(self.out_dir, name)
        runner.message_hub.update_info("last_ckpt", self.last_ckpt)
        runner.save_checkpoint(
            self.out_dir,
            name,
            save_optimizer=self.save_optimizer,
            save_param_scheduler=self.save_param_scheduler,
            meta=meta,
            by_epoch=by_epoch,
            **self.args,
        )
        if is_main_process():
            note = os.path.join(runner.work_dir, "last_checkpoint")
            AtomicBackend().put_text(self.last_ckpt, note)

    def _save_checkpoint_with_step(self, runner: Runner, step: int, meta: dict) -> None:
        outdated = [INTERRUPTED]
        if self.max_keep_ckpts > 0 and [*self.keep_ckpt_ids][-1:] != [step]:
            if len(self.keep_ckpt_ids) == self.max_keep_ckpts:
                outdated.append(self.filename_tmpl.format(self.keep_ckpt_ids.popleft()))
            self.keep_ckpt_ids.append(step)
            runner.message_hub.update_info("keep_ckpt_ids", [*self.keep_ckpt_ids])
        self._save(runner, self.filename_tmpl.format(step), meta, self.by_epoch)
        self._delete(outdated)

    def _save_best_checkpoint(self, runner: Runner, metrics: dict) -> None:
        super()._save_best_checkpoint(runner, metrics)
        several = getattr(self, "best_ckpt_path_dict", {}).values()
        best = {getattr(self, "best_ckpt_path", None), *several}
        self._delete(path for path in self.file_backend.outdated if path not in best)
        self.file_backend.outdated.clear()

    def _delete(self, names: Iterable[str]) -> None:
        for name in names if is_main_process() else ():
            path = Path(self.out_dir) / name  # an absolute name stays as it is
            if path.is_dir():  # shards
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
