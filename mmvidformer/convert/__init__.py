"""Conversion of weights between other projects' names and this package's."""

from mmvidformer.convert.formats import FORMATS, convert_file, read_model, recognize
from mmvidformer.convert.image_vit import init_from_image
from mmvidformer.convert.io import save_checkpoint
from mmvidformer.convert.timm_models import arguments_of
from mmvidformer.convert.trained import load_checkpoint
