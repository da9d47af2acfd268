// A new collection: its name, the language whose word forms its keyword search knows, and how many versions it keeps.

import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import { asProblem } from "../api/problem";
import { loadChoices } from "../chat/choices";
import { locale, t } from "../i18n";
import { go } from "../route";

/** Those that the server has word forms of. */
const LANGUAGES = ["ar", "da", "de", "el", "en", "es", "fi", "fr", "hu", "it", "nl", "no", "pt", "ro", "ru", "sv", "tr"];
const AUTO = "auto";

export function NewCollection({ onClose }: { onClose(): void }) {
  const [wrong, setWrong] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const make = async (form: HTMLFormElement): Promise<void> => {
    const data = new FormData(form);
    const name = String(data.get("name")).trim().toLowerCase().replace(/\s+/g, "-");
    if (!/^[a-z0-9][a-z0-9_-]{0,62}$/.test(name)) return setWrong(t("collectionNameRule"));
    const language = String(data.get("language"));
    const kept = Number(data.get("kept"));
    try {
      await api.createCollection({ name, ...(language === AUTO ? {} : { language }), ...(kept > 1 ? { keep_versions: kept } : {}) });
      await loadChoices();
      onClose();
      go({ page: "knowledge", collection: name });
    } catch (error) {
      setWrong(asProblem(error).detail);
    }
  };
  const named = new Intl.DisplayNames(locale(), { type: "language" });
  const languages = LANGUAGES.map((code) => ({ code, name: named.of(code) ?? code })).sort((a, b) => a.name.localeCompare(b.name, locale()));
  return (
    <form class="row new-collection" onSubmit={(e) => { e.preventDefault(); void make(e.currentTarget); }} onKeyDown={(e) => { if (e.key === "Escape") onClose(); }}>
      <input ref={field} name="name" class="tight" aria-label={t("collectionName")} placeholder={t("collectionName")} maxLength={63} aria-invalid={wrong !== ""} />
      <select name="language" class="tight" aria-label={t("keywordLanguage")} title={t("keywordLanguage")}>
        <option value={AUTO}>{t("languageAuto")}</option>
        {languages.map(({ code, name }) => <option key={code} value={code}>{name}</option>)}
      </select>
      <label class="check small">{t("versionsKept")}<input name="kept" class="tight few" type="number" min={1} defaultValue="1" /></label>
      <button type="submit" class="btn small primary">{t("create")}</button>
      <button type="button" class="btn small" onClick={onClose}>{t("cancel")}</button>
      {wrong !== "" && <span class="bad small" role="alert">{wrong}</span>}
    </form>
  );
}
