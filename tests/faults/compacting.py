"""A life after whose end Parquet is made of the window's archive, which expires, under faults."""

from __future__ import annotations

from tallyroll.archive.layout import alone_key, is_parquet, progress_dir, proof_key
from tallyroll.ports.bucket import TAG_PASSING, ticket_of
from tests.faults.exactness import Ledger
from tests.faults.lives import NOW_WINDOW, short_life, turns
from tests.faults.world import World


def compacted_life(world: World, ledger: Ledger) -> None:
    """Until the window's ticket is gone: then all of the one archive may pass, and nothing of the
    other, which is proven.
    """
    short_life(world, ledger)
    bucket, name = world.settings.bucket, world.settings.name
    ticket = ticket_of(name, NOW_WINDOW)
    if world.raw.keys_in(bucket, ticket) != [ticket]:
        world.problems.append(f"{NOW_WINDOW} was dropped without a ticket")
    turns(
        world,
        lambda: not world.raw.keys_in(bucket, ticket),
        lambda: world.invoke("compactor", {}),
    )
    keys = world.raw.keys_in(bucket, "archive/")
    places = {"/".join(key.split("/")[:6]) for key in keys}
    made = {place for place in places if is_parquet(place)}
    if len(places) != 2 or not all({proof_key(one), alone_key(one)} <= {*keys} for one in made):
        world.problems.append(f"no proven Parquet that is alone: {keys}")
    for key in keys:
        place = "/".join(key.split("/")[:6])
        passes = place not in made
        tags = world.raw.s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
        if tags != ([{"Key": TAG_PASSING, "Value": "true"}] if passes else []):
            what = "a note" if key.startswith(progress_dir(place)) else "an object"
            world.problems.append(f"{key}: {what} with the tags {tags}")
