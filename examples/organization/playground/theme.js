// The theme: what the system says, until the button says otherwise. Not a module, so that it comes before the first paint.
"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  const chosen = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // storage is switched off
    }
  };
  const remember = (theme) => {
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // It holds until the page is closed.
    }
  };

  if (chosen()) root.dataset.theme = chosen();
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => button.setAttribute("aria-pressed", String(isDark()));
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remember(root.dataset.theme);
      show();
    });
    system.addEventListener("change", show);
    show();
  });
})();
