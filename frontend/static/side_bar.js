// The width of the side bar: glyphs only, or with names, as chosen in this browser; else by the window's width.
(() => {
  const root = document.documentElement;
  const small = matchMedia("(max-width: 1100px)");

  const stored = () => {
    try {
      return localStorage.getItem("side-bar");
    } catch {
      return null; // storage is disabled: the choice lasts as long as the page
    }
  };

  let chosen = ["narrow", "wide"].includes(stored()) ? stored() : null;
  const width = () => chosen ?? (small.matches ? "narrow" : "wide");
  root.dataset.sideBar = width();

  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("collapse");
    const label = button.querySelector("span");
    const show = () => {
      root.dataset.sideBar = width();
      label.textContent = width() === "narrow" ? "Expand side bar" : "Collapse side bar";
    };
    show();
    button.hidden = false;
    small.addEventListener("change", show);
    button.addEventListener("click", () => {
      chosen = width() === "narrow" ? "wide" : "narrow";
      show();
      try {
        localStorage.setItem("side-bar", chosen);
      } catch {
        // see `stored`
      }
    });
  });
})();
