// A form that changes something is sent once: a second click would show the page of the second answer, and a secret
// that the first one shows only once, such as a new token, would never be seen.
(() => {
  addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post") return;
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
    // Going back from the next page leads to the form, not to its preview, which is an answer that no browser stores.
    if (event.submitter?.name === "step" && event.submitter.value === "confirm") history.replaceState(null, "", location.href);
    setTimeout(() => delete form.dataset.sent, 10000); // if no answer came
  });
  // A page that is shown again by "back" is in the state in which it was left.
  addEventListener("pageshow", () => {
    for (const form of document.forms) delete form.dataset.sent;
  });
})();
