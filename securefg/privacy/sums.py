"""Exact sums: what leaves where sums are masked and carry no noise, by the fields' declarations.

The difference of two exact sums is exact. Constants are therefore counted once, in a census, and
left out of all other replies. Rows are summed without what follows from the census.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from securefg.foundation.errors import ConfigError
from securefg.privacy.influence import NOTHING, Influence
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.messages import Message, census_of


@dataclass(frozen=True)
class ExactSums:
    """A list of what replies leave out in a run with exact sums. It is empty in any other run.

    counted      by kind of reply: its constants, which leave in the census alone
    relative_to  by `Message.field`: the field of the request that the value started from
    shortened    the `Message.field`s whose rows lack their last number
    """

    counted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    relative_to: Mapping[str, str] = field(default_factory=dict)
    shortened: frozenset[str] = frozenset()

    def constants(self, reply: type[Message]) -> tuple[str, ...]:
        """Return the fields of a reply that the census counts."""
        return self.counted.get(reply.kind, ())

    def limits_rows(self, reply: type[Message]) -> bool:
        """Return whether only rows with enough holders may be in a reply."""
        constants = self.constants(reply)
        return any(d.holders in constants for d in reply.declarations.values())


def with_census(planned: Sequence[PlannedRelease]) -> list[PlannedRelease]:
    """Add the censuses of a method's releases. Which of both leaves depends on the run."""
    counted = {constant.field_of: constant.release for constant in _planned_constants(planned)}
    ordinary = [replace(r, bare=False) if r.name in counted else r for r in planned]
    return [*ordinary, *counted.values()]


@dataclass(frozen=True)
class _Constant:
    """A census's release, and the name of the field that it stands for."""

    field_of: str
    release: PlannedRelease


def _planned_constants(planned: Sequence[PlannedRelease]) -> Iterator[_Constant]:
    """Yield the planned constants of replies that hold other fields too, and holders of rows."""
    names = {release.name for release in planned}
    for release in planned:
        census = census_of(release.message)
        if census is None or release.discloses is not None:
            continue
        holders = release.declaration.holders
        counts = f"{release.message.__name__}.{holders}"
        if holders is not None and counts not in names:
            # A node is one row of the count, and an edge is none.
            names.add(counts)
            rows, one_row = release.num_rows, Influence(rows=1)
            once = PlannedRelease(
                census.reply, holders, 0, rows, rows, bound=1.0, node=one_row, edge=NOTHING
            )
            yield _Constant(counts, replace(once, bare=True))
        if release.field in census.reply.declarations:
            once = replace(release, message=census.reply, count=0, bare=True)
            yield _Constant(release.name, once)


def exact_sums(planned: Sequence[PlannedRelease], bare: Collection[str]) -> ExactSums:
    """Settle what replies leave out.

    bare  the fields that are masked and carry no noise
    """
    if not bare:
        return ExactSums()
    counted: dict[str, tuple[str, ...]] = {}
    for reply in dict.fromkeys(release.message for release in planned):
        census = census_of(reply)
        once = [r.field for r in planned if census is not None and r.message is census.reply]
        if once:
            _refuse_required(reply, once)
            _refuse_counted_twice(reply, once, counted)
            counted[reply.kind] = tuple(once)
    sent = [r for r in planned if r.leaves(bare=True) and r.message.kind in counted]
    return ExactSums(
        counted=counted,
        relative_to={
            r.name: r.relative_to
            for r in sent
            if r.relative_to is not None and r.declaration.weight in counted[r.message.kind]
        },
        shortened=frozenset(r.name for r in sent if r.declaration.adds_up and r.name in bare),
    )


def _refuse_required(reply: type[Message], constants: Sequence[str]) -> None:
    for name in constants:
        if name not in reply.optional:
            raise ConfigError(
                f"{reply.kind}.{name}: found a constant that every reply must have; expected "
                "Tensor | None: under masks without noise it leaves once, in a census; declare it "
                "so, or add noise"
            )


def _refuse_counted_twice(
    reply: type[Message], constants: Sequence[str], counted: Mapping[str, Sequence[str]]
) -> None:
    """Refuse two censuses of one constant: over different survivors they differ by single clients.
    A host knows its constants by the names of fields alone (`Host.constants`)."""
    for kind, names in counted.items():
        for name in sorted({*names} & {*constants}):
            raise ConfigError(
                f"{reply.kind}.{name}: found a constant that {kind} has too; expected it in one "
                "reply under masks without noise: a second sum of it over other clients would show "
                "the difference; leave it out of one of them, or add noise"
            )
