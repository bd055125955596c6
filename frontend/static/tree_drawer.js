// The Tree page: opens the drawer in place, keeps it in the address, and keeps the place when a subtree is collapsed.
(() => {
  const page = document.querySelector(".tree-page");
  const place = document.getElementById("drawer-place");
  const KEPT = "tree-place";
  const TOGGLES = "a.inner, .folded, .tools a, a.level, #distributors a";

  const opened = () => new URLSearchParams(location.search).get("open") ?? "";

  // --- what is open is marked in the drawing

  const mark = () => {
    const key = document.getElementById("drawer")?.dataset.open;
    for (const each of document.querySelectorAll("#tree-svg .opened")) each.classList.remove("opened");
    if (!key) return;
    const name = CSS.escape(key);
    document
      .querySelector(`#tree-svg :is([data-distributor="${name}"], [data-cluster="${name}"])`)
      ?.classList.add("opened");
  };

  let asking = null;
  let opener = {}; // the link that opened the drawer, and what it opened

  const show = async (address) => {
    asking?.abort();
    asking = new AbortController();
    const { search } = new URL(address, location.href);
    try {
      const answer = await fetch(`/tree/-drawer${search}`, { signal: asking.signal });
      if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
      place.innerHTML = await answer.text(); // rendered from the same template as the page
    } catch (error) {
      if (error.name === "AbortError") return false; // something else was opened meanwhile, or it was closed
      location.assign(address); // the page says what is wrong
      return false;
    }
    window.htmx?.process(place);
    mark();
    return true;
  };

  const isSeen = (element) => element?.isConnected && element.checkVisibility();

  const close = () => {
    asking?.abort();
    const key = document.getElementById("drawer")?.dataset.open ?? "";
    place.replaceChildren();
    mark();
    const name = CSS.escape(key);
    const drawn = document.querySelector(`#tree-svg :is([data-distributor="${name}"], [data-cluster="${name}"])`);
    const row = document.getElementById(`row-of-${key.split(":")[0]}`);
    // On a telephone the drawing is not shown, but the list, which has clusters only.
    [opener.key === key && opener.link, drawn, row].find(isSeen)?.focus();
  };

  page.addEventListener("click", async (event) => {
    const link = event.target.closest("a[href]");
    if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const address = new URL(link.getAttribute("href"), location.href);
    if (address.pathname !== "/tree") return;
    if (link.id === "drawer-close") {
      event.preventDefault();
      history.pushState({}, "", address);
      close();
    } else if (address.searchParams.has("open") && !link.closest(TOGGLES)) {
      event.preventDefault();
      if (!place.contains(link)) opener = { key: address.searchParams.get("open"), link };
      if (!(await show(address.href))) return;
      if (location.href !== address.href) history.pushState({}, "", address);
      document.getElementById("drawer-title").focus();
    }
  });
  addEventListener("keydown", (event) => {
    // Not the Escape that closes a menu, suggestions or a window, or empties a field.
    if (event.key !== "Escape" || event.defaultPrevented || event.target.matches?.("input, select, textarea")) return;
    if (!document.getElementById("drawer") || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    document.getElementById("drawer-close").click();
  });
  addEventListener("popstate", () => {
    if (opened()) show(location.href);
    else close();
  });
  page.addEventListener("htmx:sseMessage", mark);
  mark();

  // --- other links and the table's form keep what the drawer shows now, which may have come after them

  page.addEventListener(
    "click",
    (event) => {
      const link = event.target.closest(TOGGLES);
      const address = link && new URL(link.getAttribute("href"), location.href);
      if (address?.pathname !== "/tree") return;
      if (opened()) address.searchParams.set("open", opened());
      else address.searchParams.delete("open");
      link.setAttribute("href", address.pathname + address.search);
    },
    true,
  );
  page.addEventListener("submit", ({ target }) => {
    if (!target.matches("[data-table-bar]")) return;
    for (const each of target.querySelectorAll('input[name="open"]')) each.remove();
    if (!opened()) return;
    const kept = Object.assign(document.createElement("input"), { type: "hidden", name: "open", value: opened() });
    target.append(kept);
  });

  // --- a subtree that is collapsed or expanded, and another order of the table, are another page at the same place

  const keep = (id) => sessionStorage.setItem(KEPT, JSON.stringify({ top: scrollY, id }));
  page.addEventListener("click", (event) => {
    const toggle = event.target.closest(TOGGLES);
    const link = event.target.closest("a[href]");
    const path = link && new URL(link.getAttribute("href"), location.href).pathname;
    if (toggle && path === "/tree") keep(toggle.id);
  });
  page.addEventListener("submit", ({ target }) => {
    if (target.matches("[data-table-bar]")) keep(document.activeElement?.id ?? "");
  });
  const before = sessionStorage.getItem(KEPT);
  sessionStorage.removeItem(KEPT);
  if (before) {
    const { top, id } = JSON.parse(before);
    document.getElementById(id)?.focus({ preventScroll: true });
    scrollTo(0, top);
  }
})();
