// The frame of the page: navigation at the left, one page at the right, files can be dropped anywhere.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { currentKey, onUnauthorized } from "./api/client";
import { forgetCapabilities, knownCapabilities } from "./api/capability";
import { resetConnection } from "./api/feed";
import { ChatPage } from "./chat/ChatPage";
import { Sidebar, sidebarOpen, startNew } from "./chat/Sidebar";
import { loadChoices } from "./chat/choices";
import { refreshConversations } from "./chat/conversations";
import { t } from "./i18n";
import { DropZone } from "./knowledge/DropZone";
import { UploadList } from "./knowledge/UploadList";
import { lazy } from "./lazy";
import { prefs } from "./prefs";
import { route } from "./route";
import { Confirm } from "./ui/Confirm";
import { KeyGate } from "./KeyGate";

const KnowledgePage = lazy(() => import("./knowledge/KnowledgePage").then((m) => m.KnowledgePage));
const PlaygroundPage = lazy(() => import("./playground/PlaygroundPage").then((m) => m.PlaygroundPage));
const StatusPage = lazy(() => import("./pages/StatusPage").then((m) => m.StatusPage));
const SettingsPage = lazy(() => import("./pages/SettingsPage").then((m) => m.SettingsPage));

const locked = signal(false);

export function App() {
  useEffect(() => {
    onUnauthorized(() => (locked.value = true));
    void knownCapabilities();
    void loadChoices();
    const onKey = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        startNew();
      }
      if (event.key === "Escape") sidebarOpen.value = false;
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  if (locked.value) {
    return <KeyGate wrong={currentKey() !== null} onEntered={() => {
      forgetCapabilities();
      resetConnection();
      locked.value = false;
      void knownCapabilities();
      void loadChoices();
      void refreshConversations();
    }} />;
  }
  return (
    <div class="app" key={prefs.value.language}>
      <a class="skip" href="#content" onClick={(e) => { e.preventDefault(); document.querySelector<HTMLElement>("main")?.focus(); }}>{t("skip")}</a>
      <Sidebar />
      <div class="page" id="content"><Page /></div>
      <DropZone />
      <UploadList />
      <Confirm />
    </div>
  );
}

function Page() {
  switch (route.value.page) {
    case "chat":
      return <ChatPage />;
    case "knowledge":
      return <KnowledgePage />;
    case "search":
      return <PlaygroundPage />;
    case "status":
      return <StatusPage />;
    case "settings":
      return <SettingsPage />;
  }
}
