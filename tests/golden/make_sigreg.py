"""Statistics of LeJEPA's code for fixed samples: python make_sigreg.py CLONE FOLDER.

Needs ``lejepa`` of a clone of https://github.com/rbalestr-lab/lejepa (CC BY-NC 4.0) at eddffdd. Of
its tests it runs that of Epps and Pulley, with its defaults.
"""

import sys
from pathlib import Path

import numpy as np
import torch

CLONE, FOLDER = map(Path, sys.argv[1:3])
sys.path.insert(0, str(CLONE))
from lejepa.univariate import EppsPulley  # noqa: E402

torch.manual_seed(0)
samples = {"normal": torch.randn(2, 50, 7)}
samples["shifted"] = 0.3 * samples["normal"] + 1.5
samples["collapsed"] = torch.zeros(1, 9, 2)
arrays = {}
for name, values in samples.items():
    arrays[f"samples/{name}"] = values.numpy()
    arrays[f"statistics/{name}"] = EppsPulley()(values).numpy()
np.savez_compressed(FOLDER / "sigreg.npz", **arrays)
