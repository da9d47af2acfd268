// A growing Markdown text in the page.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Renderer } from "../markdown/renderer";
import { markCitations } from "./citations";

const drawn = new Set<() => void>();

/** Told whenever text has been put in the page, in the same frame. The result takes it back. */
export function onDrawn(then: () => void): () => void {
  drawn.add(then);
  return () => drawn.delete(then);
}

export function Markdown({ text, done }: { text: string; done: boolean }) {
  const root = useRef<HTMLDivElement>(null);
  const renderer = useRef<Renderer | undefined>(undefined);
  const latest = useRef({ text, done });
  latest.current = { text, done };
  const frame = useRef(0);

  useLayoutEffect(() => {
    if (root.current === null) return;
    renderer.current ??= new Renderer(root.current, markCitations);
    const draw = (): void => {
      frame.current = 0;
      const { text, done } = latest.current;
      if (renderer.current?.update(text, done) === true && frame.current === 0) frame.current = requestAnimationFrame(draw);
      for (const then of drawn) then();
    };
    draw();
  }, [text, done]);
  useEffect(() => () => cancelAnimationFrame(frame.current), []);
  return <div class="md" ref={root} />;
}
