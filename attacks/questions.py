"""The questions that attacks answer: targets in shuffled order, and what the adversary knows
before.

A question is a type. Its name draws the random targets, so that a file can move and a figure stays.
The game that is played for it (package `audits.games`) fills it in from the truth. An attack takes
the type that it declares, and never sees the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attacks.confidence import scaled_confidence
from securefg.protocol.secrets import (
    GROUP,
    HOLDER,
    IDENTITY,
    LABEL,
    LINK,
    MEMBER,
    MODEL,
    RECORD,
    SENSITIVE,
    UPLOAD,
    Secret,
)

Array = NDArray[np.float64]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Question:
    """A question about every target.

    ids    the targets: nodes or users (n,), or pairs of nodes (n, 2)
    prior  the guess that the adversary would make without the run, in the form of a guess; None for
           chance

    A subclass has a `name`, which draws its targets, and the `secret` that it asks for. A question
    from outside the package names the module of its game as well (`played_in`). Without a secret,
    each of its attacks has a row of its own in the table of who learns what.
    """

    name: ClassVar[str] = ""
    played_in: ClassVar[str] = ""
    secret: ClassVar[Secret | None] = None

    ids: Ids
    prior: Array | None = field(default=None, repr=False, kw_only=True)

    def __init_subclass__(
        cls, name: str = "", played_in: str = "", secret: Secret | None = None
    ) -> None:
        super().__init_subclass__()
        cls.name, cls.played_in = name, played_in
        cls.secret = secret or cls.secret


@dataclass(frozen=True)
class ClientQuestion(Question):
    """A question about the data of one client."""

    client: int


@dataclass(frozen=True)
class SampleQuestion(Question):
    """A question that asks to recover samples. Every client has `num_samples` samples."""

    num_samples: int


@dataclass(frozen=True)
class CandidateQuestion(Question):
    """A target's row is to be found in a pool of candidates, (pool, features)."""

    candidates: NDArray[np.float32] = field(repr=False)


@dataclass(frozen=True)
class KnownRowsQuestion(Question):
    """A question to an adversary who has the features of some nodes from elsewhere.

    known_ids    nodes whose rows it has (targets too, where their use is asked and not their
                 features), with
    known        their features
    known_prior  what the prior says of them, each from all others; None for their mean
    """

    known_ids: Ids = field(repr=False)
    known: NDArray[np.float32] = field(repr=False)
    known_prior: Array | None = field(default=None, repr=False, kw_only=True)


@dataclass(frozen=True)
class ClientRowsQuestion(KnownRowsQuestion):
    """A question about one client's data, to an adversary who has the features of some nodes."""

    client: int


@dataclass(frozen=True)
class RowsQuestion(KnownRowsQuestion):
    """A question about the rows of one client, or of all clients (None)."""

    client: int | None


@dataclass(frozen=True)
class Shadows:
    """A set of models like the target's, trained by the adversary on data it drew itself.

    logits  (shadows, targets, classes): what each says of every target
    member  (shadows, targets): whether the target was in its training set
    labels  (targets): the labels that the confidences are of
    around  (shadows, targets, classes): the mean log p that each says of a target's neighbours
    """

    logits: NDArray[np.float32]
    member: NDArray[np.bool_]
    labels: Ids
    around: NDArray[np.float32] | None = None

    @cached_property
    def confidence(self) -> Array:
        """Return the scaled confidence of every shadow in every target's label."""
        return scaled_confidence(self.logits, self.labels)

    @cached_property
    def confidence_around(self) -> Array:
        """Return the same of the answers around every target."""
        assert self.around is not None
        return scaled_confidence(self.around, self.labels)


@dataclass(frozen=True)
class TrainedOnQuestion(KnownRowsQuestion):
    """A question whether targets with these labels were trained on. The graph is known too.

    labels  of the targets
    edges   (2, E) of the whole graph
    """

    labels: Ids = field(repr=False)
    edges: Ids = field(repr=False)


@dataclass(frozen=True)
class ShadowQuestion(TrainedOnQuestion):
    """A question whether targets were trained on, to an adversary who trained shadow models
    itself."""

    shadows: Shadows = field(repr=False)


