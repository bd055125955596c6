// Suggestions below fields that take the name of a resource: the ARIA pattern of a combobox with a list.
// `data-names` is the kind of the names, `data-names-of` the name of the field that has
// the metric whose series are named.
(() => {
  const WAIT_MS = 120;
  const content = document.querySelector("main");
  const said = document.createElement("p");
  said.className = "unseen";
  said.setAttribute("aria-live", "polite");

  const combobox = (field, number) => {
    const list = document.createElement("ul");
    list.id = `names-${number}`;
    list.className = "names-list";
    list.hidden = true;
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", "Suggestions");
    content.append(list);
    for (const [name, value] of Object.entries({ "role": "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id })) field.setAttribute(name, value);
    let waiting = 0;
    let asking = null;
    let chosen = -1;

    const options = () => [...list.children];

    const choose = (index) => {
      chosen = index;
      options().forEach((option, each) => option.setAttribute("aria-selected", String(each === index)));
      const option = options()[index];
      if (option) field.setAttribute("aria-activedescendant", option.id);
      else field.removeAttribute("aria-activedescendant");
      option?.scrollIntoView({ block: "nearest" });
    };

    const close = () => {
      clearTimeout(waiting);
      asking?.abort();
      list.hidden = true;
      field.setAttribute("aria-expanded", "false");
      choose(-1);
    };

    const take = (option) => {
      field.value = option.dataset.name;
      close();
      said.textContent = "";
      field.dispatchEvent(new CustomEvent("input", { bubbles: true, detail: "taken" })); // forms that check what is typed
      field.dispatchEvent(new Event("change", { bubbles: true }));
    };

    const show = (names) => {
      list.replaceChildren(...names.map(({ name, detail }, index) => {
        const option = document.createElement("li");
        option.id = `${list.id}-${index}`;
        option.dataset.name = name;
        option.setAttribute("role", "option");
        option.append(Object.assign(document.createElement("span"), { textContent: name }));
        if (detail) option.append(Object.assign(document.createElement("span"), { className: "soft", textContent: detail }));
        return option;
      }));
      const isWhole = names.length === 1 && names[0].name === field.value;
      if (!names.length || isWhole || document.activeElement !== field) return close();
      const place = field.getBoundingClientRect();
      list.style.left = `${place.left + scrollX}px`;
      list.style.top = `${place.bottom + scrollY + 4}px`;
      list.style.minWidth = `${place.width}px`;
      list.style.maxWidth = `${document.documentElement.clientWidth - place.left - 12}px`;
      list.hidden = false;
      field.setAttribute("aria-expanded", "true");
      choose(-1);
      said.textContent = `${names.length} suggestion${names.length === 1 ? "" : "s"}`;
    };

    const ask = async () => {
      asking?.abort();
      asking = new AbortController();
      const of = field.form?.elements[field.dataset.namesOf]?.value ?? "";
      const query = new URLSearchParams({ kind: field.dataset.names, q: field.value, of });
      try {
        const answer = await fetch(`/find/-names?${query}`, { signal: asking.signal });
        if (answer.ok && !answer.redirected) show(await answer.json());
        else close();
      } catch (error) {
        if (error.name !== "AbortError") close(); // the field works without suggestions
      }
    };

    field.addEventListener("input", (event) => {
      if (event.detail === "taken") return;
      clearTimeout(waiting);
      choose(-1);
      waiting = setTimeout(ask, WAIT_MS);
    });
    field.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && list.hidden) {
        event.preventDefault();
        ask();
      } else if (step) {
        event.preventDefault();
        const count = options().length;
        choose(chosen < 0 && step < 0 ? count - 1 : (chosen + step + count) % count);
      } else if (event.key === "Enter" && chosen >= 0) {
        event.preventDefault();
        take(options()[chosen]);
      } else if (event.key === "Escape" && !list.hidden) {
        event.preventDefault();
        close();
      }
    });
    field.addEventListener("blur", close);
    list.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
    list.addEventListener("click", (event) => {
      const option = event.target.closest("li");
      if (option) take(option);
    });
  };

  const fields = document.querySelectorAll("input[data-names]");
  if (fields.length) content.append(said);
  fields.forEach(combobox);
})();
