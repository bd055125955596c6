// The player of drills: plays by itself, follows keys and slider. Each step is a way of the page that htmx takes.
(() => {
  const EVERY_MS = 1400;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const player = () => document.getElementById("player");
  const way = (name) => document.querySelector(`#go-${name}[href]`);
  let playing = null; // the timer, while it plays

  const show = (calmly = calm.matches) => {
    const button = document.getElementById("play");
    button.hidden = false;
    button.textContent = playing ? "Pause" : "Play";
    player().querySelector(".slide button").hidden = true;
    const list = document.getElementById("story");
    const here = list.querySelector("[aria-current]");
    const top = here.offsetTop - (list.clientHeight - here.offsetHeight) / 2;
    list.scrollTo({ top, behavior: calmly ? "instant" : "smooth" });
  };

  const pause = () => {
    clearTimeout(playing);
    playing = null;
    show();
  };

  const goOn = () => {
    if (!way("next")) return pause();
    playing = setTimeout(() => way("next")?.click(), EVERY_MS);
    show();
  };

  const play = () => {
    if (playing) return pause();
    const first = way("next") ?? way("first");
    if (!first) return;
    playing = -1; // goes on when that step has come
    first.click();
  };

  const go = (name) => {
    pause();
    way(name)?.click();
  };

  document.addEventListener("click", (event) => {
    if (event.target.closest("#play")) play();
    else if (event.isTrusted && playing && event.target.closest("#player a")) pause();
  });

  let slid = 0;
  document.addEventListener("input", (event) => {
    if (event.target.id !== "step") return;
    if (playing) pause();
    clearTimeout(slid);
    slid = setTimeout(() => event.target.form.requestSubmit(), 60);
  });

  const KEYS = { ArrowLeft: "previous", ArrowRight: "next", Home: "first", End: "last" };
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const at = event.target;
    // These have a use of their own for keys; so has a region that scrolls.
    if (at.matches("input, select, textarea, pre")) return;
    if (event.key === " " && !at.matches("button")) play();
    else if (event.key in KEYS) go(KEYS[event.key]);
    else return;
    event.preventDefault();
  });

  document.body.addEventListener("htmx:afterSettle", () => (playing ? goOn() : show()));
  for (const failed of ["htmx:responseError", "htmx:sendError"]) document.body.addEventListener(failed, pause);

  document.getElementById("keys").hidden = false;
  show(true);
})();
