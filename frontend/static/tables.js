// Tables: what is typed or unfolded survives refreshes, and addresses hold no more than they need.
(() => {
  const inUse = (bar) => bar.contains(document.activeElement) || bar.querySelector("details[open]");

  // A refresh of the page leaves the filter alone while its user types, and the menu of columns while it is open.
  const { callbacks } = Idiomorph.defaults;
  const before = callbacks.beforeNodeMorphed;
  callbacks.beforeNodeMorphed = (old, next) => {
    if (old instanceof Element && old.matches("[data-table-bar]") && inUse(old)) return false;
    return before(old, next);
  };

  // The address gets neither an empty filter nor the usual columns, as links have it.
  const tidy = (bar, form) => {
    for (const [name, value] of [...form.entries()]) if (!value) form.delete(name);
    const menu = bar.querySelector("fieldset[data-usual]");
    if (!menu) return;
    const name = menu.querySelector("input").name;
    const chosen = form.getAll(name).join(",");
    form.delete(name);
    if (chosen !== menu.dataset.usual) form.set(name, chosen);
  };
  document.body.addEventListener("htmx:configRequest", ({ detail }) => {
    if (detail.elt.matches("form[data-table-bar]")) tidy(detail.elt, detail.formData);
  });
  // The browser sends a form of a table that is not replaced in place.
  document.body.addEventListener("formdata", ({ target, formData }) => {
    if (target.matches("[data-table-bar]:not([hx-get])")) tidy(target, formData);
  });
  document.body.addEventListener("htmx:beforeHistoryUpdate", ({ detail }) => {
    detail.history.path = detail.history.path.replaceAll("%2C", ","); // as links have it
  });
  document.body.addEventListener("htmx:beforeRequest", ({ detail }) => {
    if (detail.elt.matches("form[data-table-bar]") && detail.requestConfig.triggeringEvent?.type === "submit") {
      detail.elt.querySelector("details[open]")?.removeAttribute("open");
      if (detail.elt.contains(document.activeElement) && document.activeElement.type === "submit") document.activeElement.blur();
    }
  });

  // Another page or order begins at the top of the table.
  document.body.addEventListener("htmx:afterSwap", ({ detail }) => {
    const place = detail.requestConfig?.elt?.closest("thead[hx-target], .table-pages[hx-target]");
    const table = place && document.querySelector(`${place.getAttribute("hx-target")} .scroll.long`);
    if (table) table.scrollTop = 0;
  });

  // A click that the server refuses, such as after the session has ended, leads to the page that says why.
  const openPage = ({ detail }) => {
    const place = detail.elt.closest("[data-table-bar], .sorts, .table-pages");
    if (place && !detail.elt.closest("form")) location.assign(detail.pathInfo.requestPath);
  };
  document.body.addEventListener("htmx:responseError", openPage);
  document.body.addEventListener("htmx:sendError", openPage);
})();
