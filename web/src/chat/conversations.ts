// The list of conversations: by day, searched, page by page.

import { signal } from "@preact/signals";
import { api } from "../api/client";
import type { Conversation } from "../api/types";

export const conversations = signal<Conversation[]>([]);
export const query = signal("");
export const more = signal<string | undefined>(undefined);
export const listKnown = signal(false);

let asked = 0;

export async function refreshConversations(): Promise<void> {
  const mine = ++asked;
  try {
    const page = await api.conversations(query.peek());
    if (mine !== asked) return;
    conversations.value = page.conversations;
    more.value = page.next;
    listKnown.value = true;
  } catch {
    // The list stays as it was; what is wrong is said where one acts.
  }
}

export async function loadMore(): Promise<void> {
  const after = more.peek();
  if (after === undefined) return;
  const mine = ++asked;
  const page = await api.conversations(query.peek(), after);
  if (mine !== asked) return;
  conversations.value = [...conversations.peek(), ...page.conversations];
  more.value = page.next;
}

let timer: ReturnType<typeof setTimeout> | undefined;

export function search(text: string): void {
  query.value = text;
  clearTimeout(timer);
  timer = setTimeout(() => void refreshConversations(), 150);
}

export async function rename(id: string, title: string): Promise<void> {
  const known = conversations.peek();
  conversations.value = known.map((c) => (c.id === id ? { ...c, title } : c));
  try {
    await api.rename(id, title);
  } finally {
    await refreshConversations();
  }
}

export async function forget(id: string): Promise<void> {
  await api.forget(id);
  conversations.value = conversations.peek().filter((c) => c.id !== id);
}
