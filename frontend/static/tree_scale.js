// The Tree page: zooms and moves the drawing by its viewBox. Without this, it scrolls.
(() => {
  const MOST = 6;
  const STEP = 1.25;
  const figure = document.getElementById("diagram");
  const buttons = document.querySelector(".scale");
  const drawing = () => document.getElementById("tree-svg");
  let view = null; // { zoom, x, y, height }: middle of what is seen, in units; null: as it was sent

  const size = (svg) => ({ width: Number(svg.getAttribute("width")), height: Number(svg.getAttribute("height")) });

  const apply = () => {
    const svg = drawing();
    buttons.hidden = svg === null;
    if (svg === null || view === null) return;
    const { width, height } = size(svg);
    const [wide, high] = [width / view.zoom, height / view.zoom];
    view.x = Math.max(wide / 2, Math.min(width - wide / 2, view.x));
    view.y = Math.max(high / 2, Math.min(height - high / 2, view.y));
    svg.setAttribute("viewBox", [view.x - wide / 2, view.y - high / 2, wide, high].map((each) => Number(each.toFixed(2))).join(" "));
    svg.classList.toggle("scaled", view.zoom > 1);
    svg.classList.add("whole");
    svg.style.height = `${view.height}px`;
  };

  // Seen as a whole: as wide as the panel, and not higher than the window.
  const fitted = (svg) => {
    const { width, height } = size(svg);
    const high = (figure.clientWidth - 16) * (height / width);
    return { zoom: 1, x: width / 2, y: height / 2, height: Math.min(high, height, 0.86 * innerHeight) };
  };

  const asSent = (svg) => ({ ...fitted(svg), height: svg.getBoundingClientRect().height });

  // Units at a point of the window.
  const at = (svg, event) => {
    const matrix = svg.getScreenCTM();
    return { x: (event.clientX - matrix.e) / matrix.a, y: (event.clientY - matrix.f) / matrix.d };
  };

  const zoom = (factor, event) => {
    const svg = drawing();
    if (svg === null) return;
    view ??= asSent(svg);
    const next = Math.max(1, Math.min(MOST, view.zoom * factor));
    if (event) {
      // What is below the pointer stays there.
      const point = at(svg, event);
      view.x = point.x + ((view.x - point.x) * view.zoom) / next;
      view.y = point.y + ((view.y - point.y) * view.zoom) / next;
    }
    view.zoom = next;
    apply();
  };

  const fit = () => {
    const svg = drawing();
    if (svg === null) return;
    view = fitted(svg);
    apply();
  };

  const act = (name) => (name === "0" ? fit() : zoom(name === "+" ? STEP : 1 / STEP));

  buttons.addEventListener("click", (event) => {
    const name = event.target.closest("[data-scale]")?.dataset.scale;
    if (name) act(name);
  });
  figure.parentElement.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const name = { "+": "+", "=": "+", "-": "-", 0: "0" }[event.key];
    if (!name) return;
    event.preventDefault();
    act(name);
  });
  figure.addEventListener(
    "wheel",
    (event) => {
      if (!(event.ctrlKey || event.metaKey) || drawing() === null) return; // the page scrolls
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1.1 : 1 / 1.1, event);
    },
    { passive: false },
  );

  let grabbed = null;
  figure.addEventListener("pointerdown", (event) => {
    const svg = drawing();
    if (view === null || view.zoom === 1 || event.button !== 0 || !svg?.contains(event.target)) return;
    grabbed = { from: at(svg, event), moved: false };
  });
  addEventListener("pointermove", (event) => {
    const svg = drawing();
    if (grabbed === null || svg === null) return;
    const now = at(svg, event);
    if (!grabbed.moved && Math.hypot(now.x - grabbed.from.x, now.y - grabbed.from.y) * view.zoom < 6) return;
    grabbed.moved = true;
    svg.classList.add("grabbed");
    view.x += grabbed.from.x - now.x;
    view.y += grabbed.from.y - now.y;
    apply();
  });
  addEventListener("pointerup", () => {
    drawing()?.classList.remove("grabbed");
    // The click that follows is still to be seen as part of the move.
    setTimeout(() => (grabbed = null));
  });
  figure.addEventListener(
    "click",
    (event) => {
      if (grabbed?.moved) {
        event.preventDefault();
        event.stopPropagation();
      }
    },
    true,
  );
  figure.addEventListener("dragstart", (event) => {
    if (view !== null && view.zoom > 1) event.preventDefault();
  });

  // New blocks come as they were sent.
  document.querySelector(".tree-page").addEventListener("htmx:sseMessage", apply);
  apply();
})();
