// What the screenshots show: a small library on databases and mills, and a conversation about it. Written for this.

import { spoken } from "./model.mjs";

export const QUESTION = "How many workers can take jobs from one table without waiting for each other’s locked rows?";

const first = [
  150,
  ...spoken("Any number of them, if each takes its rows with `FOR UPDATE SKIP LOCKED`. Let me check the current page for the exact wording.\n\n", 22),
  '<tool name="fetch_url"><url>{page}/current/sql-select.html</url></tool>',
  ...spoken("\n\nWhile that page loads: without the clause, a second worker that meets a locked row waits until the first transaction ends [1]. With many workers that makes a line instead of a crowd.\n\n", 30),
  '<tool name="vector_search">{"query": "skip locked rows queue consistency caveat"}</tool>',
  ...spoken("\n\nOne more thing to look up is what such a read may miss.", 34),
];
const second = [
  180,
  ...spoken(
    "\n\nWith `SKIP LOCKED`, rows that others hold are left out, so what you read is not a consistent picture: right for a queue, wrong for a report [1][2]. In practice:\n\n" +
      "- one short transaction per job, so that a crash returns it;\n- `LIMIT 1` with an index on the order you take them in [3].\n\n" +
      "```sql\nUPDATE jobs SET state = 'running'\nWHERE id = (\n  SELECT id FROM jobs\n  WHERE state = 'ready'\n  ORDER BY created\n  LIMIT 1\n  FOR UPDATE SKIP LOCKED\n)\nRETURNING id, payload;\n```\n",
    16,
  ),
];

const short = [
  ["Building an index on a busy table", "Build it concurrently: it takes longer and blocks nobody [1]."],
  ["What happens near wraparound?", "The server refuses new transactions until old rows are frozen [1]."],
  ["Why does the level of the tailrace matter?", "If the water backs up, the wheel has to push through it [1]."],
  ["How is a backup made under load?", "A base backup and the log that follows it, restored elsewhere [1]."],
];

/** The first round again, held up where a tool runs and the answer goes on: a picture takes its time. */
export const held = [[...first.slice(0, first.findIndex((p) => typeof p === "string" && p.startsWith("crowd")) + 1), 25_000]];

export const scripts = new Map([[QUESTION, [first, second]], ...short.map(([q, a]) => [q, [spoken(a, 2)]])]);
export const earlier = short.map(([q]) => q);

export const pages = new Map([
  ["/current/sql-select.html", {
    after: 900,
    html: `<title>The Locking Clause</title><h1>The Locking Clause</h1>${[
      "FOR UPDATE locks the rows that a query returns, as though they were to be changed. Others who want to change them wait until this transaction has ended.",
      "With NOWAIT, a statement reports an error at once rather than waiting for a row. With SKIP LOCKED, rows that cannot be locked at once are left out.",
      "Leaving out locked rows gives an inconsistent picture of the data. That is unsuitable for general work, and useful where many consumers take from a table that serves as a queue.",
      "The clause cannot be used where returned rows cannot be told apart, for example with aggregation.",
    ].map((p) => `<p>${p}</p>`).join("").repeat(4)}`,
  }],
]);

const topics = [
  ["The Locking Clause", "sql-select.md", "A statement that meets a locked row waits for the other transaction, unless it says NOWAIT or SKIP LOCKED. Rows that cannot be locked at once are then left out. The result is not a consistent picture of the table, which is fine for queues and little else. Any number of workers can take jobs from one table in this way."],
  ["Explicit Locking", "explicit-locking.md", "Readers never wait for row locks; only writers and other lockers of the same row do. Locks are held until the transaction ends. An index on the order in which jobs are taken keeps the locked set small."],
  ["Vacuum and wraparound", "routine-vacuuming.md", "Transaction identifiers are counted in a circle. Rows that are old enough are frozen, so that they stay visible. Near wraparound the server refuses new transactions until enough rows are frozen."],
  ["Building indexes", "sql-createindex.md", "An index can be built concurrently while others write. It takes two passes over the table and leaves an invalid index behind if it fails. A table can have many indexes, each of which slows down writes a little."],
  ["Backup and recovery", "backup.md", "A base backup together with the log that follows it brings a cluster to any moment. It can be taken under load. Restores should be rehearsed on another machine."],
  ["Partitioning", "partitioning.md", "Large tables can be split by range, list or hash. Old partitions are dropped at once, which is much faster than deleting rows."],
  ["Monitoring statistics", "monitoring.md", "The server counts what it does: rows read, blocks found in memory, time spent waiting for locks. The numbers are cumulative and can be reset."],
  ["What a tailrace is", "mills/tailrace.md", "A water mill gives its water back through the tailrace. If the tailrace is blocked, water backs up under the wheel, and the wheel has to push through it."],
];

