import { effect } from "@preact/signals";
import { render } from "preact";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/chat.css";
import "./styles/markdown.css";
import "./styles/pages.css";
import { App } from "./app";
import { useLanguage } from "./i18n";
import { applyPrefs, prefs } from "./prefs";

applyPrefs();
const root = document.getElementById("app");
let language = prefs.value.language;
await useLanguage(language);
effect(() => {
  if (prefs.value.language === language) return;
  language = prefs.value.language;
  void useLanguage(language);
});
if (root !== null) render(<App />, root);
