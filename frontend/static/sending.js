// A form that changes something is sent once: what a second click would get is the page of the second answer, and
// what the first one shows only once, a new token, nobody would ever see.
(() => {
  addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post") return;
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
    // What comes behind is gone back from to the form, not to the answer of its preview, which is kept nowhere.
    if (event.submitter?.name === "step" && event.submitter.value === "confirm") history.replaceState(null, "", location.href);
    setTimeout(() => delete form.dataset.sent, 10000); // where no answer came
  });
  // A page that is shown again by "back" is as it was left.
  addEventListener("pageshow", () => {
    for (const form of document.forms) delete form.dataset.sent;
  });
})();
