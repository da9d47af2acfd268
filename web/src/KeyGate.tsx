// A server with keys: one is asked for before anything else.

import { useEffect, useRef, useState } from "preact/hooks";
import { useKey } from "./api/client";
import { t } from "./i18n";
import { Logo } from "./ui/Icon";

export function KeyGate({ wrong, onEntered }: { wrong: boolean; onEntered(): void }) {
  const field = useRef<HTMLInputElement>(null);
  const [remember, setRemember] = useState(false);
  useEffect(() => field.current?.focus(), []);
  return (
    <main class="gate">
      <form class="gate-box" onSubmit={(event) => {
        event.preventDefault();
        const value = field.current?.value.trim() ?? "";
        if (value === "") return;
        useKey(value, remember);
        onEntered();
      }}>
        <Logo size={36} />
        <h1>{t("keyTitle")}</h1>
        <p>{t("keyText")}</p>
        {wrong && <p class="bad" role="alert">{t("keyWrong")}</p>}
        <label class="field">{t("keyLabel")}<input ref={field} type="password" autocomplete="current-password" spellcheck={false} /></label>
        <label class="check"><input type="checkbox" checked={remember} onChange={(e) => setRemember(e.currentTarget.checked)} />{t("keyRemember")}</label>
        <button type="submit" class="btn primary wide">{t("keyUse")}</button>
      </form>
    </main>
  );
}
