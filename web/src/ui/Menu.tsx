// A button with a small menu: arrow keys, Escape, and a click elsewhere close it.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface MenuItem {
  label: string;
  act(): void;
  danger?: boolean;
  /** Of a choice: whether it holds. */
  checked?: boolean;
}

interface Props {
  label: string;
  class?: string;
  up?: boolean;
  /** Stays open after a choice, for several at once. */
  stays?: boolean;
  items: (MenuItem | "line")[];
  children: ComponentChildren;
}

export function Menu({ label, items, children, up, stays, class: klass }: Props) {
  const [shown, setShown] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);

  useEffect(() => {
    if (!shown) return;
    root.current?.querySelector<HTMLElement>("[role^=menuitem]")?.focus();
    const away = (event: Event): void => {
      if (!root.current?.contains(event.target as Node)) setShown(false);
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [shown]);

  const close = (): void => {
    setShown(false);
    button.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!shown) return;
    const entries = [...(root.current?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
    const at = entries.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: entries.length - 1 }[event.key];
    if (event.key === "Escape") close();
    else if (event.key === "Tab") setShown(false);
    else if (to !== undefined) entries[(to + entries.length) % entries.length]?.focus();
    else return;
    if (event.key !== "Tab") {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  // A button that says something by itself is called by what it says.
  const named = klass === undefined ? { "aria-label": label } : {};
  const choose = (item: MenuItem): void => {
    if (stays !== true) close();
    item.act();
  };
  return (
    <div class="menu" ref={root} onKeyDown={onKeyDown}>
      <button type="button" ref={button} class={klass ?? "quiet icon-only"} aria-haspopup="menu" aria-expanded={shown} {...named}
        title={label} onClick={() => setShown(!shown)}>
        {children}
      </button>
      {shown && (
        <div role="menu" aria-label={label} class={`menu-list${up === true ? " up" : ""}`}>
          {items.map((item, i) =>
            item === "line" ? <hr key={i} /> : (
              <button key={i} type="button" tabIndex={-1} role={item.checked === undefined ? "menuitem" : "menuitemcheckbox"}
                aria-checked={item.checked} class={item.danger === true ? "danger" : ""} onClick={() => choose(item)}>
                {item.checked !== undefined && <span class="tick">{item.checked ? "✓" : ""}</span>}
                {item.label}
              </button>
            ),
          )}
        </div>
      )}
    </div>
  );
}
