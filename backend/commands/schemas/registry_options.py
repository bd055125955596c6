"""What commands that ask a registry are told: which cluster's, and which subject."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.shell.completion import clusters_beginning, subjects_beginning

ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Whose registry is asked; left out, by who may see the tree: the primary, where schemas are written.",
        autocompletion=clusters_beginning,
    ),
]
Subject = Annotated[
    str,
    typer.Argument(
        help="As it is called on that cluster, such as acme-retail-prod-orders-value.",
        autocompletion=subjects_beginning,
    ),
]
SubjectOrAll = Annotated[
    str | None,
    typer.Argument(
        help="As it is called on that cluster; left out: what holds for all subjects.",
        autocompletion=subjects_beginning,
    ),
]
