// A conversation as a file: Markdown for people, JSON for programs. The server writes it, without tool blocks and
// without numbers that stand for no source.

import { api } from "../api/client";

export async function save(id: string, title: string, format: "md" | "json"): Promise<void> {
  const url = URL.createObjectURL(await api.exported(id, format));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${fileName(title)}.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function fileName(title: string): string {
  return title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "conversation";
}
