// Charts: the value and time below the pointer or, by arrow keys, of one point after the other.
(() => {
  // The points are those of the table below the chart, which has them in words.
  const points = (plot) => [...plot.closest("[data-chart]").querySelectorAll("tbody tr[data-left]")];
  const left = (point) => Number(point.dataset.left);

  const read = (plot, number) => {
    const all = points(plot);
    const point = all[Math.max(0, Math.min(number, all.length - 1))];
    if (!point) return;
    plot.dataset.point = String(all.indexOf(point));
    const cross = plot.querySelector(".chart-cross");
    const [line, dot] = cross.children;
    line.setAttribute("x1", `${point.dataset.left}%`);
    line.setAttribute("x2", `${point.dataset.left}%`);
    dot.setAttribute("cx", `${point.dataset.left}%`);
    dot.setAttribute("cy", point.dataset.top ?? "-99");
    cross.classList.add("shown");
    const label = plot.querySelector(".chart-reading") ?? plot.appendChild(document.createElement("output"));
    label.className = "chart-reading";
    const [time, value] = [...point.cells].map((cell) => cell.textContent);
    label.textContent = `${time} UTC: ${value === "–" ? "no value" : value}`;
    // Within the drawing: beside the line, on the side that has more room.
    const width = plot.querySelector(".chart-plot").clientWidth;
    const start = plot.querySelector(".chart-plot").getBoundingClientRect().left - plot.getBoundingClientRect().left;
    const place = (left(point) / 100) * width;
    const fits = place + 12 + label.offsetWidth < width;
    label.style.left = `${start + Math.max(0, fits ? place + 12 : place - 12 - label.offsetWidth)}px`;
  };

  const leave = (plot) => {
    plot.querySelector(".chart-cross").classList.remove("shown");
    plot.querySelector(".chart-reading")?.remove();
    delete plot.dataset.point;
  };

  const plotOf = (target) => target instanceof Element && target.closest("[data-chart] [data-plot]");

  document.addEventListener("pointermove", (event) => {
    const plot = plotOf(event.target);
    if (!plot) return;
    const box = plot.querySelector(".chart-plot").getBoundingClientRect();
    const share = (100 * (event.clientX - box.left)) / box.width;
    const away = points(plot).map((point) => Math.abs(left(point) - share));
    if (away.length) read(plot, away.indexOf(Math.min(...away)));
  });
  document.addEventListener("pointerout", (event) => {
    const plot = plotOf(event.target);
    if (plot && !plot.contains(event.relatedTarget) && plot !== document.activeElement) leave(plot);
  });
  document.addEventListener("focusout", (event) => {
    const plot = plotOf(event.target);
    if (plot) leave(plot);
  });
  document.addEventListener("keydown", (event) => {
    const plot = plotOf(event.target);
    if (!plot || event.altKey || event.ctrlKey || event.metaKey) return;
    const last = points(plot).length - 1;
    const present = Number(plot.dataset.point ?? last + 1);
    const next = {
      ArrowLeft: Math.max(0, present - 1),
      ArrowRight: Math.min(last, present + 1),
      Home: 0,
      End: last,
    }[event.key];
    if (event.key === "Escape") leave(plot);
    if (next === undefined) return;
    event.preventDefault();
    read(plot, next);
  });

  // Without this script there is nothing to do at a plot, so only it makes them stops of the Tab key.
  const prepare = () => {
    for (const plot of document.querySelectorAll("[data-chart] [data-plot]")) {
      plot.tabIndex = 0;
      plot.setAttribute("role", "group");
      plot.setAttribute("aria-label", "Values of the chart: use the arrow keys");
    }
  };
  prepare();

  // A refresh keeps what was unfolded, and the point that is read by keys.
  let unfolded = [];
  document.body.addEventListener("htmx:beforeSwap", () => {
    unfolded = [...document.querySelectorAll("figure details[open]")].map((each) => each.id);
  });
  document.body.addEventListener("htmx:afterSettle", () => {
    for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
    prepare();
  });
})();
