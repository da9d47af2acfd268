// Deleting a document, and the proof that nothing of it is left.

import { signal } from "@preact/signals";
import { api } from "../api/client";
import { asProblem } from "../api/problem";
import type { DocumentInfo } from "../api/types";
import { loadChoices } from "../chat/choices";
import { t } from "../i18n";
import { go } from "../route";
import { confirmed } from "../ui/Confirm";
import { loadDocuments, problem } from "./documents";

export interface Proof {
  readonly title: string;
  readonly before: number;
  readonly after: number;
}

/** What the last deletion answered; shown until it is read. */
export const proof = signal<Proof | undefined>(undefined);

export async function removeDocument(collection: string, document: DocumentInfo): Promise<void> {
  const title = document.title === "" ? document.uri : document.title;
  if (!(await confirmed(t("deleteDocumentTitle"), t("deleteDocumentText", { title }), t("delete")))) return;
  try {
    const answer = await api.deleteDocument(collection, document.id);
    proof.value = { title, before: answer.points_before, after: answer.points_after };
    go({ page: "knowledge", collection });
    await Promise.all([loadDocuments(collection), loadChoices()]);
  } catch (error) {
    problem.value = asProblem(error);
  }
}
