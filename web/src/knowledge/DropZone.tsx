// Files can be dropped anywhere; they go into the collection that is looked at or asked.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { t } from "../i18n";
import { prefs } from "../prefs";
import { route } from "../route";
import { Icon } from "../ui/Icon";
import { droppedFiles, takeFiles } from "./uploads";

const over = signal(false);

export function target(): string {
  const at = route.value;
  return (at.page === "knowledge" ? at.collection : undefined) ?? prefs.value.collection[0] ?? "default";
}

export function DropZone() {
  useEffect(() => {
    let depth = 0;
    const hasFiles = (e: DragEvent): boolean => e.dataTransfer?.types.includes("Files") === true;
    const enter = (e: DragEvent): void => {
      if (!hasFiles(e)) return;
      depth++;
      over.value = true;
    };
    const leave = (): void => {
      depth = Math.max(0, depth - 1);
      if (depth === 0) over.value = false;
    };
    const move = (e: DragEvent): void => {
      if (hasFiles(e)) e.preventDefault();
    };
    const drop = (e: DragEvent): void => {
      depth = 0;
      over.value = false;
      if (e.dataTransfer === null || !hasFiles(e)) return;
      e.preventDefault();
      const into = target();
      void droppedFiles(e.dataTransfer).then((files) => takeFiles(into, files));
    };
    addEventListener("dragenter", enter);
    addEventListener("dragleave", leave);
    addEventListener("dragover", move);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragenter", enter);
      removeEventListener("dragleave", leave);
      removeEventListener("dragover", move);
      removeEventListener("drop", drop);
    };
  }, []);
  if (!over.value) return null;
  return (
    <div class="dropzone">
      <div><Icon name="upload" size={28} /><p>{t("dropInto", { name: target() })}</p></div>
    </div>
  );
}
