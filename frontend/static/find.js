// The search window that Ctrl-K opens on any page: finds everything that has a name, while the user types.
(() => {
  const WAIT_MS = 120;
  const button = document.getElementById("find");
  const finder = document.getElementById("finder");
  if (!button || !finder) return;
  const text = document.getElementById("finder-text");
  const hits = document.getElementById("finder-hits");
  let waiting = 0;
  let asking = null;

  const links = () => [...hits.querySelectorAll("a")];
  const chosen = () => links().findIndex((link) => link.classList.contains("chosen"));

  const said = document.getElementById("finder-said");

  const headingOf = (link) => link.closest("ul").previousElementSibling.textContent;

  const choose = (number) => {
    const all = links();
    all.forEach((link, index) => link.classList.toggle("chosen", index === number));
    const link = all[number];
    link?.scrollIntoView({ block: "nearest" });
    // For screen readers: the result that Enter opens.
    said.textContent = link ? `${all.length} found; ${number + 1}: ${headingOf(link)}, ${link.innerText}` : "";
  };

  const ask = async () => {
    asking?.abort();
    asking = new AbortController();
    try {
      const answer = await fetch(`/find/-hits?q=${encodeURIComponent(text.value)}`, { signal: asking.signal });
      if (answer.redirected || answer.status === 401) hits.textContent = "Log in again.";
      else if (!answer.ok) hits.textContent = "The control plane does not respond; try again.";
      else {
        hits.innerHTML = await answer.text(); // rendered from the same template as the page
        choose(0);
      }
    } catch (error) {
      if (error.name !== "AbortError") hits.textContent = "The control plane does not respond; try again.";
    }
  };

  const open = () => {
    if (finder.open) return;
    finder.showModal();
    text.select();
    ask();
  };

  addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      open();
    }
  });
  button.addEventListener("click", (event) => {
    event.preventDefault();
    open();
  });
  finder.addEventListener("click", (event) => {
    if (event.target === finder) finder.close(); // a click beside the window
  });
  text.addEventListener("input", () => {
    choose(-1); // the results are for another text: Enter opens the search page for this one
    clearTimeout(waiting);
    waiting = setTimeout(ask, WAIT_MS);
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault(); // otherwise the first one only empties the field
      finder.close();
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const count = links().length;
    if (step && count) {
      event.preventDefault();
      choose((chosen() + step + count) % count);
    }
  });
  finder.querySelector("form").addEventListener("submit", (event) => {
    const link = links()[chosen()];
    if (link) {
      event.preventDefault();
      location.assign(link.href);
    }
  });
})();
