// Before the first paint, so that a chosen theme does not flash. Kept apart: the content policy allows no inline script.
try {
  const theme = JSON.parse(localStorage.getItem("tailrace.prefs") || "{}").theme;
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // No storage: the system's theme it is.
}
