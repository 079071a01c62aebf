// Runs before the first paint, so that a chosen theme does not flash. "auto" follows the system.
(() => {
  try {
    const chosen = localStorage.getItem("tandem.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset["theme"] = chosen;
  } catch {
    // a browser that stores nothing: auto
  }
})();
