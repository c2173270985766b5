"""``mmvidformer test``, under the name that MMAction2's users and ``mim`` call."""

import sys

from mmvidformer.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["test", *sys.argv[1:]]))
