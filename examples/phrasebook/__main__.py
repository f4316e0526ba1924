import sys

from phrasebook import __doc__, write

if len(sys.argv) != 2:
    sys.exit(__doc__)
write(sys.argv[1])
