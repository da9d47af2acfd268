// The bar above a page: its name, and what belongs to all of it.

import type { ComponentChildren } from "preact";
import { sidebarOpen } from "../chat/Sidebar";
import { t } from "../i18n";
import { Icon } from "./Icon";

export function PageHead({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <header class="topbar">
      <button type="button" class="quiet icon-only only-narrow" aria-label={t("openMenu")} onClick={() => (sidebarOpen.value = true)}><Icon name="menu" /></button>
      <h1 class="title">{title}</h1>
      <div class="top-end">{children}</div>
    </header>
  );
}
