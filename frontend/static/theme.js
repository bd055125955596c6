// The theme: the system's, or the one chosen in the user menu, stored in this browser.
(() => {
  const themes = ["auto", "light", "dark"];
  const root = document.documentElement;

  const stored = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // storage is disabled: the choice lasts as long as the page
    }
  };

  const show = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
  };

  let theme = themes.includes(stored()) ? stored() : "auto";
  show(theme);

  addEventListener("DOMContentLoaded", () => {
    const group = document.getElementById("theme");
    const buttons = [...group.querySelectorAll("button")];
    const mark = () => buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.value === theme)));
    mark();
    group.hidden = false;
    group.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      theme = button.value;
      show(theme);
      mark();
      try {
        localStorage.setItem("theme", theme);
      } catch {
        // see `stored`
      }
    });
  });
})();
