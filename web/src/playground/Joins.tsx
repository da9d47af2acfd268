// Lines between the columns, from a passage to itself.

import { useLayoutEffect, useState } from "preact/hooks";
import { columns, lit } from "./state";

interface Join {
  id: string;
  path: string;
}

export function Joins({ box }: { box: { current: HTMLDivElement | null } }) {
  const [joins, setJoins] = useState<Join[]>([]);
  const list = columns.value;
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const draw = (): void => setJoins(linesIn(element));
    draw();
    const watch = new ResizeObserver(draw);
    watch.observe(element);
    return () => watch.disconnect();
  }, [list]);
  return (
    <svg class="joins" aria-hidden="true">
      {joins.map((j, i) => <path key={i} d={j.path} class={lit.value === j.id ? "lit" : ""} />)}
    </svg>
  );
}

function linesIn(box: HTMLElement): Join[] {
  const origin = box.getBoundingClientRect();
  const found = [...box.querySelectorAll<HTMLElement>(".play-column")];
  const joins: Join[] = [];
  for (let i = 0; i + 1 < found.length; i++) {
    for (const left of found[i]?.querySelectorAll<HTMLElement>(".hit") ?? []) {
      const id = left.dataset["chunk"] ?? "";
      const right = found[i + 1]?.querySelector<HTMLElement>(`[data-chunk="${CSS.escape(id)}"]`);
      if (right == null) continue;
      const a = left.getBoundingClientRect();
      const b = right.getBoundingClientRect();
      if (b.left <= a.right) continue; // one below the other: nothing to join
      const [x1, y1, x2, y2] = [a.right - origin.left, a.top - origin.top + 20, b.left - origin.left, b.top - origin.top + 20];
      const bend = (x2 - x1) / 2;
      joins.push({ id, path: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
    }
  }
  return joins;
}
