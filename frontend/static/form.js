// Fields that count only for one choice of another field are shown with that choice.
// Fields that were filled in before htmx listened, on a slow network, are checked as if they were typed now.
(() => {
  const changed = (field) => {
    if (field.type === "hidden") return false;
    if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
    if (field.type !== "select-one") return "defaultValue" in field && field.value !== field.defaultValue;
    const usual = [...field.options].findIndex((option) => option.defaultSelected);
    return field.selectedIndex !== Math.max(0, usual);
  };
  const form = document.getElementById("form");
  // Without JavaScript all fields are shown; each says when it counts.
  const showDependent = () => {
    for (const part of document.querySelectorAll("[data-shown-if]")) {
      const [name, value] = part.dataset.shownIf.split("=");
      part.hidden = form.elements[name].value !== value;
    }
  };
  form.addEventListener("change", showDependent);
  addEventListener("pageshow", () => {
    showDependent();
    if ([...form.elements].some(changed)) form.dispatchEvent(new Event("input"));
  });
})();
