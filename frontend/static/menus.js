// Menus below the buttons of the bar close on Escape, on a click outside, and when another one opens.
(() => {
  addEventListener("keydown", (event) => {
    const open = document.querySelector("details.menu[open]"); // some menus come after the page
    if (event.key === "Escape" && open && !event.defaultPrevented) {
      event.preventDefault(); // one Escape closes one thing
      open.open = false;
      open.querySelector("summary").focus();
    }
  });
  addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
})();
