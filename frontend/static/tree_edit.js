// Editing the tree by keyboard: every key does what a link or a button of the page does.
//
// A step is a new page. Keys that come quicker than pages do are kept, and each is pressed on the page that it was
// meant for: hence this is run before the page is parsed, and what it does to the page once it is there.
(() => {
  const SCROLL = "treeline-edit-scroll";
  const TYPED = "treeline-edit-typed";
  const MOST_MS = 5000; // older keys are forgotten: nobody waits that long and still means them

  const called = (id) => document.getElementById(id);
  const at = (place) => document.querySelector(`.node[data-place="${place}"]`);
  const beside = (place, side) => (place.length > 1 && place.at(-1) !== side ? at(place.slice(0, -1) + side) : null);
  // What each key presses, or, of "a", goes to; the place is that of the chosen node.
  const MEANT = {
    ArrowUp: (place) => (place.length > 1 ? at(place.slice(0, -1)) : null),
    ArrowDown: (place) => at(`${place}0`),
    ArrowLeft: (place) => beside(place, "0") ?? at(`${place}0`),
    ArrowRight: (place) => beside(place, "1") ?? at(`${place}1`),
    Delete: () => called("act-remove"),
    a: () => called("add-with"),
    s: () => called("act-swap"),
    "ctrl z": () => called("undo"),
    "ctrl Z": () => called("redo"),
    "ctrl y": () => called("redo"),
  };

  let leaving = 0; // when the page was left for the next one
  let press = null; // does what a key does, once the page is there

  const named = ({ key, ctrlKey, metaKey, altKey, shiftKey }) => {
    if (altKey) return null;
    const plain = key.length === 1 ? key.toLowerCase() : key;
    const name = ctrlKey || metaKey ? `ctrl ${shiftKey ? plain.toUpperCase() : plain}` : plain;
    return Object.hasOwn(MEANT, name) ? name : null;
  };
  const typed = () => {
    const { when, keys } = JSON.parse(sessionStorage.getItem(TYPED) ?? '{"when": 0, "keys": []}');
    return Date.now() - when < MOST_MS ? keys : [];
  };
  const type = (keys) => {
    if (keys.length) sessionStorage.setItem(TYPED, JSON.stringify({ when: Date.now(), keys }));
    else sessionStorage.removeItem(TYPED);
  };
  const isLeaving = () => Date.now() - leaving < MOST_MS;
  // One after the other, until one leads to another page: there the rest goes on.
  const goOn = () => {
    let keys = typed();
    while (keys.length && !isLeaving()) {
      const [key] = keys;
      keys = keys.slice(1);
      if (key === "a") keys = []; // what was typed behind it was meant for the field that it goes to
      type(keys);
      press(key);
    }
  };

  document.addEventListener("keydown", (event) => {
    if (event.target.closest?.("input, select, textarea, dialog")) return;
    const key = named(event);
    if (!key) return;
    if (press && !isLeaving()) {
      if (press(key)) event.preventDefault();
      return;
    }
    event.preventDefault();
    type([...typed(), key]);
  });
  addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return;
    leaving = 0;
    type([]);
  });

  document.addEventListener("DOMContentLoaded", () => {
    const chosen = document.querySelector(".node[aria-current]");

    // A page begins where the last one was left.
    const kept = sessionStorage.getItem(SCROLL);
    if (kept === null) chosen?.scrollIntoView({ block: "nearest", inline: "center" });
    else {
      sessionStorage.removeItem(SCROLL);
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
      leaving = Date.now();
      sessionStorage.setItem(SCROLL, `${document.querySelector(".figure")?.scrollLeft ?? 0} ${window.scrollY}`);
    };
    document.addEventListener("submit", ({ target }) => {
      if (target.method === "get" && target.closest(".edits")) keep();
    });
    document.addEventListener("click", ({ target, ctrlKey, metaKey, shiftKey }) => {
      if (ctrlKey || metaKey || shiftKey) return; // into a tab or a window of its own
      if (target.closest(".node, #undo, #redo, #steps a, #wrong-nodes a")) keep();
    });

    if (!chosen) {
      press = () => false;
      type([]);
      return;
    }
    called("keys").hidden = false;
    press = (key) => {
      const element = MEANT[key](chosen.dataset.place);
      if (key === "a") element?.focus();
      else element?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, view: window }));
      return Boolean(element);
    };
    goOn();
  });
})();
