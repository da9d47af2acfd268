// What an empty conversation shows: the first time three steps, later a few questions to begin with.

import { useState } from "preact/hooks";
import { api } from "../api/client";
import { asProblem, type Problem } from "../api/problem";
import { t } from "../i18n";
import { prefs } from "../prefs";
import { takeFiles } from "../knowledge/uploads";
import { Icon, Logo } from "../ui/Icon";
import { ProblemBox } from "../ui/ProblemBox";
import { focusComposer, text } from "./Composer";
import { choicesKnown, collections, loadChoices, providers } from "./choices";
import { SAMPLES } from "./samples";
import { ask } from "./thread";

export function FirstRun() {
  if (!choicesKnown.value) return null;
  const chosen = collections.value.filter((c) => prefs.value.collection.includes(c.name));
  const documents = chosen.reduce((sum, c) => sum + c.documents, 0);
  return (
    <div class="first">
      <Logo size={40} />
      <h2>{documents === 0 ? t("firstTitle") : t("askTitle")}</h2>
      <p class="lead">{documents === 0 ? t("firstLead") : t("askLead", { name: prefs.value.collection.join(", "), count: documents })}</p>
      {documents === 0 ? <Steps /> : <Suggestions />}
    </div>
  );
}

function Steps() {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const into = prefs.value.collection[0] ?? "default";
  const sample = async (): Promise<void> => {
    setBusy(true);
    setProblem(undefined);
    try {
      await api.addTexts(into, SAMPLES, true);
      await loadChoices();
      text.value = t("sampleQuestion");
      focusComposer();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  const main = providers.value[0];
  const builtIn = main === undefined || main.id === "local" || main.id === "extractive";
  return (
    <>
      <ol class="steps">
        <li>
          <div><b>{t("step1")}</b><p>{t("step1Text")}</p></div>
          <div class="row">
            <label class="btn primary">
              <Icon name="upload" size={16} />{t("chooseFiles")}
              <input type="file" multiple class="visually-hidden" onChange={(e) => takeFiles(into, [...(e.currentTarget.files ?? [])])} />
            </label>
            <button type="button" class="btn" disabled={busy} onClick={() => void sample()}>{busy ? t("adding") : t("addSample")}</button>
          </div>
        </li>
        <li>
          <div>
            <b>{t("step2")}</b>
            <p>{builtIn ? (main?.id === "extractive" ? t("step2Extractive") : t("step2Local", { model: main?.model ?? "" })) : t("step2Other", { provider: main?.id ?? "", model: main?.model ?? "" })}</p>
          </div>
          <a class="btn" href="/settings">{t("chooseModel")}</a>
        </li>
        <li>
          <div><b>{t("step3")}</b><p>{t("step3Text")}</p></div>
        </li>
      </ol>
      {problem !== undefined && <ProblemBox problem={problem} />}
    </>
  );
}

function Suggestions() {
  const list = [t("suggest1"), t("suggest2"), t("suggest3")];
  return (
    <ul class="suggestions">
      {list.map((question) => (
        <li key={question}><button type="button" onClick={() => void ask(question)}>{question}<Icon name="chevron" size={15} /></button></li>
      ))}
    </ul>
  );
}
