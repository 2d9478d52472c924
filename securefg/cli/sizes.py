"""Options for the sizes of data that is not at hand."""

from __future__ import annotations

from typing import Annotated

import typer

Nodes = Annotated[int | None, typer.Option(min=1, help="Number of nodes.")]
Features = Annotated[int | None, typer.Option(min=1, help="Number of features.")]
Classes = Annotated[int | None, typer.Option(min=2, help="Number of classes.")]
Train = Annotated[int | None, typer.Option(min=1, help="Number of nodes that train.")]
Clients = Annotated[int | None, typer.Option(min=1, help="Number of clients.")]
Holders = Annotated[int | None, typer.Option(min=1, help="Most clients that hold one node.")]
Links = Annotated[int | None, typer.Option(min=0, help="Most links of a node that is covered.")]
