// The jobs of a collection: how far each has come, why one failed; one can be cancelled, or tried again.

import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { capabilities } from "../api/capability";
import type { Job } from "../api/types";
import { duration, fullMoment, moment } from "../format";
import { number, t, tWord } from "../i18n";
import { pathOf } from "../route";
import { Icon } from "../ui/Icon";
import { ProblemBox } from "../ui/ProblemBox";
import { act, isOf, isOpen, jobs, jobsKnown, jobsProblem, lasted, loadJobs, moreJobs, olderJobs, type JobFilter } from "./jobs";
import { settled } from "./uploads";

const OPEN_MS = 1000;
const IDLE_MS = 5000;
const FILTERS = ["all", "working", "failed", "cancelled"] as const satisfies readonly JobFilter[];

export default function JobsView({ collection }: { collection: string }) {
  const [filter, setFilter] = useState<JobFilter>("all");
  const busy = jobs.value.some(isOpen);
  useEffect(() => {
    void loadJobs(collection);
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") void loadJobs(collection);
    }, busy ? OPEN_MS : IDLE_MS);
    return () => clearInterval(timer);
  }, [collection, busy, settled.value]);
  const labels = { all: t("filterAll"), working: t("filterWorking"), failed: t("filterFailed"), cancelled: t("filterCancelled") };
  const shown = jobs.value.filter((job) => isOf(job, filter));
  // Of a document that was sent again, only the newest can be tried again.
  const newest = new Map([...jobs.value].reverse().map((job) => [job.document_id ?? job.id, job.id]));
  const isNewest = (job: Job): boolean => newest.get(job.document_id ?? job.id) === job.id;
  const failed = jobs.value.filter((job) => job.status === "failed" && isNewest(job));
  return (
    <>
      <div class="filters">
        {FILTERS.map((f) => (
          <button key={f} type="button" class="chip" aria-pressed={filter === f} onClick={() => setFilter(f)}>
            {labels[f]} <span class="num">{number(jobs.value.filter((job) => isOf(job, f)).length)}</span>
          </button>
        ))}
        {failed.length > 1 && capabilities.value.ingest && (
          <button type="button" class="btn small end" onClick={() => void act(collection, Promise.all(failed.map((job) => api.retryJob(job.id))).then((all) => all[0] as Response))}>
            <Icon name="again" size={15} />{t("retryAll", { count: failed.length })}
          </button>
        )}
      </div>
      <div class="jobs" tabIndex={-1}>
        {jobsProblem.value !== undefined && <div class="pad"><ProblemBox problem={jobsProblem.value} onRetry={() => void loadJobs(collection)} /></div>}
        {jobsKnown.value && shown.length === 0 && jobsProblem.value === undefined && <p class="empty-note">{t("noJobs")}</p>}
        <ul aria-label={t("viewJobs")}>{shown.map((job) => <JobRow key={job.id} job={job} newest={isNewest(job)} />)}</ul>
        {moreJobs.value !== undefined && <button type="button" class="textlink older" onClick={() => void olderJobs(collection)}>{t("olderJobs")}</button>}
      </div>
    </>
  );
}

function JobRow({ job, newest }: { job: Job; newest: boolean }) {
  const open = isOpen(job);
  const name = job.kind === "reindex" ? t("reindexCollection") : (job.uri || job.document_id || job.id);
  const kind = job.status === "indexed" ? "good" : job.status === "failed" ? "failed" : open ? "working" : "still";
  const may = capabilities.value.ingest;
  return (
    <li class={`job ${kind}`}>
      <div class="job-name">
        {job.document_id === null || job.kind === "reindex" ? <b>{name}</b> : <a href={pathOf({ page: "knowledge", collection: job.collection, document: job.document_id, view: "jobs" })}>{name}</a>}
        {job.attempts > 1 && <span class="small num">{t("attempts", { count: job.attempts })}</span>}
      </div>
      <span class={`status ${kind}`}><i aria-hidden="true" />{tWord("upload", job.status)}
        {open && job.total > 0 && <span class="num"> {number(job.done)}/{number(job.total)}</span>}
      </span>
      <span class="small num job-time" title={fullMoment(job.created_at)}>{moment(job.created_at)} · {duration(lasted(job, Date.now()))}</span>
      <span class="job-act">
        {open && may && (
          <button type="button" class="btn small" aria-label={`${t("cancel")}: ${name}`} onClick={() => void act(job.collection, api.cancelJob(job.id))}>{t("cancel")}</button>
        )}
        {!open && job.status !== "indexed" && may && newest && (
          <button type="button" class="btn small" aria-label={`${t("tryAgain")}: ${name}`} onClick={() => void act(job.collection, api.retryJob(job.id))}>{t("tryAgain")}</button>
        )}
      </span>
      {open && job.total > 0 && <progress max={job.total} value={job.done} aria-label={name} />}
      {job.error !== undefined && <p class={`job-why small${job.status === "failed" ? " bad" : ""}`}>{job.error.message}</p>}
    </li>
  );
}
