// One set of line icons, 24 units, strokes of 1.75.

const PATHS = {
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM20 20l-4-4",
  send: "M12 19V5M6 11l6-6 6 6",
  fetch: "M12 4v11M7 11l5 5 5-5M5 20h14",
  tool: "M14.5 6.5a4 4 0 0 0-5.3 4.9L4 16.6V20h3.4l5.2-5.2a4 4 0 0 0 4.9-5.3L15 12l-3-3 2.5-2.5Z",
  book: "M5 5.5A2.5 2.5 0 0 1 7.500 3H19v15H7.500A2.500 2.500 0 0 0 5 20.500v-15ZM5 20.500A1.500 1.500 0 0 0 6.500 22H19M9 7.500h6",
  compare: "M4 5h6v14H4zM14 5h6v14h-6zM10 9h4M10 15h4",
  activity: "M3 12h4l3-7 4 14 3-7h4",
  sliders: "M4 7h9M17 7h3M4 17h3M11 17h9M15 9.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5ZM9 19.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5Z",
  chevron: "M9 6l6 6-6 6",
  copy: "M9 9h10v11H9zM15 9V4H5v11h4",
  check: "M5 12.500l4.500 4.500L19 7.500",
  pencil: "M4 20l1-4L16 5l3 3L8 19l-4 1ZM13.500 7.500l3 3",
  again: "M20 12a8 8 0 1 1-2.400-5.700M20 3.500v4h-4",
  trash: "M4 7h16M9 7V4h6v3M6.500 7l1 13h9l1-13M10.500 11v5M13.500 11v5",
  close: "M6 6l12 12M18 6L6 18",
  menu: "M4 7h16M4 12h16M4 17h16",
  panel: "M4 5h16v14H4zM14.500 5v14",
  out: "M14 4h6v6M20 4l-9 9M10 5H5v14h14v-5",
  file: "M6 3h8l4 4v14H6V3ZM14 3v4h4",
  upload: "M12 16V5M7 10l5-5 5 5M5 20h14",
  folder: "M3 6h6l2 2.500h10V19H3V6Z",
  globe: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM3 12h18M12 3c2.500 2.600 3.800 5.600 3.800 9S14.500 18.400 12 21c-2.500-2.600-3.800-5.600-3.800-9S9.500 5.600 12 3Z",
  alert: "M12 4l9 16H3L12 4ZM12 10v4.500M12 17.300v.1",
  info: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 11v5M12 7.800v.1",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 7v5l3.500 2",
  branch: "M6 4v10a4 4 0 0 0 4 4h8M15 15l3 3-3 3",
  list: "M4 6h16M4 12h16M4 18h16",
  map: "M9 4 3 6.500v13.500l6-2.500 6 2.500 6-2.500V4l-6 2.500L9 4ZM9 4v13.500M15 6.500V20",
  keep: "M7 4h10v16l-5-4-5 4V4Z",
  down: "M12 5v14M6 13l6 6 6-6",
  stop: "M7 7h10v10H7z",
  thought: "M8 17h8M9 20h6M12 3a6 6 0 0 0-3.500 10.900c.5.400.8 1 .8 1.600h5.400c0-.6.3-1.200.8-1.600A6 6 0 0 0 12 3Z",
  sort: "M8 5v14M5 16l3 3 3-3M16 19V5M13 8l3-3 3 3",
  more: "M6 12v.1M12 12v.1M18 12v.1",
  share: "M12 15V4M8 8l4-4 4 4M6 12H5v8h14v-8h-1",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  const weight = name === "more" ? 2.6 : 1.75;
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true" fill="none" stroke="currentColor"
      stroke-width={weight} stroke-linecap="round" stroke-linejoin="round">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Logo({ size = 24 }: { size?: number }) {
  return (
    <svg class="logo" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      <rect width="24" height="24" rx="7" />
      <path d="M4 9c3 0 3 2.4 6 2.400S13 9 16 9s2.400 1.200 4 1.200M4 14.500c3 0 3 2.400 6 2.400s3-2.400 6-2.400 2.400 1.200 4 1.200"
        fill="none" stroke-width="1.9" stroke-linecap="round" />
    </svg>
  );
}
