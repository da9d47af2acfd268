// Where in the page one is. The address says it all, so every place can be linked to, and Back works.

import { signal } from "@preact/signals";

/** How a collection is looked at: as a list of documents where nothing is said. */
export type View = "map" | "jobs";

export type Route =
  | { page: "chat"; conversation?: string }
  | { page: "knowledge"; collection?: string; document?: string; from?: number; to?: number; view?: View }
  | { page: "search"; query?: string; collection?: string }
  | { page: "status" }
  | { page: "settings" };

export const route = signal<Route>(typeof location === "undefined" ? { page: "chat" } : read(location.pathname, location.search));

export function read(path: string, search = ""): Route {
  const parts = path.split("/").filter((p) => p !== "").map(decode);
  const query = new URLSearchParams(search);
  const [first, second, ...rest] = parts;
  switch (first) {
    case "c":
      return second === undefined ? { page: "chat" } : { page: "chat", conversation: second };
    case "knowledge": {
      const document = rest.length > 0 ? rest.join("/") : undefined;
      const from = whole(query.get("from"));
      const to = whole(query.get("to"));
      const view = (["map", "jobs"] as const).find((v) => v === query.get("view"));
      return {
        page: "knowledge",
        ...(second === undefined ? {} : { collection: second }),
        ...(document === undefined ? {} : { document }),
        ...(from === undefined ? {} : { from }),
        ...(to === undefined ? {} : { to }),
        ...(view === undefined ? {} : { view }),
      };
    }
    case "search": {
      const [q, c] = [query.get("q"), query.get("in")];
      return { page: "search", ...(q === null ? {} : { query: q }), ...(c === null ? {} : { collection: c }) };
    }
    case "status":
    case "settings":
      return { page: first };
    default:
      return { page: "chat" };
  }
}

export function pathOf(to: Route): string {
  switch (to.page) {
    case "chat":
      return to.conversation === undefined ? "/" : `/c/${encodeURIComponent(to.conversation)}`;
    case "knowledge": {
      const asked = new URLSearchParams({
        ...(to.from === undefined ? {} : { from: `${to.from}`, to: `${to.to ?? to.from}` }), ...(to.view === undefined ? {} : { view: to.view }),
      }).toString();
      const query = asked === "" ? "" : `?${asked}`;
      if (to.collection === undefined) return "/knowledge";
      const path = `/knowledge/${encodeURIComponent(to.collection)}`;
      return to.document === undefined ? path + query : `${path}/${encodeURIComponent(to.document)}${query}`;
    }
    case "search": {
      const asked = new URLSearchParams({ ...(to.query === undefined ? {} : { q: to.query }), ...(to.collection === undefined ? {} : { in: to.collection }) }).toString();
      return asked === "" ? "/search" : `/search?${asked}`;
    }
    default:
      return `/${to.page}`;
  }
}

export function go(to: Route, replace = false): void {
  const path = pathOf(to);
  if (path !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", path);
  route.value = to;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function whole(text: string | null): number | undefined {
  return text !== null && /^\d{1,12}$/.test(text) ? Number(text) : undefined;
}

if (typeof window !== "undefined") {
  window.addEventListener("popstate", () => (route.value = read(location.pathname, location.search)));
  // Links are plain links: they can be copied and opened in another tab. Only a plain click stays in this page.
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.("a");
    if (link == null || link.target !== "" || link.origin !== location.origin || link.hasAttribute("download")) return;
    event.preventDefault();
    go(read(link.pathname, link.search));
  });
}
