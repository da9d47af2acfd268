// What a trace of Chromium says about the page's main thread.

export const CATEGORIES = ["toplevel", "cc", "blink", "devtools.timeline", "disabled-by-default-devtools.timeline"];

/** Tasks of the page's main thread, in processor time: what others do on this machine does not count. */
export function tasksIn(trace) {
  const events = JSON.parse(trace).traceEvents;
  const threads = events.filter((e) => e.name === "thread_name" && e.args?.name === "CrRendererMain").map((e) => `${e.pid}/${e.tid}`);
  const main = threads.map((id) => events.filter((e) => `${e.pid}/${e.tid}` === id && e.ph === "X")).sort((x, y) => y.length - x.length)[0] ?? [];
  const named = (...names) => names.map((name) => main.filter((e) => e.name === name)).find((list) => list.length > 0) ?? [];
  const tasks = named("ThreadControllerImpl::RunTask", "RunTask");
  // The whole frame: scripts, style, layout, paint, commit.
  const frames = named("ProxyMain::BeginMainFrame", "ThreadProxy::BeginMainFrame");
  return { tasks: tasks.map((e) => (e.tdur ?? e.dur) / 1000), frames: frames.map((e) => (e.tdur ?? e.dur) / 1000), cpu: tasks.some((e) => e.tdur !== undefined) };
}

/** The value that so large a share of the list does not exceed. */
export function at(list, share) {
  return list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))] ?? 0;
}
