"""Folders of saved models on the HuggingFace hub."""

from http import HTTPStatus
from pathlib import Path

from mmvidformer.errors import FileThere
from mmvidformer.storage.errors import StorageError


def upload_folder(folder: Path, repository: str, private: bool, force: bool) -> str:
    """Upload a folder as ``LoadedModel.push_to_hub`` does; returns the address.

    Raises:
        FileExistsError: If the repository is there already, and not ``force``.
        OSError: If the hub cannot be reached, or refuses.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    hub = HfApi()
    try:
        hub.create_repo(repository, private=private, exist_ok=force)
        hub.upload_folder(
            repo_id=repository, folder_path=folder, commit_message="Model, by mmvidformer"
        )
    except (OSError, HFValidationError) as error:
        answer = error.response if isinstance(error, HfHubHTTPError) else None
        if answer is not None and answer.status_code == HTTPStatus.CONFLICT:
            raise FileThere(f"{repository} is on the hub already; --force adds a commit") from error
        reason = " ".join([line for line in str(error).splitlines() if line][:2])
        raise StorageError(f"{repository} cannot be uploaded: {reason}") from error
    return f"hf://{repository}"
