"""`python -m runefold` is `runefold`."""

from runefold.cli import main

if __name__ == "__main__":
    main()
