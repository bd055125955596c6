// Editing the tree by keyboard: every key does what a link or a button of the page does.
(() => {
  const nodes = [...document.querySelectorAll(".node")];
  const chosen = document.querySelector(".node[aria-current]");
  const KEPT = "treeline-edit-scroll";

  // A step is a new page: it begins where the last one was left.
  const kept = sessionStorage.getItem(KEPT);
  if (kept === null) chosen?.scrollIntoView({ block: "nearest", inline: "center" });
  else {
    sessionStorage.removeItem(KEPT);
    const [left, top] = kept.split(" ").map(Number);
    const figure = document.querySelector(".figure");
    if (figure) figure.scrollLeft = left;
    // Later than the browser goes to the address's fragment, which takes the focus away.
    const go = () => {
      if (![document.body, chosen].includes(document.activeElement)) return; // somebody was quicker
      window.scrollTo(0, top);
      chosen?.focus({ preventScroll: true });
    };
    go();
    window.addEventListener("load", () => requestAnimationFrame(go));
  }
  const keep = () => {
    sessionStorage.setItem(KEPT, `${document.querySelector(".figure")?.scrollLeft ?? 0} ${window.scrollY}`);
  };
  document.addEventListener("submit", ({ target }) => {
    if (target.method === "get" && target.closest(".edits")) keep();
  });
  document.addEventListener("click", ({ target }) => {
    if (target.closest(".node, #undo, #redo, #steps a, #wrong-nodes a")) keep();
  });

  if (!chosen) return;
  document.getElementById("keys").hidden = false;

  const at = (place) => nodes.find(({ dataset }) => dataset.place === place);
  const press = (element) => {
    if (!element) return false;
    keep();
    element.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, view: window }));
    return true;
  };
  const beside = (place, side) => {
    const last = place.at(-1);
    if (place.length > 1 && last !== side) return at(place.slice(0, -1) + side);
    return null;
  };

  document.addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, altKey, shiftKey, target } = event;
    if (target.closest("input, select, textarea, dialog") || altKey) return;
    const place = chosen.dataset.place;
    let done = false;
    if (ctrlKey || metaKey) {
      if (key.toLowerCase() === "z") done = press(document.getElementById(shiftKey ? "redo" : "undo"));
      if (key.toLowerCase() === "y") done = press(document.getElementById("redo"));
    } else if (key === "ArrowUp") done = press(place.length > 1 ? at(place.slice(0, -1)) : null);
    else if (key === "ArrowDown") done = press(at(`${place}0`));
    else if (key === "ArrowLeft") done = press(beside(place, "0") ?? at(`${place}0`));
    else if (key === "ArrowRight") done = press(beside(place, "1") ?? at(`${place}1`));
    else if (key === "Delete") done = press(document.getElementById("act-remove"));
    else if (key.toLowerCase() === "s") done = press(document.getElementById("act-swap"));
    else if (key.toLowerCase() === "a") {
      document.getElementById("add-with")?.focus();
      done = true;
    }
    if (done) event.preventDefault();
  });
})();
