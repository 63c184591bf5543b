"""The parts of an audit that are about texts: shared passages, boilerplate, and test texts that are in documents."""

from __future__ import annotations

from dataclasses import replace

from fgsv.audit.copies import Copies
from fgsv.audit.passages import SHINGLE, Passages, find_passages
from fgsv.data.documents import Documents
from fgsv.partition import Partition
from fgsv.valuation.display import Section


def copies_of_texts(documents: Documents, owners: Partition) -> Copies:
    """Return the documents that several providers have, with what an audit says about passages and test texts."""
    found = find_passages(documents.texts.tolist(), owners, documents.test_texts, registered=documents.registered)
    warnings = tuple(warnings_of_test_texts(documents, found))
    return replace(found.copies, warnings=warnings, sections=tuple(passage_sections(documents, found)))


def passage_sections(documents: Documents, found: Passages) -> list[Section]:
    """Return the passages that documents of different providers share, and what is boilerplate."""
    words = [
        f"Texts were compared ignoring case, punctuation and white space, by all runs of {SHINGLE} words.",
        "These documents are otherwise different, so the remedies do not touch them. People must judge who wrote "
        "the passage, and whether it was meant to be shared."
        if found.shared
        else "No documents that are otherwise different share a long passage.",
    ]
    count, commonest = found.boilerplate
    if count:
        words.append(
            f"{count:,} documents have passages that many share, such as licences and headers (the commonest: "
            f"“{commonest}”). These count as boilerplate, not as copies."
        )
    names = [str(name) for name in documents.players.partition.names]
    whose = documents.players.partition.codes[documents.player_of]
    rows = tuple(
        (names[whose[i]], str(documents.names[i]), names[whose[j]], str(documents.names[j]), count, excerpt)
        for i, j, count, excerpt in found.shared
    )
    columns = ("provider", "document", "and provider", "and document", "words", "which begin")
    return [Section("Passages in documents of two providers", tuple(words), columns, rows, shows_players=True)]


def warnings_of_test_texts(documents: Documents, found: Passages) -> list[str]:
    """Return a warning if test texts are in training documents, which lets the model memorise them."""
    if not len(found.tested):
        return []
    return [
        f"most of {len(found.tested)} of {len(documents.test_texts)} test texts is also in a training document: its "
        "provider earns by memorisation, not by what the model learned"
    ]
