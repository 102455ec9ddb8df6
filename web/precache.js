// `wgpu-engine bundle` writes the files of a bundle here. Where none is listed the page is not one, but served by
// `wgpu-engine serve`: service-worker.js then clears away what an earlier bundle left in the browser.
self.PRECACHE = { version: null, files: [] };
