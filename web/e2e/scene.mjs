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
  ["The Locking Clause", "sql-select.html", "A statement that meets a locked row waits for the other transaction, unless it says NOWAIT or SKIP LOCKED. Rows that cannot be locked at once are then left out. The result is not a consistent picture of the table, which is fine for queues and little else. Any number of workers can take jobs from one table in this way."],
  ["Explicit Locking", "explicit-locking.html", "Readers never wait for row locks; only writers and other lockers of the same row do. Locks are held until the transaction ends. An index on the order in which jobs are taken keeps the locked set small."],
  ["Vacuum and wraparound", "routine-vacuuming.md", "Transaction identifiers are counted in a circle. Rows that are old enough are frozen, so that they stay visible. Near wraparound the server refuses new transactions until enough rows are frozen."],
  ["Building indexes", "sql-createindex.md", "An index can be built concurrently while others write. It takes two passes over the table and leaves an invalid index behind if it fails. A table can have many indexes, each of which slows down writes a little."],
  ["Backup and recovery", "backup.md", "A base backup together with the log that follows it brings a cluster to any moment. It can be taken under load. Restores should be rehearsed on another machine."],
  ["Partitioning", "partitioning.md", "Large tables can be split by range, list or hash. Old partitions are dropped at once, which is much faster than deleting rows."],
  ["Monitoring statistics", "monitoring.md", "The server counts what it does: rows read, blocks found in memory, time spent waiting for locks. The numbers are cumulative and can be reset."],
  ["What a tailrace is", "mills/tailrace.md", "A water mill gives its water back through the tailrace. If the tailrace is blocked, water backs up under the wheel, and the wheel has to push through it."],
];

/** The library: each topic in full, and notes about it, so that there is something to scroll and to search. */
export function library() {
  const documents = topics.map(([title, uri, text]) => ({ id: uri, title, uri, mime: uri.endsWith("html") ? "text/plain" : "text/markdown", text: `# ${title}\n\n${text}\n` }));
  for (let i = 1; i <= 4; i++) {
    for (const [title, uri, text] of topics) {
      const sentences = text.match(/[^.]+\.\s*/g);
      const some = Array.from({ length: 5 + 3 * i }, (_, k) => sentences[(i + k) % sentences.length].trim()).join(" ");
      documents.push({
        id: `note-${i}-${uri}`, title: `${title}, notes ${i}`, uri: `notes/${i}/${uri.replace(/\.\w+$/, ".md")}`, mime: "text/markdown",
        text: `# Notes on ${title}\n\n${some}\n\n## What to remember\n\n${text}\n\n## Open questions\n\n${some}\n`, metadata: { author: i % 2 ? "ada" : "grace", lang: "en" },
      });
    }
  }
  return documents;
}
