"""Build step that adds configs, scripts and the model index to the package as ``.mim``."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("configs", "tools", "model-index.yml")
# Scripts that need a checkout of the repository.
DEVELOPMENT = (
    "set_address.py",
    *("check_install.sh", "coverage.sh", "gpu_check.sh", "quickstart.sh"),
    *("run_tests.sh", "setup_env.sh"),
)


class BuildWithMim(build_py):
    """Copy the files into a wheel, or link them for an editable install."""

    def run(self):
        super().run()
        root = Path(__file__).resolve().parent
        if getattr(self, "editable_mode", False):
            self._link(root)
            return
        target = Path(self.build_lib) / "mmvidformer" / ".mim"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        ignore = shutil.ignore_patterns("__pycache__", *DEVELOPMENT)
        for name in SHIPPED:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, target / name, ignore=ignore)
            else:
                shutil.copy2(source, target / name)

    @staticmethod
    def _link(root):
        target = root / "mmvidformer" / ".mim"
        target.mkdir(exist_ok=True)
        for name in SHIPPED:
            link = target / name
            if link.is_symlink():  # from an earlier install, perhaps before the checkout was moved
                link.unlink()
            if not link.exists():
                link.symlink_to(Path("..") / ".." / name)


setup(cmdclass={"build_py": BuildWithMim})
