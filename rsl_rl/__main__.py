"""`python -m rsl_rl` is the command `rsl-rl`."""

import sys

from rsl_rl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
