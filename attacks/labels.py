"""The labels and classes that clients train on, from their models, predictions or answers."""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, View
from attacks.models import MODEL, changed_rows, first_changes, layout_of, sent_models
from attacks.questions import ClassRatios, ClientLabels, OthersLabels, TrainingLabels
from attacks.rows import class_shares
from securefg.protocol.meanings import Answers, Predictions


def class_pulls(view: View) -> dict[int, Array]:
    """Return by client, (classes,), how far its training pulls the output layer towards each class.

    A step moves the weights into class c by sum_i (y_ic - p_ic) h_i, and rectified h are not
    negative: a client with more of a class than others pulls its column further up (Zhao et al.
    2020). Rounds are added up, each in units of the spread over clients, above their mean. If
    uploads were masked, all clients have the same pull.
    """
    layout, sent = layout_of(view), sent_models(view)
    if layout.output is None:
        raise CannotAttack("which of the weights lead to classes is not known")
    rounds: dict[int, dict[int, Array]] = {}
    for message in view.best_rows(MODEL):
        rows = changed_rows(message, sent)
        moved = layout.part(rows, layout.output).mean(-2).numpy()
        of_round = rounds.setdefault(message.round, {})
        of_round |= dict(zip(message.clients.numbers(), moved, strict=True))
    client_pulls: dict[int, Array] = {}
    for of_round in rounds.values():
        scale = np.stack(list(of_round.values()))
        middle, spread = scale.mean(0), scale.std(0) + 1e-30
        for client, moved in of_round.items():
            client_pulls[client] = (
                client_pulls.get(client, np.zeros_like(moved)) + (moved - middle) / spread
            )
    return client_pulls


def has_an_output(view: View) -> str | None:
    """Return None (for `applies_to`) where the weights that lead to classes are known."""
    known = layout_of(view).output is not None
    return None if known else "which of the weights lead to classes is not known"


def class_ratios(view: View, question: ClassRatios, rng: np.random.Generator) -> Array:
    """Return scores of pairs k C + c: has client k more of class c than others?

    A client that uploaded nothing is taken for an average one, and ties are broken at random.
    """
    found, classes = class_pulls(view), view.public.num_classes
    nothing = np.zeros(classes)
    ids = question.ids.tolist()
    scored = np.array([found.get(i // classes, nothing)[i % classes] for i in ids])
    return scored + 1e-9 * rng.normal(size=len(ids))


CLASS_RATIOS = Attack(
    name="class_ratios",
    summary="which classes a client has more of than others, from its uploaded output layer",
    source="Zhao et al. 2020, for shares; property inference after Ganju et al. 2018",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="the uploaded models of some rounds and the models sent; how common classes are",
    adversaries=frozenset({"server"}),
    question=ClassRatios,
    floor=0.1,
    expected="AUC 0.9 and more after one round, where clients differ",
    exposes="whether a client has more of a class than the median client",
    stopped_by="masks; noise on the update",
    run=class_ratios,
    rounds=3,
    applies_to=has_an_output,
)


def gradient_labels(view: View, question: ClientLabels, rng: np.random.Generator) -> Array:
    """Return the class whose column moved up most in the first recorded round.

    A local step changes row c of W2 by -lr (y_hat_c - y_c) (A_kk m_k + sum_j A_kj m_j), and the
    means of ReLUs are not negative: the row of the client's own class alone moves up. It holds for
    any number of local steps, as long as samples of a client share a label. iDLG (Zhao, Mopuri and
    Bilen 2020).
    """
    layout = layout_of(view)
    assert layout.output is not None
    _, changes = first_changes(view, question.ids)
    found: Array = layout.part(changes, layout.output).sum(1).argmax(1).double().numpy()
    return found


GRADIENT_LABELS = Attack(
    name="gradient_labels",
    summary="a labelled client's class, from the rows of W2 that its training moved up",
    source="iDLG, Zhao et al. 2020",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="one round's uploaded models and the model sent before",
    adversaries=frozenset({"server"}),
    question=ClientLabels,
    floor=0.2,
    expected="every label, for any number of local steps",
    exposes="the label of the one person that a client stands for",
    stopped_by="masks; noise on the update",
    run=gradient_labels,
    rounds=1,
    applies_to=has_an_output,
)


def training_labels(view: View, question: TrainingLabels, rng: np.random.Generator) -> Array:
    """Return the labels of a client's nodes by its last uploaded predictions (F5).

    A model's answers for unlabelled nodes are its purpose. Better answers for labelled nodes are
    memory, so the game counts that difference.
    """
    rounds = class_shares(view, question.client)
    last = rounds[max(rounds)]
    found: Array = last[question.ids].argmax(1).double().numpy()
    return found


TRAINING_LABELS = Attack(
    name="training_labels",
    summary="the labels a client trained on, from its uploaded predictions",
    source="F5: accuracy on labelled nodes above the accuracy on unlabelled ones",
    needs=(Predictions("nodes"),),
    assumes="one client's uploaded predictions",
    adversaries=frozenset({"server"}),
    question=TrainingLabels,
    floor=0.02,
    expected="0.9 to 1.0 on labelled nodes where unlabelled ones get 0.8",
    exposes="the label of a person, as the client has it on record",
    stopped_by="noise on the predictions; not uploading predictions; masks do not, since the sum "
    "over clients tells a label too",
    run=training_labels,
    rounds=10,
)


def answered_labels(view: View, question: OthersLabels, rng: np.random.Generator) -> Array:
    """Return the labels of others' nodes by the answers of the released model (F5).

    Any client that gets the model can ask it.
    """
    if view.answers is None:
        raise CannotAttack("the released model answers for no nodes")
    found: Array = view.answers[question.ids].argmax(1).double().numpy()
    return found


ANSWERED_LABELS = Attack(
    name="answered_labels",
    summary="the labels others trained on, from what the released model answers",
    source="F5, for whoever may ask the released model",
    needs=(Answers(),),
    assumes="the released model's answers about others' nodes",
    adversaries=frozenset({"client"}),
    question=OthersLabels,
    floor=0.02,
    expected="0.9 to 1.0 on labelled nodes where unlabelled ones get 0.8, if trained for long",
    exposes="the label of a person at another client, as that client has it on record",
    stopped_by="noise per person; fewer rounds; not answering for others' nodes; masks do not",
    run=answered_labels,
    rounds=30,
)


ATTACKS = (CLASS_RATIOS, GRADIENT_LABELS, TRAINING_LABELS, ANSWERED_LABELS)
