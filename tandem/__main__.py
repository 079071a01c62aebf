"""`python -m tandem` is the `tandem` command."""

from tandem.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main(prog_name="tandem")
