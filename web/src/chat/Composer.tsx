// Where a question is written: grows with it, keeps a draft for each conversation, says what will be asked.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { t, tWord } from "../i18n";
import { prefs, readJson, setPrefs, writeJson } from "../prefs";
import { takeFiles } from "../knowledge/uploads";
import { Icon } from "../ui/Icon";
import { Menu, type MenuItem } from "../ui/Menu";
import { allTools, collections } from "./choices";
import { ask, conversation, current, running, stop } from "./thread";

export const text = signal("");
const LONGEST_BYTES = 256 * 1024;

const draftKey = (id: string | undefined): string => `tailrace.draft.${id ?? "new"}`;

export function focusComposer(): void {
  document.getElementById("question")?.focus();
}

export function Composer() {
  const area = useRef<HTMLTextAreaElement>(null);
  const id = conversation.value;
  const owner = useRef(id);
  useEffect(() => {
    // A new conversation has got its id: what is being written already belongs to it.
    const named = owner.current === undefined && id !== undefined && running.peek();
    if (named) {
      writeJson(draftKey(undefined), undefined);
      writeJson(draftKey(id), text.peek() === "" ? undefined : text.peek());
    } else text.value = readJson<string>(draftKey(id)) ?? "";
    owner.current = id;
  }, [id]);
  useLayoutEffect(() => {
    const element = area.current;
    if (element === null) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, innerHeight * 0.4)}px`;
  }, [text.value]);

  const set = (value: string): void => {
    text.value = value;
    writeJson(draftKey(owner.current), value === "" ? undefined : value);
  };
  const send = (): void => {
    const question = text.value.trim();
    if (question === "" || running.value) return;
    if (new TextEncoder().encode(question).length > LONGEST_BYTES) return;
    set("");
    void ask(question);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    // As in a shell: up, in an empty field, is what was asked last.
    if (event.key === "ArrowUp" && text.peek() === "" && !running.peek() && current.peek() !== undefined) {
      event.preventDefault();
      set(current.peek()?.question ?? "");
      return;
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    // On a phone the return key makes a new line; the button sends.
    if (matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    send();
  };
  const names = prefs.value.collection;
  const busy = running.value;
  return (
    <form class="composer" onSubmit={(e) => { e.preventDefault(); send(); }}>
      <div class="composer-box">
        <textarea ref={area} id="question" rows={1} value={text.value} placeholder={t("askAbout", { name: names.join(", ") })} aria-label={t("question")}
          onInput={(e) => set(e.currentTarget.value)} onKeyDown={onKeyDown} />
        <div class="composer-row">
          <Attach />
          <CollectionMenu />
          <ToolsMenu />
          {busy ? (
            <button type="button" class="stop" onClick={stop} disabled={current.value?.live.stopping.value}>
              <i aria-hidden="true" />{current.value?.live.stopping.value === true ? t("stopping") : t("stop")}
            </button>
          ) : (
            <button type="submit" class="send" disabled={text.value.trim() === ""} aria-label={t("send")} title={`${t("send")} (Enter)`}>
              <Icon name="send" />
            </button>
          )}
        </div>
      </div>
    </form>
  );
}

function Attach() {
  const input = useRef<HTMLInputElement>(null);
  const into = prefs.value.collection[0] ?? "default";
  return (
    <>
      <input ref={input} type="file" multiple hidden aria-label={t("attach")} onChange={(e) => {
        takeFiles(into, [...(e.currentTarget.files ?? [])]);
        e.currentTarget.value = "";
      }} />
      <button type="button" class="btn small" title={t("attachHint", { name: into })} onClick={() => input.current?.click()}>{t("attach")}</button>
    </>
  );
}

function CollectionMenu() {
  const chosen = prefs.value.collection;
  const items = collections.value.map((c): MenuItem => ({
    label: c.name,
    checked: chosen.includes(c.name),
    act() {
      const next = chosen.includes(c.name) ? chosen.filter((n) => n !== c.name) : [...chosen, c.name];
      setPrefs({ collection: next.length > 0 ? next : [c.name] });
    },
  }));
  if (items.length < 2) return null;
  return (
    <Menu label={t("chooseCollections")} class="btn small" up stays items={items}>
      {chosen.length === 1 ? chosen[0] : t("nCollections", { count: chosen.length })}
    </Menu>
  );
}

function ToolsMenu() {
  const { toolMode, toolsOff, retrieval } = prefs.value;
  const modes = (["auto", "inline", "native", "off"] as const).map((mode): MenuItem => ({
    label: t("toolMode", { mode: tWord("mode", mode) }), checked: toolMode === mode, act: () => setPrefs({ toolMode: mode }),
  }));
  const tools = allTools.value.map((tool): MenuItem => ({
    label: tool.name,
    checked: !toolsOff.includes(tool.name),
    act: () => setPrefs({ toolsOff: toolsOff.includes(tool.name) ? toolsOff.filter((n) => n !== tool.name) : [...toolsOff, tool.name] }),
  }));
  const retrievals = (["auto", "tool", "required", "off"] as const).map((r): MenuItem => ({
    label: t("retrievalMode", { mode: tWord("retrieval", r) }), checked: retrieval === r, act: () => setPrefs({ retrieval: r }),
  }));
  return (
    <Menu label={t("chooseTools")} class="btn small" up stays items={[...modes, "line", ...tools, ...(tools.length > 0 ? ["line" as const] : []), ...retrievals]}>
      {t("toolsAre", { mode: tWord("mode", toolMode) })}
    </Menu>
  );
}
