"""Checkpoints that survive whatever happens while they are written."""

import os
from pathlib import Path

from mmengine.dist import barrier, is_main_process
from mmengine.hooks import CheckpointHook
from mmengine.runner import Runner

from mmvidformer.engine.checkpointing.atomic import AtomicBackend, remove_parts, use_atomic_files
from mmvidformer.engine.checkpointing.loop import ResumableTrainLoop
from mmvidformer.engine.checkpointing.resume import INTERRUPTED
from mmvidformer.registry import HOOKS


@HOOKS.register_module()
class AtomicCheckpointHook(CheckpointHook):
    """MMEngine's ``CheckpointHook``, which at each moment leaves a whole checkpoint behind.

    MMEngine 0.10 writes in place, and deletes the oldest checkpoint and the last best one before
    it writes the next. Here a checkpoint is written beside its name and renamed once it is on the
    disk (also the best ones, those with averaged weights and those of sharded training), then the
    note ``last_checkpoint`` follows in the same way, and only then is anything deleted. On a
    full disk training ends with an error, and the checkpoints before are as they were.

    Checkpoints also hold what ``ResumableTrainLoop`` needs to go on from the middle of an epoch.
    Arguments are those of ``mmengine.hooks.CheckpointHook``; ``out_dir`` must be a local folder, as
    shared file systems are too.
    """

    def before_train(self, runner: Runner) -> None:
        """Clear away what killed writers left."""
        use_atomic_files()
        super().before_train(runner)
        if is_main_process() and os.path.isdir(self.out_dir):
            for name in remove_parts(self.out_dir):
                runner.logger.warning(f"removed {name}, which was being written by a killed run")
        barrier()

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Add what the order of the clips depends on."""
        if isinstance(runner.train_loop, ResumableTrainLoop):
            checkpoint["meta"]["sampling"] = runner.train_loop.sampling_state()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Hand that to the loop of a run that resumes."""
        if runner._resume and isinstance(runner.train_loop, ResumableTrainLoop):
            runner.train_loop.load_sampling_state(checkpoint["meta"].get("sampling"))

    def save_now(self, runner: Runner, iteration: int) -> str:
        """Save the state between two steps as ``interrupted.pth``, to be resumed from.

        The next regular checkpoint takes its place.

        Args:
            runner: The runner in training.
            iteration: Steps that are done.

        Returns:
            Path of the checkpoint.
        """
        self._save(runner, INTERRUPTED, dict(epoch=runner.epoch, iter=iteration), by_epoch=False)
        return self.last_ckpt

    def _save(self, runner: Runner, name: str, meta: dict, by_epoch: bool) -> None:
        """Save what training goes on from, then point to it."""
        self.last_ckpt = self.file_backend.join_path(self.out_dir, name)
        runner.message_hub.update_info("last_ckpt", self.last_ckpt)
        runner.save_checkpoint(
            self.out_dir,
            name,
            self.file_client_args,
            save_optimizer=self.save_optimizer,
            save_param_scheduler=self.save_param_scheduler,
            meta=meta,
            by_epoch=by_epoch,
            backend_args=self.backend_args,
            **self.args,
        )
        if is_main_process():
            note = os.path.join(runner.work_dir, "last_checkpoint")
            AtomicBackend().put_text(self.last_ckpt, note)

    def _save_checkpoint_with_step(self, runner: Runner, step: int, meta: dict) -> None:
        outdated = []
        if self.max_keep_ckpts > 0:
            kept = [*self.keep_ckpt_ids]
            if kept[-1:] != [step]:
                kept.append(step)
            outdated = kept[: -self.max_keep_ckpts]
            self.keep_ckpt_ids.clear()
            self.keep_ckpt_ids.extend(kept[-self.max_keep_ckpts :])
            runner.message_hub.update_info("keep_ckpt_ids", [*self.keep_ckpt_ids])
        self._save(runner, self.filename_tmpl.format(step), meta, self.by_epoch)
        for old in outdated:
            self._remove(self.filename_tmpl.format(old))
        self._remove(INTERRUPTED)

    def _save_best_checkpoint(self, runner: Runner, metrics: dict) -> None:
        before = self._best_paths()
        self._set_best_paths({})  # MMEngine would delete them before the new ones are written
        super()._save_best_checkpoint(runner, metrics)
        after = self._best_paths()
        self._set_best_paths({**before, **after})
        for key in before.keys() & after.keys():
            if before[key] != after[key]:
                self._remove(before[key])

    def _best_paths(self) -> dict[str, str]:
        if not self.save_best:
            return {}
        if len(self.key_indicators) == 1:
            return {"": self.best_ckpt_path} if self.best_ckpt_path else {}
        return {key: path for key, path in self.best_ckpt_path_dict.items() if path}

    def _set_best_paths(self, paths: dict[str, str]) -> None:
        if not self.save_best:
            return
        if len(self.key_indicators) == 1:
            self.best_ckpt_path = paths.get("")
        else:
            self.best_ckpt_path_dict = {key: paths.get(key) for key in self.key_indicators}

    def _remove(self, name: str) -> None:
        path = Path(self.out_dir) / name  # a whole path stays as it is
        if is_main_process() and path.is_file():
            path.unlink()
