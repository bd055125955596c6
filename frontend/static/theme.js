// The theme: the system's, or the one chosen with the button, stored in this browser.
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
    const button = document.getElementById("theme");
    const name = document.getElementById("theme-name");
    button.hidden = false;
    name.textContent = theme;
    button.addEventListener("click", () => {
      theme = themes[(themes.indexOf(theme) + 1) % themes.length];
      show(theme);
      name.textContent = theme;
      try {
        localStorage.setItem("theme", theme);
      } catch {
        // see `stored`
      }
    });
  });
})();
