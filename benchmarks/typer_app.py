"""What start-up is measured against: the smallest useful Typer application."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.command()
def train(steps: int = typer.Option(1, "--steps", "-s", help="How many steps.")) -> None:
    """Train something."""
    print(steps)


@app.command()
def show(name: str = typer.Option("model", help="What to show.")) -> None:
    """Show something."""
    print(name)


if __name__ == "__main__":
    app()
