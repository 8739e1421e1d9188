// Lets search work in pages opened from a disk: browsers refuse workers there, so the script runs in a hidden frame.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inner = frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = (...urls) =>
        urls.reduce((before, each) => before.then(() => load(inner.document, each)), Promise.resolve());
      this.inner = inner;
      this.ready = load(inner.document, url);
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
  window.Worker = window.IFrameWorker;

  function load(target, src) {
    return new Promise((resolve) => {
      const script = target.createElement("script");
      script.src = src;
      script.onload = resolve;
      target.body.appendChild(script);
    });
  }
}
