// Feeds a file of requests to Perfetto's trace processor, and writes its replies to another.
//
//   node trace_processor.js FOLDER REQUESTS REPLIES
//
// FOLDER has engine_bundle.js and trace_processor.wasm, as Perfetto's user interface ships them for a browser's worker. This
// script gives the bundle what it expects of a worker: a synchronous XMLHttpRequest for the module, and a message port.
"use strict";
const fs = require("fs");
const path = require("path");
const [folder, requests, replies] = process.argv.slice(2);

class FileRequest {
  open(_method, url) { this.file = path.join(folder, path.basename(url)); }
  send() {
    const bytes = fs.readFileSync(this.file);
    this.status = 200;
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  }
}

const worker = {location: {href: "https://localhost/engine_bundle.js"}};
const silent = {...console, log() {}, warn() {}, error() {}};
const names = ["self", "process", "XMLHttpRequest", "importScripts", "WorkerGlobalScope", "location", "require", "module", "exports", "console"];
const values = [worker, undefined, FileRequest, () => {}, function WorkerGlobalScope() {}, worker.location, undefined, undefined, undefined, silent];
new Function(...names, fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"))(...values);

const answered = [];
const port = {postMessage: (bytes) => answered.push(Buffer.from(bytes))};
worker.onmessage({data: port});
// The module is ready a turn of the event loop later.
setTimeout(() => {
  Promise.resolve(port.onmessage({data: new Uint8Array(fs.readFileSync(requests))})).then(
    () => fs.writeFileSync(replies, Buffer.concat(answered)));
}, 1000);
