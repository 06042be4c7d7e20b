"""The command by `python -m tallyroll.cli`."""

import sys

from tallyroll.cli.main import main

sys.exit(main())