const more = [
  ["Character sets", "charset.md", "Text is stored in one encoding and converted for clients that ask for another."],
  ["Client authentication", "client-authentication.md", "A file of rules says who may connect from where, and how they prove who they are."],
  ["Collations", "collation.md", "How strings are ordered depends on language and version; an index must be built again when that changes."],
  ["Connection pooling", "pooling.md", "A pool lends few connections to many clients, for a statement, a transaction or a session."],
  ["Cursors", "cursors.md", "A cursor reads a long result piece by piece, so that it need not fit into memory."],
  ["Data types", "datatype.md", "Numbers, text, times, ranges and documents, each with its own functions and costs."],
  ["Extensions", "extend.md", "New types, functions and index methods can be added without changing the server."],
  ["Foreign data", "fdw.md", "Tables of other servers appear as if they were here; conditions are sent along where possible."],
  ["Full text search", "textsearch.md", "Documents become lists of word stems, queries match them, and a rank orders what is found."],
  ["Generated columns", "ddl-generated.md", "A column can be computed from others when a row is written."],
  ["Logical replication", "logical-replication.md", "Changes are sent row by row to subscribers, which may have indexes of their own."],
  ["Memory settings", "runtime-memory.md", "Shared buffers hold pages, work memory is for each sort and each hash, many times over."],
  ["Parallel query", "parallel-query.md", "A plan can be divided among processes where its parts are independent and large."],
  ["Query plans", "using-explain.md", "The plan shows how tables are read and joined, with estimates beside what really happened."],
  ["Roles and grants", "user-manag.md", "A role owns things and is granted rights; one role can be a member of others."],
  ["Row security", "row-security.md", "Policies decide row by row what a role may see and change."],
  ["Sequences", "sequence.md", "A sequence gives numbers that never repeat, though some may be missing."],
  ["Statistics for the planner", "planner-stats.md", "Samples of each column tell the planner how many rows to expect."],
  ["Streaming replication", "warm-standby.md", "A standby replays the log as it is written and can answer questions meanwhile."],
  ["Tablespaces", "manage-tablespaces.md", "Tables can live on another disk, named once and used everywhere."],
  ["The write-ahead log", "wal.md", "What changes is first written to a log; after a crash the log is replayed."],
  ["Triggers", "triggers.md", "Code that runs before or after a row is changed, or once for a statement."],
  ["Views", "views.md", "A stored query that looks like a table; a materialized one also keeps its result."],
  ["Keeping eels out of the wheel", "mills/eels.md", "A grating in the headrace keeps eels and branches away from the wheel."],
  ["Mill rights on the Aller", "mills/rights.md", "Whoever holds water in a dry summer may do so for four hours a day."],
];

const long = `

## Strengths

There are four strengths of row locks. The strongest keeps everybody else from changing, deleting or locking the row, and is taken by every UPDATE that touches a key. The next weaker leaves foreign keys alone. The two shared ones let others lock the row in the same way, and only keep it from being changed. A query names its strength after FOR, and for which tables after OF.

## Order

Rows are locked as they are returned. With ORDER BY, a row may have changed its place by the time its lock is granted: it is then returned at its old place with its new values. Where that matters, the rows are locked in a query inside, and put in order outside of it.

## Limits

The clause cannot be used with aggregation, with window functions or with UNION, because rows of the result are then no rows of a table. LIMIT stops the locking as soon as enough rows are found; rows that OFFSET steps over are locked all the same.

## Queues

Workers that take jobs from one table use a short transaction for each job. If a worker crashes, its locks go with its connection, and the job is there again for the next one. An index on the order in which jobs are taken keeps the search short, and old jobs are best kept in another table.
`;

/** The library: what is asked about, and enough else to scroll through. */
export function library() {
  return [...topics, ...more].map(([title, uri, text], i) => ({
    id: uri, title, uri, mime: uri.endsWith("html") ? "text/plain" : "text/markdown",
    text: `# ${title}\n\n${text}\n\n${i < topics.length ? `## Remember\n\n${text.replace(/\.$/, "").split(". ").reverse().join(". ")}.\n` : ""}${i === 0 ? long : ""}`,
    metadata: { author: i % 2 ? "ada" : "grace" },
  }));
}

/** One document as it was changed over time. */
export const weirRules = [
  "# Rules of the weir\n\nThe gates are opened at six in the morning. The miller keeps the key.\n",
  "# Rules of the weir\n\nThe gates are opened at seven in the morning, and closed at eight in the evening. The miller keeps the key.\n",
  "# Rules of the weir\n\nThe gates are opened at seven in the morning, and closed at nine in the evening. The miller keeps the key, the reeve a second one.\n\nIn flood, whoever sees the mark under water opens them, and tells the miller afterwards.\n",
];
