"""Checkpoint files: reading them, and converting weights between projects' names.

Each module imports only modules above it:

- ``labels``: class names of public datasets
- ``operations``: what a row of a key map does with tensors, and its inverse
- ``keymap``: rows of names with an operation (``names.yml``), and the result of a conversion
- ``published``: the table of published checkpoints (``published.yml``)
- ``backbones``: classes of backbones by scheme, and the arguments that build them
- ``flax``, ``timm_models``, ``dinov3``, ``huggingface_images``, ``videoprism``, ``streamformer``,
  ``trecvit``, ``vjepa2_1``, ``levjepa``, ``internvideo_next``, ``onevision``: weights of a project,
  to our names
- ``video_models``, ``native``: likewise, and back
- ``metadata``: what a file says beside its weights: classes, pixels, frame interval
- ``training_state``: what MMEngine writes beside the weights, allowed when files are read
- ``arrays``: arrays of NumPy and flax as tensors
- ``writing``: files of safetensors
- ``reading``: the content of a local file or folder, without running code
- ``formats``: all formats; recognizing one, converting its weights
- ``download``: the local file or folder of an address
- ``partial``: files with trained weights only, read with the weights that they were trained from
- ``huggingface``: writing a HuggingFace folder
- ``convert``: from one file to another
- ``fitting``: weights rewritten for the parts that a model has
- ``image_init``: a video model from the weights of an image model
- ``on_load``: conversion when MMEngine or ``load_state_dict`` loads weights
- ``mmengine_loader``: no code of checkpoints runs where MMEngine reads them
- ``addresses``: ``hf://``, ``published://`` and ``labels://`` wherever MMEngine reads a file
"""

from mmvidformer.checkpoints.convert import convert_file, read_model, save_checkpoint
from mmvidformer.checkpoints.formats import FORMATS, recognize
from mmvidformer.checkpoints.image_init import init_from_image
from mmvidformer.checkpoints.partial import load_checkpoint
from mmvidformer.checkpoints.timm_models import arguments_of
