// Fields that were filled in before htmx listened, on a slow network, are checked as if they were typed now.
(() => {
  const changed = (field) => {
    if (field.type === "hidden") return false;
    if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
    if (field.type !== "select-one") return "defaultValue" in field && field.value !== field.defaultValue;
    const usual = [...field.options].findIndex((option) => option.defaultSelected);
    return field.selectedIndex !== Math.max(0, usual);
  };
  addEventListener("pageshow", () => {
    const form = document.getElementById("form");
    if ([...form.elements].some(changed)) form.dispatchEvent(new Event("input"));
  });
})();
