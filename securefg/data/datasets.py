"""Loading a dataset by its settings."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from securefg.data.dataset import Dataset, Source
from securefg.data.drawn_graphs import draw_csbm, draw_subcora
from securefg.data.graph import Graph, sorted_edges, undirected
from securefg.data.readers import folder, geometric, published
from securefg.data.sources import cached_dataset, locate_files
from securefg.data.splits import choose_split
from securefg.foundation.errors import DataError
from securefg.foundation.extensions import find_module
from securefg.foundation.streams import torch_stream
from securefg.settings.data import DataSettings
from securefg.settings.datasets import DATASETS, GROUP, Norm, dataset_info


def load(settings: DataSettings, seed: int) -> Graph:
    """The graph that `settings` asks for; `seed` is the run's, for what is drawn.

    Raises `DataError` for files that are missing or faulty, `ConfigError` for a split that the
    dataset does not have.
    """
    if settings.csbm is not None:
        return draw_csbm(settings.csbm, seed)
    if settings.subcora is not None:
        return draw_subcora(_read_cora(settings), settings.subcora, seed)
    dataset = _read_dataset(settings, seed)
    return Graph(
        name=settings.name,
        features=_scale_features(dataset.features, settings),
        edge_index=dataset.edge_index,
        labels=dataset.labels,
        split=choose_split(settings.name, dataset, settings.split, seed),
        num_classes=dataset.num_classes,
        directed=dataset.directed,
        owners=dataset.owners,
        edge_features=dataset.edge_features,
    )


def _read_cora(settings: DataSettings) -> Graph:
    """Cora as a whole, scaled as the settings of subcora have it."""
    norm = settings.normalize_features or DATASETS[settings.name].norm
    return load(
        settings.model_copy(update={"name": "cora", "subcora": None, "normalize_features": norm}), 0
    )


def normalize_rows(features: Tensor, norm: Norm = "l1") -> Tensor:
    """x_i / |x_i|_1 or x_i / |x_i|_2; a row of zeros stays as it is."""
    if norm == "none":
        return features
    norms: Tensor = torch.linalg.vector_norm(features, ord=int(norm[1]), dim=1, keepdim=True)
    scaled: Tensor = features / norms.masked_fill(norms == 0, 1)
    return scaled


def _read_dataset(settings: DataSettings, seed: int) -> Dataset:
    if settings.folder is not None:
        return folder.read(settings.folder)
    return _read_published(settings) if settings.name in DATASETS else _read_outside(settings, seed)


def _read_outside(settings: DataSettings, seed: int) -> Dataset:
    """Return what another package's DATASET reads, once it is found to be a whole dataset."""
    name = settings.name
    source = getattr(find_module("data.name", name, {}, GROUP), "DATASET", None)
    outside_data: object = source
    if isinstance(source, Source):
        outside_data = source.read(settings.root, torch_stream(seed, "dataset"))
    if not isinstance(outside_data, Dataset):
        raise DataError(
            f"data.name: found {type(outside_data).__name__} from {name!r}; expected a Source that "
            "reads a Dataset (securefg.data.dataset)"
        )
    kinds = (outside_data.features.dtype, outside_data.edge_index.dtype, outside_data.labels.dtype)
    if kinds != (torch.float32, torch.int64, torch.int64):
        raise DataError(f"{name}: found {kinds}; expected float32 features, int64 edges and labels")
    clean = sorted_edges if outside_data.directed else undirected
    checked = outside_data.checked(name)
    return replace(checked, edge_index=clean(checked.edge_index, checked.num_nodes))


def _read_published(settings: DataSettings) -> Dataset:
    name = settings.name
    reader = published if name in published.FILES else geometric
    files = reader.files(name)
    root = locate_files(name, files, settings.root)
    paths = [root / file for file in files]
    return cached_dataset(name, paths, lambda: reader.read(root, name).checked(paths[0].parent))


def _scale_features(features: Tensor, settings: DataSettings) -> Tensor:
    norm = settings.normalize_features or dataset_info(settings.name).norm
    scaled = normalize_rows(features, norm)
    return scaled if settings.projection is None else project_features(scaled, settings.projection)


def project_features(features: Tensor, dim: int) -> Tensor:
    """X R with R ~ N(0, 1/dim), the same for everybody and every run (Johnson-Lindenstrauss)."""
    stream = torch_stream(0, "projection", features.shape[1], dim)
    matrix = torch.randn(features.shape[1], dim, generator=stream)
    projected: Tensor = features @ matrix / dim**0.5
    return projected