@dataclass(frozen=True)
class PresenceQuestion(ClientQuestion):
    """A question whether targets are among a client's data, by uploads that the adversary made
    itself.

    edges           (2, E), where it knows them: from targets to rows
    shadow_uploads  uploads like the client's, made on data that it drew, with
    shadow_member   (shadows, targets) whether the target was among these data
    """

    edges: Ids = field(repr=False)
    shadow_uploads: NDArray[np.float32] = field(repr=False)
    shadow_member: NDArray[np.bool_] = field(repr=False)


@dataclass(frozen=True)
class ShadowPairsQuestion(Question):
    """A question whether pairs are linked, to an adversary who knows a graph of the same kind.

    client         the client whose data is attacked, where it is one client's
    shadow_pairs   (m, 2): pairs of nodes of a graph that the adversary knows, with
    shadow_linked  (m,) whether they are linked, and
    shadow_client  the client whose graph it is, where it is one client's
    """

    client: int | None
    shadow_pairs: Ids = field(repr=False)
    shadow_linked: Ids = field(repr=False)
    shadow_client: int | None = None


@dataclass(frozen=True)
class SumQuestion(Question):
    """A question whether a target is in a sum, to an adversary who knows everybody else.

    sum_without  (targets, ...): the sum without the target
    moves        (targets, ...): by how much the target moves it
    """

    sum_without: Array = field(repr=False)
    moves: Array = field(repr=False)


@dataclass(frozen=True)
class ClientLinks(ClientQuestion, name="client_links", secret=LINK):
    """A question: which of these pairs of nodes are linked with this client?"""


@dataclass(frozen=True)
class ClientWords(ClientQuestion, name="client_words", secret=GROUP):
    """A question: which of these words are in the features of this client's nodes?"""


@dataclass(frozen=True)
class LabelledNodes(ClientQuestion, name="labelled_nodes", secret=MEMBER):
    """A question: which of these nodes have a label with this client?"""


@dataclass(frozen=True)
class NeighbourhoodWords(ClientQuestion, name="neighbourhood_words", secret=RECORD):
    """A question: which words are in the neighbourhoods of these nodes?"""


@dataclass(frozen=True)
class SharedNeighbour(ClientQuestion, name="shared_neighbour", secret=LINK):
    """A question: which of these pairs have a private neighbour in common?"""


@dataclass(frozen=True)
class EdgedNodes(ClientQuestion, name="edged_nodes", secret=LINK):
    """A question: which of these rows of the upload are of public nodes with an edge there?"""


@dataclass(frozen=True)
class PublicLinks(ClientQuestion, name="public_links", secret=LINK):
    """A question: which of these pairs of rows are of public nodes that are linked?"""


@dataclass(frozen=True)
class SharedElsewhere(Question, name="shared_elsewhere", secret=LINK):
    """A question: which pairs of public nodes share a private neighbour at another client?

    own_uploads  what the colluding clients uploaded in round 1, before any mask: (clients, ...)
    """

    own_uploads: NDArray[np.float32] = field(repr=False)


@dataclass(frozen=True)
class PublicLabels(ClientQuestion, name="public_labels", secret=LABEL):
    """A question: which labels do these rows' nodes have, whose labels nobody trained on?

    known_ids     rows of nodes whose labels the adversary knows, with
    known_labels  their labels
    num_classes   how many classes there are
    """

    known_ids: Ids = field(repr=False)
    known_labels: Ids = field(repr=False)
    num_classes: int


@dataclass(frozen=True)
class PublicMembers(ClientQuestion, name="public_members", secret=MEMBER):
    """A question: which of these rows' labels did a classifier train on?

    labels       of the targets, known to the adversary
    num_classes  how many classes there are
    """

    labels: Ids = field(repr=False)
    num_classes: int


@dataclass(frozen=True)
class TrainingLabels(ClientQuestion, name="training_labels", secret=LABEL):
    """A question: which labels do these nodes of this client have?"""


@dataclass(frozen=True)
class ClientSamples(SampleQuestion, name="client_samples", secret=RECORD):
    """A question: what are the samples of these clients?"""


@dataclass(frozen=True)
class TrainedSamples(SampleQuestion, name="trained_samples", secret=RECORD):
    """A question: which samples did these clients train on?"""


