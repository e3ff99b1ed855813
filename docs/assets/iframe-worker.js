// Browsers start no worker from a file. Where these pages are read from the disk, the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      this.inside.importScripts = (...urls) => Promise.all(urls.map((one) => this.load(one)));
      this.load(url).then(() => {
        for (const data of this.waiting.splice(0)) this.tell(data);
        this.waiting = null;
      });
    }

    load(url) {
      return new Promise((done) => {
        const script = this.inside.document.createElement("script");
        script.src = url;
        script.onload = script.onerror = done;
        this.inside.document.body.append(script);
      });
    }

    tell(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.tell(data);
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
