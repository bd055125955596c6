// Pages of switches: show whether the page is live, and that a slow form was submitted.
(() => {
  for (const form of document.querySelectorAll("form[data-busy]")) {
    const button = form.querySelector("button[type=submit]");
    const label = button.textContent;
    form.addEventListener("submit", () => {
      button.disabled = true;
      button.textContent = form.dataset.busy;
    });
    // The user went back to a page in the browser cache.
    addEventListener("pageshow", () => {
      button.disabled = false;
      button.textContent = label;
    });
  }

  const live = document.getElementById("live");
  if (!live) return;
  const watched = () => document.querySelector("#cockpit, [data-silent-seconds]");
  // Most pages poll more than once a second.
  const SILENT_SECONDS = Number(watched().dataset.silentSeconds ?? 5);
  let heard = Date.now();

  const say = (state, text) => {
    live.hidden = false;
    if (live.lastElementChild.textContent === text) return;
    live.dataset.live = state;
    live.lastElementChild.textContent = text;
  };
  const since = () => `not live since ${new Date(heard).toISOString().slice(11, 19)} UTC`;
  const isOver = () => !watched()?.hasAttribute("hx-get");

  document.body.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (isOver()) {
      live.hidden = true; // the last answer may arrive after the watch has ended
    } else if (detail.elt.id !== watched().id) {
      return; // another block of the page: it does not say whether this one is live
    } else if (detail.successful) {
      heard = Date.now();
      say("on", "live");
    } else {
      const refused = detail.xhr.status === 401 || detail.xhr.status === 403;
      say("lost", refused ? `${since()}: log in again` : `${since()}, trying again`);
    }
  });
  const watch = setInterval(() => {
    if (isOver()) {
      clearInterval(watch);
      live.hidden = true;
    } else if (Date.now() - heard > SILENT_SECONDS * 1000) {
      say("lost", `${since()}, trying again`);
    }
  }, 500);
})();