@dataclass(frozen=True)
class MatchedSamples(TrainedSamples, name="matched_samples"):
    """A question: which samples did these few clients train on, by one update of each?

    shape  of one sample, as the network reads it
    """

    shape: tuple[int, ...]


@dataclass(frozen=True)
class TrainingSamples(SampleQuestion, name="training_samples", secret=RECORD):
    """A question: which samples did these clients train on, up to their order?"""


@dataclass(frozen=True)
class IsolatedSamples(TrainedSamples, name="isolated_samples"):
    """A question: which samples do these clients have, where the server chose the weights?"""


@dataclass(frozen=True)
class ColludedSamples(SampleQuestion, name="colluded_samples", secret=RECORD):
    """A question: what are the samples of these clients, to their colluding neighbours?

    edges   (2, E) of the graph between the clients
    """

    edges: Ids = field(repr=False)


@dataclass(frozen=True)
class CandidateRows(CandidateQuestion, name="candidate_rows", secret=IDENTITY):
    """A question: which row of the pool is this user's?"""


@dataclass(frozen=True)
class Identify(CandidateQuestion, name="identify", secret=IDENTITY):
    """A question: which row of the pool is this user's?"""


@dataclass(frozen=True)
class NodeFeatures(RowsQuestion, name="node_features", secret=RECORD):
    """A question: what are the features of these nodes?"""


@dataclass(frozen=True)
class SensitiveColumn(RowsQuestion, name="sensitive_column", secret=SENSITIVE):
    """A question: what does a sensitive column say of these nodes?"""


@dataclass(frozen=True)
class PublicCandidates(RowsQuestion, name="public_candidates", secret=IDENTITY):
    """A question: which record of the pool is of the node behind each of these rows?

    candidates  (pool, features)
    """

    candidates: NDArray[np.float32] = field(repr=False)


@dataclass(frozen=True)
class SmallGraphEdges(ClientRowsQuestion, name="small_graph_edges", secret=LINK):
    """A question: which of these pairs are linked in the small graph of this client?"""


@dataclass(frozen=True)
class HeldNodes(ClientRowsQuestion, name="held_nodes", secret=HOLDER):
    """A question: which of these nodes does this client hold?"""


@dataclass(frozen=True)
class ListedRecords(KnownRowsQuestion, name="listed_records", secret=HOLDER):
    """A question: which of these records did a client train on?"""


@dataclass(frozen=True)
class CopiedModel(KnownRowsQuestion, name="copied_model", secret=MODEL):
    """A question: what does the model answer for these nodes?

    edges    (2, E) of the whole graph
    queries  nodes about which the adversary may ask the released model
    """

    edges: Ids = field(repr=False)
    queries: Ids = field(repr=False)


@dataclass(frozen=True)
class Membership(ShadowQuestion, name="membership", secret=MEMBER):
    """A question: were the labels of these nodes trained on?"""


@dataclass(frozen=True)
class OthersMembers(TrainedOnQuestion, name="others_members", secret=MEMBER):
    """A question: were the labels of these nodes of other clients trained on?"""


@dataclass(frozen=True)
class MemberSamples(Question, name="member_samples", secret=MEMBER):
    """Were these samples trained on?

    samples  (n, features), with
    labels   their classes, both known to the adversary
    clients  which client has each sample
    """

    samples: NDArray[np.float32] = field(repr=False)
    labels: Ids = field(repr=False)
    clients: Ids = field(repr=False)


@dataclass(frozen=True)
class TrainedMembers(Question, name="trained_members", secret=MEMBER):
    """A question: did these clients train on these samples?

    samples  (n, ...) as the network reads them, with
    labels   their classes, both known to the adversary
    clients  about which client each is asked
    """

    samples: NDArray[np.float32] = field(repr=False)
    labels: Ids = field(repr=False)
    clients: Ids = field(repr=False)


@dataclass(frozen=True)
class Presence(PresenceQuestion, name="presence", secret=HOLDER):
    """A question: which of these nodes are with this client?"""


@dataclass(frozen=True)
class StolenLinks(ShadowPairsQuestion, name="stolen_links", secret=LINK):
    """A question: which of these pairs are linked?"""


