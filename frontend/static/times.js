// Times: how long ago within a day, else the viewer's own date and time; or always those, or UTC, as chosen.
// The server writes UTC, which stays without this script. The exact time is the title, and is read aloud.
(() => {
  const MODES = ["relative", "local", "UTC"];
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const DAY = 86400000;
  const REFRESH_MS = 30000;

  const stored = () => {
    try {
      return localStorage.getItem("times");
    } catch {
      return null; // storage is disabled: the choice lasts as long as the page
    }
  };
  let mode = MODES.includes(stored()) ? stored() : MODES[0];

  const two = (number) => String(number).padStart(2, "0");
  // A date with the parts of its local time, or of UTC.
  const parts = (date, utc) =>
    utc
      ? [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
      : [date.getFullYear(), date.getMonth(), date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds()];
  const dayOf = ([year, month, day]) => `${day} ${MONTHS[month]} ${year}`;
  const clockOf = ([, , , hour, minute, second]) => `${two(hour)}:${two(minute)}:${two(second)}`;
  const whole = (found) => `${dayOf(found)}, ${clockOf(found)}`;

  const zoneName = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" });
  const zone = (date) => zoneName.formatToParts(date).find(({ type }) => type === "timeZoneName").value;
  const exact = (date) => {
    const utc = `${whole(parts(date, true))} UTC`;
    return date.getTimezoneOffset() === 0 ? utc : `${whole(parts(date, false))} ${zone(date)} (${utc})`;
  };
  const known = new WeakMap(); // element -> its instant, and that in words: names of zones take long to find
  const exactOf = (time, iso, date) => {
    const found = known.get(time);
    if (found?.iso === iso) return found.text;
    const text = exact(date);
    known.set(time, { iso, text });
    return text;
  };

  const ago = (ms) => {
    const seconds = Math.round(Math.abs(ms) / 1000);
    if (seconds < 10) return "now";
    const [count, unit] = seconds < 60 ? [seconds, "s"] : seconds < 3600 ? [Math.floor(seconds / 60), "min"] : [Math.floor(seconds / 3600), "h"];
    return ms > 0 ? `${count} ${unit} ago` : `in ${count} ${unit}`;
  };

  const local = (date, form) => {
    const here = parts(date, false);
    if (form === "day") return dayOf(here);
    if (form === "ms") return `${whole(here)}.${String(date.getMilliseconds()).padStart(3, "0")}`;
    if (form !== "clock") return whole(here);
    // Below a heading with the day in UTC: the day is named where the viewer has another one.
    const isSame = here[2] === date.getUTCDate();
    return isSame ? clockOf(here) : `${here[2]} ${MONTHS[here[1]]}, ${clockOf(here)}`;
  };

  // What the element is to show, and what is read aloud in addition.
  const shown = (time, date, words) => {
    const since = Date.now() - date.getTime();
    const isNear = Math.abs(since) < DAY && !("exact" in time.dataset);
    if (mode === "relative" && isNear) return [ago(since), `, ${words}`];
    return [local(date, time.dataset.time), ""];
  };

  const render = (time) => {
    const iso = time.getAttribute("datetime");
    const date = new Date(iso);
    if (Number.isNaN(date.getTime())) return;
    const words = exactOf(time, iso, date);
    // A refresh has written the server's text again, or the page has just come: that is the text in UTC.
    const before = time.dataset.shown;
    if (before === undefined || time.textContent !== before) time.dataset.timeUtc = time.textContent;
    const [text, aloud] = mode === "UTC" ? [time.dataset.timeUtc, ""] : shown(time, date, words);
    if (time.textContent !== text + aloud) {
      time.textContent = text;
      if (aloud) {
        const more = document.createElement("span");
        more.className = "unseen";
        more.textContent = aloud;
        time.append(more);
      }
    }
    time.dataset.shown = text + aloud;
    if (time.title !== words) time.title = words;
  };

  const renderAll = (within) => {
    for (const time of within.querySelectorAll("time[data-time]")) render(time);
    // "(UTC)" of headings, and "UTC" of days whose times are shown in another zone.
    for (const each of within.querySelectorAll("[data-time-utc]:not(time)")) each.hidden = mode !== "UTC";
    // Fields of forms are in UTC: what that is now.
    const now = `; now it is ${clockOf(parts(new Date(), true)).slice(0, 5)}`;
    for (const each of within.querySelectorAll("[data-time-now]")) if (each.textContent !== now) each.textContent = now;
    const isElsewhere = mode !== "UTC" && new Date().getTimezoneOffset() !== 0;
    for (const each of within.querySelectorAll("[data-time-zone]")) each.hidden = !isElsewhere;
  };

  // Refreshed parts of a page come with the server's text. This runs before they are painted.
  const OBSERVED = { childList: true, characterData: true, subtree: true, attributes: true, attributeFilter: ["datetime", "title", "hidden"] };
  const observer = new MutationObserver(() => update());
  const update = () => {
    renderAll(document);
    observer.takeRecords(); // its own changes
  };

  update();
  observer.observe(document.body, OBSERVED);
  setInterval(update, REFRESH_MS);

  const group = document.getElementById("times");
  if (!group) return;
  const buttons = [...group.querySelectorAll("button")];
  const mark = () => buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.value === mode)));
  mark();
  group.hidden = false;
  group.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    mode = button.value;
    mark();
    try {
      localStorage.setItem("times", mode);
    } catch {
      // see `stored`
    }
    update();
  });
})();
