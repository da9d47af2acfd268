// Records frame files from a real server: `node scripts/record.mjs` writes tests/frames/*.sse; with names, only those. Times and ids differ
// from run to run, so only what the tests check may be relied on.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startStand, root } from "../e2e/stand.mjs";
import { spoken } from "../e2e/model.mjs";

const page = { html: `<title>The Locking Clause</title><p>${"Rows that cannot be locked at once are left out. ".repeat(20)}</p>`, after: 400 };

const scenes = {
  plain: { rounds: [spoken("Häuser am Wehr: **zwölf** Räder, [1] und `Code`.\n\n- eins\n- zwei\n")] },
  two_rounds: {
    rounds: [
      [...spoken("Let me look — für Sie. "), '<tool name="fetch_url"><url>{page}/a.html</url></tool>', ...spoken("\n\nWhile that loads: it waits [1].\n\n"),
        '<tool name="vector_search">{"query": "locked rows"}</tool>', 100],
      spoken("\n\nThey are left out [2]."),
    ],
  },
  refused: {
    rounds: [
      ['<tool name="vector_search">{"query": "rows"}</tool> and ', '<tool name="vector_search">{"query": "rows"}</tool> and ', '<tool name="nothing">x</tool>', " so."],
      spoken("Done."),
    ],
  },
  quoted: {
    rounds: [["A call looks like `<tool name=\"x\">y</tool>`:\n\n```xml\n<tool name=\"fetch_url\">u</tool>\n```\n\nand ", '<tool name="fetch_url"> never closed', " at all"]],
  },
  reasoning: { rounds: [[{ reasoning: "The user asks " }, 30, { reasoning: "for rows." }, 30, ...spoken("Twelve.")]] },
  failed: { rounds: [{ status: 400, message: "the model is not there" }] },
  tool_failed: { rounds: [["Look: ", '<tool name="fetch_url"><url>{page}/missing.html</url></tool>', " hm"], spoken("It is not there.")] },
};

const HANDED_ON = "find out about eels";
scenes.sub_agent = {
  rounds: [
    [...spoken("I hand one part on. "), `<tool name="sub_agent">{"task": "${HANDED_ON}"}</tool>`, ...spoken("\n\nMeanwhile, the mill stands [1].", 40), '<tool name="nothing">x</tool>'],
    spoken("\n\nSo the eels stay out."),
  ],
};
const wanted = process.argv.slice(2);

const scripts = new Map(Object.entries(scenes).map(([name, scene]) => [`scene ${name}`, scene.rounds]));
const stand = await startStand({ scripts, pages: new Map([["/a.html", page]]) });
try {
  await stand.add("default", [{ id: "locks", title: "Locks", uri: "locks.md", text: "A statement that meets a locked row waits for the other transaction." }]);
  scripts.set(HANDED_ON, [[...spoken("I look. "), '<tool name="vector_search">{"query": "locked rows"}</tool>'], spoken("By gratings.")]);
  for (const name of Object.keys(scenes)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    const answer = await fetch(`${stand.api}/api/v1/chat`, {
      method: "POST", headers: { "content-type": "application/json" },
      body: JSON.stringify({ message: `scene ${name}: locked rows`, tool_mode: "inline" }),
    });
      const text = (await answer.text()).replaceAll(stand.page, stand.page.replace(/\d+$/, (port) => "1".repeat(port.length))) // of equal length: spans count bytes;
    writeFileSync(join(root, "web/tests/frames", `${name}.sse`), text);
    console.log(name, text.length);
  }
} finally {
  await stand.close();
}
