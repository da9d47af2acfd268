// How questions are asked and how the page looks; keys for those who may manage them.

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { capabilities } from "../api/capability";
import { currentKey, useKey } from "../api/client";
import { allTools, providers } from "../chat/choices";
import { t, tWord } from "../i18n";
import { prefs, setPrefs, type Prefs } from "../prefs";
import { PageHead } from "../ui/PageHead";
import { Keys } from "./Keys";

export function SettingsPage() {
  useEffect(() => {
    document.title = `${t("settings")} · Tailrace`;
  }, []);
  const p = prefs.value;
  return (
    <main class="settings" tabIndex={-1}>
      <PageHead title={t("settings")} />
      <div class="settings-body">
        <Group title={t("looks")}>
          <Choice label={t("theme")} value={p.theme} options={["system", "light", "dark"]} word={(v) => tWord("theme", v)} onChange={(theme) => setPrefs({ theme: theme as Prefs["theme"] })} />
          <Choice label={t("language")} value={p.language} options={["en", "de"]} word={(v) => (v === "en" ? "English" : "Deutsch")} onChange={(language) => setPrefs({ language: language as Prefs["language"] })} />
        </Group>
        <Group title={t("model")} text={t("modelText")}>
          <ProviderChoice />
          <Choice label={t("effort")} value={p.effort ?? "auto"} options={["auto", "low", "medium", "high"]} word={(v) => tWord("effort", v)}
            onChange={(v) => setPrefs({ effort: v === "auto" ? undefined : v } as Partial<Prefs>)} />
        </Group>
        <Group title={t("toolsTitle")} text={t("toolsText")}>
          <Choice label={t("howTools")} value={p.toolMode} options={["auto", "inline", "native", "off"]} word={(v) => tWord("mode", v)} onChange={(v) => setPrefs({ toolMode: v as Prefs["toolMode"] })} />
          <Choice label={t("howPassages")} value={p.retrieval} options={["auto", "tool", "required", "off"]} word={(v) => tWord("retrieval", v)} onChange={(v) => setPrefs({ retrieval: v as Prefs["retrieval"] })} />
          {allTools.value.map((tool) => (
            <label class="check block" key={tool.name}>
              <input type="checkbox" checked={!p.toolsOff.includes(tool.name)}
                onChange={(e) => setPrefs({ toolsOff: e.currentTarget.checked ? p.toolsOff.filter((n) => n !== tool.name) : [...p.toolsOff, tool.name] })} />
              <span><code>{tool.name}</code><span class="small">{tool.description}</span></span>
            </label>
          ))}
        </Group>
        <Group title={t("limits")} text={t("limitsText")}>
          {(["max_continuations", "max_tools_per_round", "max_tools_total", "tool_timeout_ms"] as const).map((name) => <Limit key={name} name={name} />)}
        </Group>
        {currentKey() !== null && (
          <Group title={t("keyLabel")} text={t("keyInUse")}>
            <button type="button" class="btn" onClick={() => { useKey(null, false); location.assign("/"); }}>{t("keyForget")}</button>
          </Group>
        )}
        {capabilities.value.admin && <Group title={t("keys")} text={t("keysText")}><Keys /></Group>}
      </div>
    </main>
  );
}

function Group({ title, text, children }: { title: string; text?: string; children: ComponentChildren }) {
  return (
    <section class="group">
      <div class="group-head"><h2>{title}</h2>{text !== undefined && <p>{text}</p>}</div>
      <div class="group-body">{children}</div>
    </section>
  );
}

interface ChoiceProps {
  label: string;
  value: string;
  options: readonly string[];
  word(option: string): string;
  onChange(option: string): void;
}

function Choice({ label, value, options, word, onChange }: ChoiceProps) {
  return (
    <fieldset class="choice">
      <legend>{label}</legend>
      <div class="segments">
        {options.map((option) => (
          <label key={option} class={option === value ? "on" : ""}>
            <input type="radio" name={label} class="visually-hidden" checked={option === value} onChange={() => onChange(option)} />{word(option)}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

/** The whole of what can be chosen comes from the server; another model's name can be typed. */
function ProviderChoice() {
  const p = prefs.value;
  const first = providers.value[0];
  const chosen = p.provider ?? first?.id ?? "";
  return (
    <>
      <div class="options" role="radiogroup" aria-label={t("provider")}>
        {providers.value.map((provider, i) => (
          <label key={`${provider.id}${provider.model}`} class={`option${provider.id === chosen ? " on" : ""}`}>
            <input type="radio" name="provider" checked={provider.id === chosen}
              onChange={() => setPrefs({ provider: i === 0 ? undefined : provider.id, model: undefined } as unknown as Partial<Prefs>)} />
            <span><b>{tWord("provider", provider.id)}</b><span class="small">{provider.model}{i === 0 && ` · ${t("default")}`}</span>
              <span class="small">{about(provider.id)}</span></span>
          </label>
        ))}
      </div>
      {chosen !== "extractive" && chosen !== "local" && (
        <label class="field">{t("otherModel")}
          <input value={p.model ?? ""} placeholder={providers.value.find((x) => x.id === chosen)?.model ?? ""} spellcheck={false}
            onChange={(e) => setPrefs({ model: e.currentTarget.value.trim() || undefined } as Partial<Prefs>)} />
        </label>
      )}
    </>
  );
}

function about(id: string): string {
  if (id === "extractive") return t("aboutExtractive");
  return id === "local" ? t("aboutLocal") : "";
}

function Limit({ name }: { name: keyof Prefs["limits"] }) {
  const limits = prefs.value.limits;
  return (
    <label class="field inline">{tWord("limit", name)}
      <input type="number" min={name === "tool_timeout_ms" ? 1 : 0} step={1} value={limits[name] ?? ""} placeholder={t("serversLimit")}
        onChange={(e) => {
          const { [name]: _old, ...rest } = limits;
          const value = e.currentTarget.value === "" ? undefined : Math.max(0, Math.round(Number(e.currentTarget.value)));
          setPrefs({ limits: value === undefined || Number.isNaN(value) ? rest : { ...rest, [name]: value } });
        }} />
    </label>
  );
}
