// The theme: the system's, until the button changes it. Not a module, so that it is applied before the first paint.
"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  const chosen = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // storage is disabled
    }
  };
  const remember = (theme) => {
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // The theme lasts until the page is closed.
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
