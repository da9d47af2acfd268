// Managed keys: made, scoped, revoked. A new key's secret is shown once.

import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { asProblem, type Problem } from "../api/problem";
import type { Key } from "../api/types";
import { collections } from "../chat/choices";
import { moment } from "../format";
import { t, tWord } from "../i18n";
import { confirmed } from "../ui/Confirm";
import { ProblemBox } from "../ui/ProblemBox";

const SCOPES = ["chat", "search", "ingest", "admin"] as const;

export function Keys() {
  const [keys, setKeys] = useState<Key[]>([]);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const [secret, setSecret] = useState("");
  const load = (): void => void api.keys().then(setKeys, (error: unknown) => setProblem(asProblem(error)));
  useEffect(load, []);
  const make = async (form: HTMLFormElement): Promise<void> => {
    const data = new FormData(form);
    const only = data.getAll("collection").map(String);
    const days = Number(data.get("days"));
    setProblem(undefined);
    try {
      const made = await api.createKey({
        name: String(data.get("name")), scopes: data.getAll("scope").map(String), ...(only.length === 0 ? {} : { collections: only }),
        ...(days > 0 ? { expires_at: new Date(Date.now() + days * 86_400_000).toISOString() } : {}),
      });
      setSecret(made.key ?? made.secret ?? "");
      form.reset();
      load();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  const revoke = async (key: Key): Promise<void> => {
    if (key.id === null || !(await confirmed(t("revokeTitle", { name: key.name }), t("revokeText"), t("revoke")))) return;
    await api.revokeKey(key.id).catch((error: unknown) => setProblem(asProblem(error)));
    load();
  };
  return (
    <>
      {problem !== undefined && <ProblemBox problem={problem} />}
      {secret !== "" && <div class="secret" role="status"><p>{t("secretOnce")}</p><code>{secret}</code><button type="button" class="btn small" onClick={() => void navigator.clipboard.writeText(secret)}>{t("copy")}</button></div>}
      {keys.length > 0 && (
        <table class="plain">
          <thead><tr><th>{t("keyName")}</th><th>{t("scopes")}</th><th>{t("collections")}</th><th>{t("expires")}</th><th /></tr></thead>
          <tbody>
            {keys.map((key) => (
              <tr key={key.id ?? key.name}>
                <td>{key.name}</td><td>{key.scopes.map((s) => tWord("scope", s)).join(", ")}</td>
                <td>{key.collections === undefined || key.collections.length === 0 ? t("allOfThem") : key.collections.join(", ")}</td>
                <td>{key.expires_at == null ? t("never") : moment(key.expires_at)}</td>
                <td class="right">{key.id !== null && <button type="button" class="textlink" onClick={() => void revoke(key)}>{t("revoke")}</button>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <form class="key-form" onSubmit={(e) => { e.preventDefault(); void make(e.currentTarget); }}>
        <label class="field">{t("keyName")}<input name="name" required maxLength={100} /></label>
        <fieldset class="row"><legend>{t("scopes")}</legend>{SCOPES.map((s) => <label key={s} class="check"><input type="checkbox" name="scope" value={s} defaultChecked={s === "chat" || s === "search"} />{tWord("scope", s)}</label>)}</fieldset>
        <fieldset class="row"><legend>{t("onlyCollections")}</legend>{collections.value.map((c) => <label key={c.name} class="check"><input type="checkbox" name="collection" value={c.name} />{c.name}</label>)}</fieldset>
        <label class="field">{t("expiresDays")}<input name="days" type="number" min={0} placeholder={t("never")} /></label>
        <button type="submit" class="btn primary">{t("makeKey")}</button>
      </form>
    </>
  );
}
