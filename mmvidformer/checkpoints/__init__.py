"""Conversion of weights between other projects' names and this package's."""

from mmvidformer.checkpoints.formats import FORMATS, convert_file, read_model, recognize
from mmvidformer.checkpoints.image_vit import init_from_image
from mmvidformer.checkpoints.io import save_checkpoint
from mmvidformer.checkpoints.timm_models import arguments_of
from mmvidformer.checkpoints.trained import load_checkpoint