@dataclass(frozen=True)
class SummedBoth(SumQuestion, name="summed_both", secret=MEMBER):
    """A question: did these nodes train, by both sums?"""


@dataclass(frozen=True)
class SummedFeatures(SumQuestion, name="summed_features", secret=MEMBER):
    """A question: did these nodes train, by the sums of features?"""


@dataclass(frozen=True)
class SummedMoments(SumQuestion, name="summed_moments", secret=MEMBER):
    """A question: did these nodes train, by the second moments?"""


@dataclass(frozen=True)
class SummedRecords(SumQuestion, name="summed_records", secret=RECORD):
    """A question: which of two feature vectors do these nodes have, by the sums of features?"""


@dataclass(frozen=True)
class SummedTransfers(SumQuestion, name="summed_transfers", secret=RECORD):
    """A question: which of two amounts and days do these links carry, by the second moments?"""


@dataclass(frozen=True)
class UpdatedTransfers(SumQuestion, name="updated_transfers", secret=RECORD):
    """A question: which of two amounts and days do these links carry, by the first update?"""


@dataclass(frozen=True)
class SummedLinks(SumQuestion, name="summed_links", secret=LINK):
    """A question: are these pairs linked, by the second moments?"""


@dataclass(frozen=True)
class CountedLinks(SumQuestion, name="counted_links", secret=LINK):
    """Are these pairs linked, by the counts of neighbours' labels?"""


@dataclass(frozen=True)
class CountedLabels(SumQuestion, name="counted_labels", secret=MEMBER):
    """Are these nodes' labels in the counts of their neighbours?"""


@dataclass(frozen=True)
class SummedLabels(SumQuestion, name="summed_labels", secret=LABEL):
    """A question: which labels do these nodes have, by the sums?"""


@dataclass(frozen=True)
class ReleasedOthers(SumQuestion, name="released_others", secret=MEMBER):
    """A question: did these nodes train, by the released model?"""


@dataclass(frozen=True)
class KnownEdges(SumQuestion, name="known_edges", secret=LINK):
    """A question: are these pairs linked, by the answers for the others?"""


@dataclass(frozen=True)
class RemainingClient(ClientQuestion, name="remaining_client", secret=UPLOAD):
    """A question: what did the one client upload that does not collude?

    own_uploads  what the colluding clients uploaded in round 1, before any mask: (clients, ...)
    """

    own_uploads: NDArray[np.float32] = field(repr=False)


@dataclass(frozen=True)
class ClassRatios(Question, name="class_ratios", secret=GROUP):
    """A question: which classes are more frequent with these clients?"""


@dataclass(frozen=True)
class ClientClasses(Question, name="client_classes", secret=GROUP):
    """A question: which of these clients have a node of the class?"""


@dataclass(frozen=True)
class TrainedClasses(Question, name="trained_classes", secret=GROUP):
    """A question: which of these clients have a sample of the class?"""


@dataclass(frozen=True)
class ClientInputs(Question, name="client_inputs", secret=GROUP):
    """A question: which inputs did these clients use?"""


@dataclass(frozen=True)
class ClientLabels(Question, name="client_labels", secret=GROUP):
    """A question: which label does each of these clients have?"""


@dataclass(frozen=True)
class FirstLatents(Question, name="first_latents", secret=UPLOAD):
    """A question: what are the first latents of these users?"""


@dataclass(frozen=True)
class OthersLabels(Question, name="others_labels", secret=LABEL):
    """A question: which labels do these nodes of others have?"""


@dataclass(frozen=True)
class OthersLinks(Question, name="others_links", secret=LINK):
    """A question: which of these pairs of others' nodes are linked?"""


@dataclass(frozen=True)
class OwnLabels(Question, name="own_labels", secret=LABEL):
    """A question: which labels does the server have on record for these colluding users?

    known_ids     colluders whose labels they know, with
    known_labels  these labels
    num_classes   how many classes there are
    """

    known_ids: Ids = field(repr=False)
    known_labels: Ids = field(repr=False)
    num_classes: int


@dataclass(frozen=True)
class RowSizes(Question, name="row_sizes", secret=RECORD):
    """A question: how many words do these users have?"""


@dataclass(frozen=True)
class RecordEntries(NodeFeatures, name="record_entries"):
    """A question: what are the entries of these records?"""
