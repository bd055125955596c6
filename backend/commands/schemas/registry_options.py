"""Options of commands that query a registry: the cluster and the subject."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.shell.completion import clusters_beginning, subjects_beginning

ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Cluster of the registry. Default, if you may see the tree: the primary, which accepts writes.",
        autocompletion=clusters_beginning,
    ),
]
Subject = Annotated[
    str,
    typer.Argument(
        help="Name of the subject on that cluster, such as acme-retail-prod-orders-value.",
        autocompletion=subjects_beginning,
    ),
]
SubjectOrAll = Annotated[
    str | None,
    typer.Argument(
        help="Name of the subject on that cluster; left out: the global setting.",
        autocompletion=subjects_beginning,
    ),
]
