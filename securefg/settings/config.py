"""The run's configuration: YAML and `--set a.b=c` parsed once into frozen models."""

from __future__ import annotations

import copy
import difflib
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    Field,
    SerializeAsAny,
    ValidationError,
    field_validator,
    model_validator,
)

from securefg.foundation.complaints import explain_errors
from securefg.foundation.errors import ConfigError
from securefg.foundation.quoting import shortened, shown
from securefg.foundation.settings import Settings
from securefg.foundation.suggestions import complain_about, list_names, name_kind, spell_value
from securefg.foundation.yaml_text import parse_yaml, read_yaml
from securefg.settings.data import DataSettings
from securefg.settings.execution import (
    JUDGING,
    AuditSettings,
    EngineSettings,
    OutputSettings,
    TrainingSettings,
)
from securefg.settings.methods import MethodSettings, method_names, method_settings
from securefg.settings.partition import (
    PartitionSettings,
    SharesSettings,
    partition_names,
    partition_settings,
)
from securefg.settings.privacy import PrivacySettings
from securefg.settings.shipped import find_config, name_config


class ContextSettings(Settings):
    """Echoed on pages as it is written; it changes nothing in a run."""

    purpose: str = Field("", max_length=2000, description="why the model is trained")
    subjects: str = Field("", max_length=200, description="whose data it is, as `customers`")
    num_subjects: int | None = Field(None, ge=0, description="number of data subjects")
    recipients: str = Field("", max_length=2000, description="who receives the model")
    necessity: str = Field("", max_length=4000, description="why less would not do")
    measures: str = Field("", max_length=4000, description="measures outside this software")


def _require_name(key: str, value: Any, known: Sequence[str]) -> str:
    """Return the name in a part of a config, or raise `ConfigError` with an example."""
    if not isinstance(value, dict):
        near = difflib.get_close_matches(value, known, n=1) if isinstance(value, str) else []
        hint = f"did you mean {key}: {{name: {near[0]}}}?" if near else ""
        expected = f"a mapping such as {{name: {known[0]}}}"
        raise ConfigError(complain_about(key, spell_value(value), expected, hint))
    if not isinstance(value.get("name"), str):
        found = spell_value(value.get("name"))
        expected = f"{list_names(known)}, or a module path"
        raise ConfigError(complain_about(f"{key}.name", found, expected))
    return str(value["name"])


class RunConfig(Settings):
    """One run, complete: the same config gives the same result to the bit on one machine."""

    renamed: ClassVar[Mapping[str, str]] = {"merged": "centralised"}

    name: str = Field("run", pattern=r"^[\w.-]+$", description="prefix of the run folder's name")
    method: SerializeAsAny[MethodSettings] = Field(
        description="which method trains, with its settings"
    )
    data: DataSettings
    partition: SerializeAsAny[PartitionSettings] = Field(
        SharesSettings(), description="how nodes are dealt to clients"
    )
    centralised: bool = Field(
        False, description="give one client the union of what all clients of the partition hold"
    )
    training: TrainingSettings = TrainingSettings()
    privacy: PrivacySettings = PrivacySettings()
    engine: EngineSettings = EngineSettings()
    output: OutputSettings = OutputSettings()
    audit: AuditSettings = AuditSettings()
    context: ContextSettings = ContextSettings()
    seed: int = Field(
        0, ge=0, lt=2**63, description="seed of every random stream but protecting noise"
    )
    device: str = Field(
        "auto", description="auto (a GPU that `securefg doctor` proved, else cpu), cpu or cuda:N"
    )

    @field_validator("device")
    @classmethod
    def _is_a_device(cls, value: str) -> str:
        if not re.fullmatch(r"auto|cpu|meta|cuda(:\d+)?", value):
            raise ValueError(f"found {shown(value)}; expected auto, cpu, cuda or cuda:N")
        return value

    @model_validator(mode="after")
    def _no_wrong_label_is_scored(self) -> Self:
        if self.data.label_noise and getattr(self.method, "scoring", "") == "cross_validation":
            raise ValueError(
                f"data.label_noise: found {self.data.label_noise}; expected 0 with method.scoring: "
                "cross_validation, which would score the wrong labels; or method.scoring: split"
            )
        return self

    @model_validator(mode="after")
    def _sites_hold_sessions(self) -> Self:
        masking = self.privacy.secure_aggregation
        if self.engine.name == "flare" and masking is not None and masking.form != "session":
            raise ValueError(
                f"privacy.secure_aggregation.form: found {masking.form}; expected session with "
                "engine.name: flare. Members do not enrol their keys at deployed sites"
            )
        return self

    @model_validator(mode="after")
    def _no_canary_is_scored(self) -> Self:
        if self.audit.canaries and getattr(self.method, "scoring", "") == "cross_validation":
            raise ValueError(
                f"audit.canaries: found {self.audit.canaries}; expected 0 with method.scoring: "
                "cross_validation, which would score their labels; or method.scoring: split"
            )
        return self

    @field_validator("method", mode="before")
    @classmethod
    def _read_method(cls, value: Any) -> Any:
        if isinstance(value, MethodSettings):
            return value
        return method_settings(_require_name("method", value, method_names())).model_validate(value)

    @field_validator("partition", mode="before")
    @classmethod
    def _read_partition(cls, value: Any) -> Any:
        if isinstance(value, PartitionSettings):
            return value
        name = _require_name("partition", value, partition_names())
        return partition_settings(name).model_validate(value)

    @property
    def as_given(self) -> RunConfig:
        """Return the config without what a rule chose, as a file has it."""
        return self.model_copy(update={"training": self.training.as_given})

    @property
    def hash(self) -> str:
        """Return the hash of everything that can change the result: all but names, places and the
        engine's kind.

        A setting with its default value is left out, so that a setting added later does not make
        another run of an old one.
        """
        relevant = self.as_given.model_dump(
            mode="json", exclude={"output", "name", "engine", "context"}, exclude_defaults=True
        )
        relevant["method"]["name"] = self.method.name
        relevant["partition"] = {**relevant.get("partition", {}), "name": self.partition.name}
        relevant["engine"] = {"threads": self.engine.threads}
        relevant["data"].pop("root", None)
        if self.data.folder is not None:  # what is in it has fingerprints; where it lies is no part
            relevant["data"]["folder"] = self.data.folder.name
        if not self.audit.canaries:  # nothing is inserted, whatever the seed
            relevant.pop("audit", None)
        for name in JUDGING:  # they judge a run, and change none
            relevant.get("audit", {}).pop(name, None)
        return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()[:12]


