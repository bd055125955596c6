// Pages of a stream: say why figures did not come, instead of that they are being loaded.
(() => {
  const reason = (status) => {
    if (status === 401 || status === 403) return "you are logged out, or may no longer see this stream";
    return status ? `the control plane answered with status ${status}` : "the control plane does not respond";
  };
  const failed = ({ detail }) => {
    const panel = detail.elt.closest(".waiting");
    if (!panel) return; // figures that were loaded before stay, and the bar says that they are not live
    panel.querySelector("[data-loading]").hidden = true;
    panel.querySelector("[data-why]").textContent = reason(detail.xhr.status);
    panel.querySelector("[data-failed]").hidden = false;
  };
  document.body.addEventListener("htmx:responseError", failed);
  document.body.addEventListener("htmx:sendError", failed);
})();
