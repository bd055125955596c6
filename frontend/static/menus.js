// Menus below the buttons of the bar close on Escape, on a click outside, and when another one opens.
(() => {
  const menus = [...document.querySelectorAll("details.menu")];
  addEventListener("keydown", (event) => {
    const open = menus.find((menu) => menu.open);
    if (event.key === "Escape" && open) {
      open.open = false;
      open.querySelector("summary").focus();
    }
  });
  addEventListener("click", (event) => {
    for (const menu of menus) if (menu.open && !menu.contains(event.target)) menu.open = false;
  });
})();
