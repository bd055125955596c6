// Only the field that the chosen start needs is shown, and each text can be copied.
(() => {
  const begin = document.querySelector(".messages-form [name=begin]");
  const show = () => {
    for (const label of document.querySelectorAll("[data-begin]")) label.hidden = label.dataset.begin !== begin.value;
  };
  begin.addEventListener("change", show);
  show();
  addEventListener("pageshow", show);

  const offerCopies = (within) => {
    if (!navigator.clipboard) return;
    for (const text of within.querySelectorAll("pre")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet copy";
      button.textContent = "Copy";
      button.setAttribute("aria-label", `Copy: ${text.previousElementSibling.firstChild.textContent.trim()}`);
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 2000);
      });
      text.before(button);
    }
  };

  const list = document.getElementById("messages");
  if (!list) return;
  offerCopies(list);

  // New messages come on top; the oldest lines go, so that a page that is left open stays small.
  const MOST = 500;
  const follow = document.getElementById("follow");
  const status = document.getElementById("following");
  let source = null, count = 0, skipped = 0, skippedBefore = 0, opened = 0, restarted = "";
  const say = (text) => { if (status.textContent !== text) status.textContent = text; };
  const counted = () => {
    const all = skipped + skippedBefore;
    const said = `${count} new message${count === 1 ? "" : "s"}${all ? `, ${all} skipped` : ""}`;
    return restarted ? `${said}. ${restarted}` : said;
  };
  const stop = (text) => {
    source.close();
    source = null;
    follow.setAttribute("aria-pressed", "false");
    follow.textContent = "Follow new messages";
    say(text);
  };
  const start = () => {
    [count, skipped, skippedBefore, opened, restarted] = [0, 0, 0, 0, ""];
    source = new EventSource(follow.dataset.live);
    source.addEventListener("open", () => { opened += 1; [skippedBefore, skipped] = [skippedBefore + skipped, 0]; });
    source.addEventListener("messages", (event) => {
      const lines = document.createElement("template");
      lines.innerHTML = event.data;
      count += lines.content.querySelectorAll("details").length;
      offerCopies(lines.content);
      list.prepend(lines.content);
      while (list.children.length > MOST) list.lastElementChild.remove();
      document.getElementById("none")?.remove();
      say(counted());
    });
    source.addEventListener("restarted", (event) => { restarted = event.data; say(counted()); });
    source.addEventListener("skipped", (event) => { skipped = Number(event.data); say(counted()); });
    source.addEventListener("beat", () => say(count || opened > 1 ? counted() : "Waiting for new messages."));
    source.addEventListener("ended", (event) => stop(event.data));
    source.onerror = () => source.readyState === EventSource.CLOSED ? stop("The server refused to send new messages.") : say("Not connected, trying again.");
    follow.setAttribute("aria-pressed", "true");
    follow.textContent = "Stop following";
    say("Connecting…");
  };
  follow.hidden = false;
  follow.addEventListener("click", () => source ? stop(counted()) : start());
})();
