// Asks before something is lost. The browser's own dialog element: focus stays inside, Escape means no.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { t } from "../i18n";

interface Question {
  title: string;
  text: string;
  yes: string;
  answer(yes: boolean): void;
}

const asked = signal<Question | undefined>(undefined);

export function confirmed(title: string, text: string, yes: string): Promise<boolean> {
  return new Promise((resolve) => {
    asked.value = {
      title, text, yes,
      answer(answer) {
        asked.value = undefined;
        resolve(answer);
      },
    };
  });
}

export function Confirm() {
  const dialog = useRef<HTMLDialogElement>(null);
  const question = asked.value;
  useEffect(() => {
    if (question !== undefined) dialog.current?.showModal();
  }, [question]);
  if (question === undefined) return null;
  return (
    <dialog ref={dialog} class="confirm" aria-labelledby="confirm-title" onCancel={() => question.answer(false)}>
      <h2 id="confirm-title">{question.title}</h2>
      <p>{question.text}</p>
      <div class="row end">
        <button type="button" class="btn" onClick={() => question.answer(false)}>{t("cancel")}</button>
        <button type="button" class="btn bad" onClick={() => question.answer(true)}>{question.yes}</button>
      </div>
    </dialog>
  );
}
