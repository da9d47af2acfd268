// What is being added: each file with its progress and, if it fails, why. Stays until it is read.

import { useState } from "preact/hooks";
import { bytes } from "../format";
import { number, t, tWord } from "../i18n";
import { Icon } from "../ui/Icon";
import { again, againAll, cancel, cancelAll, clearRead, isBad, isFinal, uploads, type Upload } from "./uploads";

/** Rows that are drawn; of a big folder the rest is counted. */
const MOST = 100;

export function UploadList() {
  const [small, setSmall] = useState(false);
  const list = uploads.value;
  if (list.length === 0) return null;
  const done = list.filter(isFinal).length;
  const bad = list.filter(isBad).length;
  // What needs a look comes first.
  const order = [...list].sort((a, b) => rank(a) - rank(b)).slice(0, MOST);
  return (
    <section class="uploads" aria-label={t("uploads")}>
      <header>
        <b role="status">{done < list.length ? t("uploading", { done, count: list.length }) : t("uploaded", { count: done - bad })}</b>
        {bad > 0 && <span class="bad">{t("nFailed", { count: bad })}</span>}
        <span class="end row tightly">
          {bad > 1 && <button type="button" class="textlink" onClick={againAll}>{t("tryAgain")}</button>}
          {list.length - done > 1 && <button type="button" class="textlink" onClick={cancelAll}>{t("cancelAll")}</button>}
          <button type="button" class="quiet icon-only" aria-label={small ? t("showList") : t("hideList")} onClick={() => setSmall(!small)}>
            <span class={`turn ${small ? "up" : "open"}`}><Icon name="chevron" size={15} /></span>
          </button>
          {done === list.length && <button type="button" class="quiet icon-only" aria-label={t("close")} onClick={clearRead}><Icon name="close" size={15} /></button>}
        </span>
      </header>
      {!small && (
        <ul>
          {order.map((upload) => <Row key={upload.key} upload={upload} />)}
          {list.length > MOST && <li class="small">{t("andMore", { count: list.length - MOST })}</li>}
        </ul>
      )}
    </section>
  );
}

function rank(upload: Upload): number {
  if (isBad(upload)) return 0;
  return upload.state === "waiting" ? 2 : isFinal(upload) ? 3 : 1;
}

function Row({ upload }: { upload: Upload }) {
  const bad = isBad(upload);
  const name = upload.name.split("/").at(-1) ?? upload.name;
  return (
    <li class={`upload ${upload.state}`}>
      <span class="upload-name" title={upload.name}>{name}</span>
      <span class="upload-state num">
        {upload.state === "sending" && upload.speed > 0 ? `${bytes(upload.share * upload.size)} / ${bytes(upload.size)} · ${bytes(upload.speed)}/s` : tWord("upload", upload.state)}
        {upload.state === "embedding" && (upload.total ?? 0) > 0 && ` ${number(upload.done ?? 0)}/${number(upload.total ?? 0)}`}
        {upload.state === "indexed" && upload.chunks !== undefined && ` · ${t("nChunks", { count: upload.chunks })}`}
      </span>
      {bad || upload.state === "cancelled" ? (
        <button type="button" class="quiet icon-only" aria-label={t("uploadAgain", { name })} title={t("tryAgain")} onClick={() => again(upload.key)}><Icon name="again" size={15} /></button>
      ) : isFinal(upload) ? <span class="ok"><Icon name="check" size={15} /></span> : (
        <button type="button" class="quiet icon-only" aria-label={t("uploadCancel", { name })} title={t("cancel")} onClick={() => cancel(upload.key)}><Icon name="close" size={15} /></button>
      )}
      {upload.state === "sending" && <progress value={upload.share} max={1} aria-label={name} />}
      {upload.state === "embedding" && (upload.total ?? 0) > 0 ? <progress value={upload.done ?? 0} max={upload.total ?? 1} aria-label={name} />
        : !isFinal(upload) && upload.state !== "sending" && upload.state !== "waiting" && <div class="progress" />}
      {upload.reason !== undefined && <span class="upload-reason bad">{upload.reason}</span>}
    </li>
  );
}
