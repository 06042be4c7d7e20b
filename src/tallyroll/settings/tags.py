"""The tags that a pipeline gives to all that it makes."""

from __future__ import annotations

from collections.abc import Mapping

from tallyroll.errors import UsageError
from tallyroll.limits import (
    TAG_KEY_CHARACTERS_MAX,
    TAG_VALUE_CHARACTERS_MAX,
    TAGS_BYTES_MAX,
    TAGS_MAX,
)
from tallyroll.settings.texts import text_of

# Keys of tags that a pipeline's own code sets and reads. IAM does not tell upper from lower case in
# `aws:ResourceTag/proven`, so `Proven` would do for it too. Source: IAM User Guide, "Global
# condition keys".
RESERVED_TAGS = ("tallyroll", "tallyroll-restored", "proven")


def check_tags(tags: Mapping[str, str]) -> None:
    """Raise UsageError for tags that a pipeline cannot give to all that it makes: reserved keys,
    too many, too long. The message begins with the key.

    Sources: AWS General Reference, "Tagging your AWS resources"; AWS Lambda Developer Guide,
    "Lambda quotas" (4 KB of environment).
    """
    seen: dict[str, str] = {}
    for key, value in tags.items():
        alike = key.lower()
        if alike in RESERVED_TAGS or alike.startswith("aws:"):
            reserved = ", ".join(RESERVED_TAGS)
            raise UsageError(f"{key!r}: {reserved} and aws:... are reserved; give another key")
        if alike in seen:
            raise UsageError(
                f"{key!r}: {seen[alike]!r} is a tag too, and IAM does not tell upper from lower"
                " case; give one of them"
            )
        seen[alike] = key
        if not 1 <= len(key) <= TAG_KEY_CHARACTERS_MAX:
            raise UsageError(
                f"{key!r}: {len(key)} characters; give a key of 1 to {TAG_KEY_CHARACTERS_MAX}"
            )
        if len(value) > TAG_VALUE_CHARACTERS_MAX:
            raise UsageError(
                f"{key!r}: its value has {len(value)} characters; give at most"
                f" {TAG_VALUE_CHARACTERS_MAX}"
            )
    if len(tags) > TAGS_MAX:
        raise UsageError(
            f"{list(tags)[TAGS_MAX]!r}: it is tag {TAGS_MAX + 1} of {len(tags)}; give at most"
            f" {TAGS_MAX}, since AWS allows 50, and the pipeline needs {len(RESERVED_TAGS)}"
        )
    if (size := len(text_of(tags))) > TAGS_BYTES_MAX:
        longest = max(tags, key=lambda key: len(key) + len(tags[key]))
        raise UsageError(
            f"{longest!r}: all tags together have {size:,} bytes as JSON, this one the most; give"
            f" at most {TAGS_BYTES_MAX:,}, since the functions' environment holds them"
        )
