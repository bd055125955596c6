// The Tree page: lights the path of what is pointed at or focused, and says whether the page is live.
(() => {
  const page = document.querySelector(".tree-page");

  // --- paths

  let pointed = null; // "arrow cluster-1:3" or "leaf cluster-1"

  const subject = (element) => {
    const found = element?.closest?.("[data-distributor], [data-row], [data-cluster]");
    if (!found) return null;
    if (found.dataset.cluster) return `leaf ${found.dataset.cluster}`;
    return `arrow ${found.dataset.distributor ?? found.dataset.row}`;
  };

  // A key begins with the source, unless a single distributor starts in a collapsed subtree.
  const sourceOf = ({ dataset }) => dataset.source ?? dataset.distributor.split(":")[0];

  // Where two places, such as r001 and r01, meet: r0.
  const meeting = (one, other) => {
    let length = 0;
    while (length < one.length && one[length] === other[length]) length += 1;
    return one.slice(0, length);
  };

  const light = () => {
    const svg = document.getElementById("tree-svg");
    for (const element of page.querySelectorAll(".lit")) element.classList.remove("lit");
    svg?.classList.toggle("dimmed", pointed !== null);
    if (!svg || pointed === null) return;
    const [kind, key] = pointed.split(" ");
    const arrows = [...svg.querySelectorAll("[data-distributor]")].filter((arrow) =>
      kind === "arrow" ? arrow.dataset.distributor === key : sourceOf(arrow) === key || arrow.dataset.target === key,
    );
    if (kind === "leaf") svg.querySelector(`[data-cluster="${CSS.escape(key)}"]`)?.classList.add("lit");
    for (const arrow of arrows) {
      const { target, distributor } = arrow.dataset;
      arrow.classList.add("lit");
      document.querySelector(`[data-row="${CSS.escape(distributor)}"]`)?.classList.add("lit");
      const ends = [sourceOf(arrow), target].map((key) => svg.querySelector(`[data-cluster="${CSS.escape(key)}"]`));
      for (const end of ends) end?.classList.add("lit");
      if (!ends.every(Boolean)) continue;
      const places = ends.map(({ dataset }) => dataset.place);
      const node = meeting(...places);
      svg.querySelector(`.inner[data-node="${node}"]`)?.classList.add("lit");
      for (const branch of svg.querySelectorAll(".branch")) {
        const { to } = branch.dataset;
        if (to.length > node.length && places.some((place) => place.startsWith(to))) branch.classList.add("lit");
      }
    }
  };

  const point = (element) => {
    const next = subject(element);
    if (next === pointed) return;
    pointed = next;
    light();
  };

  page.addEventListener("pointerover", (event) => point(event.target));
  page.addEventListener("pointerleave", () => point(document.activeElement));
  page.addEventListener("focusin", (event) => point(event.target));
  page.addEventListener("focusout", (event) => point(event.relatedTarget));
  page.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented) document.activeElement.blur();
  });
  // New blocks come without the classes that were set here.
  page.addEventListener("htmx:sseMessage", () => light());

  // --- news

  const live = document.getElementById("live");
  if (!live) return;
  const SILENT_SECONDS = 10; // the server says something every second

  const list = document.getElementById("timeline");
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) {
      for (const node of addedNodes) {
        if (node.nodeType === Node.ELEMENT_NODE && node.matches(".event")) node.classList.add("fresh");
      }
    }
  }).observe(list, { childList: true, subtree: true });

  let heard = Date.now();

  const say = (state, text) => {
    if (live.dataset.live === state) return;
    live.dataset.live = state;
    live.lastElementChild.textContent = text;
  };

  const hear = () => {
    heard = Date.now();
    say("on", "live");
  };

  const since = () => new Date(heard).toISOString().slice(11, 19);

  live.hidden = false;
  page.addEventListener("htmx:sseOpen", ({ detail }) => {
    hear();
    detail.source.addEventListener("beat", hear);
  });
  page.addEventListener("htmx:sseMessage", hear);
  page.addEventListener("htmx:sseError", () => say("lost", `not live since ${since()} UTC, trying again`));
  setInterval(() => {
    if (Date.now() - heard > SILENT_SECONDS * 1000) say("lost", `not live since ${since()} UTC`);
  }, 1000);
})();