def load_config(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a YAML file, or a shipped config by its name, and apply `a.b=c` overrides."""
    found = find_config(path)
    return _place_folders(
        parse_config(_read_tree(found), overrides, default_name=found.stem), found
    )


def _place_folders(config: RunConfig, path: Path) -> RunConfig:
    """Return the tree with relative data folders beside the config, so that a run is found again
    from anywhere."""
    own = {name: getattr(config.data, name) for name in ("root", "folder")}
    moved = {
        name: (path.parent / folder).resolve()
        for name, folder in own.items()
        if folder is not None and not folder.is_absolute()
    }
    return config.model_copy(update={"data": config.data.model_copy(update=moved)})


def parse_config(
    tree: dict[str, Any], overrides: Sequence[str] = (), default_name: str = "run"
) -> RunConfig:
    """Check a tree of settings with its overrides. Raise `ConfigError` for a fault."""
    tree = {"name": default_name, **copy.deepcopy(tree)}
    tree.pop("resolved", None)  # a run folder's own config.yaml can be run again
    for override in overrides:
        apply_override(tree, override)
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(
            explain_errors(error, RunConfig, partial(_find_settings, tree))
        ) from error


def _find_settings(tree: Mapping[str, Any], keys: Sequence[str]) -> type[BaseModel] | None:
    """Return the settings of the method or partition that a config names."""
    part = tree.get(keys[0])
    if len(keys) != 1 or keys[0] not in _SETTINGS or not isinstance(part, dict):
        return None
    return _SETTINGS[keys[0]](part["name"])


def config_schema() -> dict[str, Any]:
    """Return JSON Schema for editors, with the settings of every method and partition."""
    schema = RunConfig.model_json_schema()
    definitions = schema.setdefault("$defs", {})
    kinds: dict[str, Mapping[str, type[BaseModel]]] = {
        "method": {name: method_settings(name) for name in method_names()},
        "partition": {name: partition_settings(name) for name in partition_names()},
    }
    for key, settings in kinds.items():
        for name, kind in settings.items():
            own = kind.model_json_schema(ref_template="#/$defs/{model}")
            definitions.update(own.pop("$defs", {}))
            own["properties"]["name"] = {"const": name}
            definitions[f"{key}_{name}"] = own
        choices = [{"$ref": f"#/$defs/{key}_{name}"} for name in settings]
        schema["properties"][key] = {"oneOf": choices}
    return schema


_SETTINGS: Mapping[str, Callable[[str], type[BaseModel]]] = MappingProxyType(
    {"method": method_settings, "partition": partition_settings}
)


def _read_tree(path: Path) -> dict[str, Any]:
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: found {name_kind(tree)}; expected keys such as method and data")
    if "sweeps" in tree and "method" not in tree:
        raise ConfigError(
            f"{name_config(path)}: found a curve's config (`sweeps`); expected a run's (`method`); "
            f"draw it with: securefg curve {name_config(path)}"
        )
    return tree


def apply_override(tree: dict[str, Any], override: str) -> None:
    """Apply `a.b=c` to the tree. c is read as YAML, so 3, true, [1, 2] and null mean what they mean
    there."""
    path, separator, text = override.partition("=")
    *parents, last = path.strip().split(".")
    if not separator or not last:
        raise ConfigError(f"--set: found {shown(override)}; expected KEY.KEY=VALUE, as seed=3")
    named = parents[:2] in (["privacy", "field_rules"], ["privacy", "fields"])
    if named and len(parents) == 4:
        parents = [*parents[:2], f"{parents[2]}.{parents[3]}"]  # the names of fields have a dot
    for key in parents:
        node = tree.setdefault(key, {})
        if not isinstance(node, dict):
            raise ConfigError(
                f"--set {shortened(override)}: found {spell_value(node)} at {key}; "
                "expected a mapping there, to set a key of it"
            )
        tree = node
    tree[last] = parse_yaml(text, f"--set {shortened(override)}")
