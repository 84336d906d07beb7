"""The nodes of a distributed database, asked through the coordinator."""

from __future__ import annotations

import time

import sqlalchemy as sa

NODES = """
    SELECT nodename || ':' || nodeport AS name, groupid, isactive, shouldhaveshards
    FROM pg_dist_node WHERE noderole = 'primary' ORDER BY groupid
"""
_ASK = sa.text("""
    SELECT n.nodename || ':' || n.nodeport AS name,
        CASE WHEN r.success THEN coalesce(r.result, '') END AS answer
    FROM pg_dist_node AS n LEFT JOIN run_command_on_all_nodes(:command) AS r USING (nodeid)
    WHERE n.noderole = 'primary' ORDER BY n.groupid
""")
_NEXT = "SELECT pg_snapshot_xmax(pg_current_snapshot())::xid"
# A rewrite drops the rows that were removed before the transaction that it then records.
_OLDEST = """
    SELECT c.relfrozenxid FROM pg_class AS c
    WHERE c.relkind = 'r' AND c.relnamespace::regnamespace::text = {schema}
        AND c.relname ~ {pattern}
    ORDER BY age(c.relfrozenxid) DESC LIMIT 1
"""
_SCHEMA = """
    SELECT relnamespace::regnamespace::text FROM pg_class
    WHERE oid = to_regclass('octopus_schema')
"""
_SIZE = """
    SELECT coalesce(sum(citus_total_relation_size(logicalrelid)), 0) FROM pg_dist_partition
    WHERE starts_with(logicalrelid::text, 'octopus_')
"""
_ATTEMPTS = 5
_PAUSE_SECONDS = 1.0
_HALF = 1 << 31


def ask(conn: sa.Connection, command: str) -> dict[str, str | None]:
    """What each node answers to a command, in a transaction of its own; None for no answer."""
    found = conn.execute(_ASK, {"command": command})
    return {row.name: row.answer for row in found}


def answering(conn: sa.Connection) -> dict[str, bool]:
    """The nodes that hold rows and the coordinator, and whether each answers."""
    return {name: answer is not None for name, answer in ask(conn, "SELECT 1").items()}


def size(conn: sa.Connection) -> int:
    """The bytes of all tables on all nodes, with their indexes."""
    return int(conn.exec_driver_sql(_SIZE).scalar_one())


def is_spread(conn: sa.Connection, table: str) -> bool:
    """True if the nodes have this table's rows."""
    found = sa.text(
        "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass(:table))"
    )
    return bool(conn.execute(found, {"table": table}).scalar())


def rewrite(conn: sa.Connection, tables: list[str]) -> bool:
    """Rewrite the shards of these tables on every node.

    False if a node does not answer, or a session there can still read rows that were removed.
    """
    begun = ask(conn, _NEXT)
    waiting = tables
    for attempt in range(_ATTEMPTS):
        if None in begun.values():
            return False
        for table in waiting:
            conn.exec_driver_sql(f"VACUUM (FULL) {table}")
        waiting = [table for table in waiting if not _is_rewritten(conn, table, begun)]
        if not waiting:
            return True
        if attempt < _ATTEMPTS - 1:
            time.sleep(_PAUSE_SECONDS)
    return False


def _is_rewritten(conn: sa.Connection, table: str, begun: dict[str, str | None]) -> bool:
    schema = _quoted(conn.exec_driver_sql(_SCHEMA).scalar_one())
    # The table itself is empty on each node, and its shards have its name with a number.
    number = r"_\d+" if is_spread(conn, table) else ""
    found = ask(conn, _OLDEST.format(schema=schema, pattern=_quoted(f"^{table}{number}$")))
    # A node without a shard of this table answers with nothing. Numbers of transactions go round.
    return all(
        answer is not None
        and (not answer or (int(answer) - int(begun[node] or 0)) % (2 * _HALF) < _HALF)
        for node, answer in found.items()
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
