// The slider to a page as of an earlier position of the event log: shows the event there, then opens the page.
(() => {
  const WAIT_MS = 80;
  const travel = document.getElementById("travel");
  const form = travel.querySelector("form");
  const number = document.getElementById("travel-at");
  const slider = document.getElementById("travel-slider");
  const moment = document.getElementById("travel-moment");
  let waiting = 0;
  let asking = null;

  const ask = async (position) => {
    asking?.abort();
    asking = new AbortController();
    try {
      const answer = await fetch(`/timeline/-moment?position=${encodeURIComponent(position)}`, { signal: asking.signal });
      if (!answer.ok) throw new Error(String(answer.status));
      const found = await answer.json();
      slider.max = found.newest;
      slider.hidden = false;
      if (position === "") slider.value = found.newest;
      moment.textContent = found.said;
    } catch (error) {
      if (error.name !== "AbortError") moment.textContent = "The control plane does not respond; you can still type a position.";
    }
  };

  const soon = (position) => {
    clearTimeout(waiting);
    waiting = setTimeout(ask, WAIT_MS, position);
  };

  travel.addEventListener("toggle", async () => {
    if (!travel.open) return;
    await ask(number.value);
    if (number.value) slider.value = number.value;
    (slider.hidden ? number : slider).focus();
  });
  slider.addEventListener("input", () => {
    number.value = slider.value;
    soon(slider.value);
  });
  number.addEventListener("input", () => {
    slider.value = number.value;
    soon(number.value);
  });
  slider.addEventListener("keydown", (event) => {
    if (event.key === "Enter") form.requestSubmit();
  });
  slider.addEventListener("pointerup", () => form.requestSubmit()); // releasing the slider opens the page
})();
