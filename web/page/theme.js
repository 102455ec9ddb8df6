// Not a module: it runs before the first paint, so that the page never flashes in the other colours.
(() => {
  try {
    const theme = localStorage.getItem("theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch {
    // storage is switched off: the system's colours it is
  }
})();
