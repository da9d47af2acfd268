// Left: conversations by day, their search, and the way to the other pages. On phones it slides in.

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { dayGroup } from "../format";
import { t } from "../i18n";
import { go, route } from "../route";
import { confirmed } from "../ui/Confirm";
import { Icon, Logo, type IconName } from "../ui/Icon";
import { Menu } from "../ui/Menu";
import type { Conversation } from "../api/types";
import { focusComposer } from "./Composer";
import { conversations, forget, listKnown, loadMore, more, query, refreshConversations, rename, search } from "./conversations";
import { conversation, open, runningConversation } from "./thread";

export const sidebarOpen = signal(false);

export function startNew(): void {
  sidebarOpen.value = false;
  go({ page: "chat" });
  void open(undefined);
  requestAnimationFrame(focusComposer);
}

const PAGES = [
  { page: "knowledge", icon: "book", label: "knowledge" },
  { page: "search", icon: "compare", label: "playground" },
  { page: "status", icon: "activity", label: "status" },
  { page: "settings", icon: "sliders", label: "settings" },
] as const satisfies readonly { page: string; icon: IconName; label: string }[];

export function Sidebar() {
  useEffect(() => void refreshConversations(), []);
  const at = route.value.page;
  return (
    <>
      <nav class={`sidebar${sidebarOpen.value ? " open" : ""}`} aria-label={t("navigation")}>
        <a class="brand" href="/" onClick={(e) => { e.preventDefault(); startNew(); }}><Logo /> Tailrace</a>
        <button type="button" class="new" onClick={startNew}>{t("newConversation")} <kbd>Ctrl K</kbd></button>
        <label class="find">
          <Icon name="search" size={15} />
          <input type="search" placeholder={t("searchConversations")} aria-label={t("searchConversations")} value={query.value} onInput={(e) => search(e.currentTarget.value)} />
        </label>
        <List />
        <div class="pages">
          {PAGES.map(({ page, icon, label }) => (
            <a key={page} href={`/${page}`} class={at === page ? "on" : ""} aria-current={at === page ? "page" : undefined} onClick={() => (sidebarOpen.value = false)}>
              <Icon name={icon} /> {t(label)}
            </a>
          ))}
        </div>
      </nav>
      {sidebarOpen.value && <button type="button" class="scrim left" aria-label={t("closeMenu")} onClick={() => (sidebarOpen.value = false)} />}
    </>
  );
}

function List() {
  const list = conversations.value;
  if (listKnown.value && list.length === 0) {
    return <div class="list"><p class="empty-note">{query.value === "" ? t("noConversations") : t("nothingFound", { query: query.value })}</p></div>;
  }
  let group = "";
  return (
    <div class="list">
      {list.map((item) => {
        const heading = dayGroup(item.updated_at);
        const first = heading !== group;
        group = heading;
        return (
          <div key={item.id}>
            {first && <h2>{heading}</h2>}
            <Entry item={item} />
          </div>
        );
      })}
      {more.value !== undefined && <button type="button" class="textlink older" onClick={() => void loadMore()}>{t("older")}</button>}
    </div>
  );
}

function Entry({ item }: { item: Conversation }) {
  const [editing, setEditing] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const on = route.value.page === "chat" && conversation.value === item.id;
  const live = runningConversation.value === item.id;
  useEffect(() => field.current?.select(), [editing]);
  const remove = async (): Promise<void> => {
    if (!(await confirmed(t("deleteConversationTitle"), t("deleteConversationText"), t("delete")))) return;
    await forget(item.id);
    if (on) startNew();
  };
  if (editing) {
    const done = (value: string): void => {
      setEditing(false);
      if (value.trim() !== "" && value !== item.title) void rename(item.id, value.trim());
    };
    return (
      <input class="title-edit" ref={field} value={item.title} maxLength={200} aria-label={t("title")} onBlur={(e) => done(e.currentTarget.value)}
        onKeyDown={(e) => { if (e.key === "Enter") e.currentTarget.blur(); if (e.key === "Escape") setEditing(false); }} />
    );
  }
  return (
    <div class={`entry${on ? " on" : ""}`}>
      <a href={`/c/${item.id}`} aria-current={on ? "page" : undefined} title={item.title} onClick={() => (sidebarOpen.value = false)}>
        {live && <span class="dot live" title={t("running")} />}
        {item.title === "" ? t("untitled") : item.title}
      </a>
      <Menu label={t("conversationMenu")} items={[
        { label: t("rename"), act: () => setEditing(true) },
        { label: t("delete"), danger: true, act: () => void remove() },
      ]}><Icon name="more" size={16} /></Menu>
    </div>
  );
}
