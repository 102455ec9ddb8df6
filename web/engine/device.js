/**
 * The WebGPU half of `wgpu_engine/gpu/browser.py`: everything is registered once and named by a number, so that a step of
 * a model is one call from Python: its plan is replayed, submitted and the bytes that it leaves are asked for here.
 */

const UPLOAD_CHUNK = 16 << 20;
/** Staging buffers of up to this size are kept for the next read. */
const KEPT_BYTES = 1 << 20;
const LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupStorageSize",
];
const FEATURES = ["shader-f16", "subgroups", "timestamp-query"];

/** What WebGPU refuses; `name` says which of Python's exceptions it becomes. */
class DeviceFault extends Error {
  /**
   * @param {"DeviceError" | "DeviceLostError" | "OutOfMemoryError" | "NoAdapterError"} name
   * @param {string} message
   */
  constructor(name, message) {
    super(message);
    this.name = name;
  }
}

/** A device of `navigator.gpu`, with its buffers, kernels and plans by number. */
export class GPU {
  /**
   * Opens the adapter of the highest performance with all the limits that it has.
   * @param {{onLost?: (message: string) => void, onCompiled?: (done: number, total: number) => void}} hooks
   * @returns {Promise<GPU>}
   */
  static async open(hooks = {}) {
    if (!globalThis.isSecureContext) {
      throw new DeviceFault("NoAdapterError", "insecure: WebGPU needs a page over https, or on localhost");
    }
    if (!navigator.gpu) {
      throw new DeviceFault("NoAdapterError", "no_webgpu: this browser has no WebGPU, or it is switched off");
    }
    const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) {
      throw new DeviceFault("NoAdapterError", "no_adapter: the browser offers no WebGPU adapter on this machine");
    }
    const limits = Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]]));
    const device = await adapter.requestDevice({
      label: "wgpu_engine",
      requiredFeatures: FEATURES.filter((feature) => adapter.features.has(feature)),
      requiredLimits: limits,
    });
    return new GPU(adapter, device, limits, hooks);
  }

  constructor(adapter, device, limits, hooks) {
    const info = adapter.info;
    const software = info.isFallbackAdapter || adapter.isFallbackAdapter || info.architecture === "swiftshader";
    this.info = {
      name: info.description || [info.vendor, info.architecture, info.device].filter(Boolean).join(" ") || "WebGPU",
      kind: software ? "cpu" : "other",
      driver: [info.vendor, info.architecture, info.device, info.description].join("/"),
      library: navigator.userAgent,
      features: [...device.features],
      limits,
    };
    this._device = device;
    this._queue = device.queue;
    this._hooks = hooks;
    this._buffers = [];
    this._free = [];
    this._kernels = [];
    this._plans = [];
    this._tickets = new Map();
    this._nextTicket = 1;
    this._staging = new Map();
    this._staged = 0;
    this._fault = null;
    this._lost = null;
    this._compiling = { done: 0, total: 0 };
    this.buffers = 0;
    device.addEventListener("uncapturederror", (event) => {
      event.preventDefault();
      const { error } = event;
      const memory = error instanceof GPUOutOfMemoryError;
      this._fault ??= new DeviceFault(memory ? "OutOfMemoryError" : "DeviceError", error.message);
    });
    device.lost.then((lost) => {
      this._lost = lost.message || lost.reason || "unknown";
      if (!this._closed) this._hooks.onLost?.(this._lost);
    });
  }

  /** Throws what went wrong since the last look: WebGPU tells of most errors only some time after the call. */
  _check() {
    if (this._lost !== null) throw new DeviceFault("DeviceLostError", this._lost);
    if (this._fault) {
      const fault = this._fault;
      this._fault = null;
      throw fault;
    }
  }

  /** @returns {number} a zeroed storage buffer of `size` bytes, a multiple of 16 */
  buffer(size, label) {
    this._check();
    const kinds = GPUBufferUsage;
    const usage = kinds.STORAGE | kinds.UNIFORM | kinds.COPY_SRC | kinds.COPY_DST;
    const number = this._free.pop() ?? this._buffers.length;
    this._buffers[number] = this._device.createBuffer({ label, size, usage });
    this.buffers += 1;
    return number;
  }

  free(number) {
    this._buffers[number].destroy();
    this._buffers[number] = null;
    this._free.push(number);
    this.buffers -= 1;
  }

  /** @param {import("../pyodide/ffi").PyBuffer} data Python's bytes, a multiple of 4 */
  write(number, offset, data) {
    const view = data.getBuffer("u8");
    try {
      this._queue.writeBuffer(this._buffers[number], offset, view.data);
    } finally {
      view.release();
    }
  }

  /**
   * Streams bytes of a source into a buffer; they never become Python's.
   * @param {{read(offset: number, length: number): Promise<Uint8Array>}} source
   */
  async upload(number, offset, source, start, length) {
    for (let done = 0; done < length; done += UPLOAD_CHUNK) {
      const size = Math.min(UPLOAD_CHUNK, length - done);
      let data = await source.read(start + done, size);
      this._check();
      if (size % 4) {
        const padded = new Uint8Array(size + 4 - (size % 4));
        padded.set(data);
        data = padded;
      }
      this._queue.writeBuffer(this._buffers[number], offset + done, data);
      // staging memory lasts until a write is done
      this._staged += size;
      if (this._staged >= UPLOAD_CHUNK) await this.flush();
    }
  }

  async flush() {
    await this._queue.onSubmittedWorkDone();
    this._staged = 0;
    this._check();
  }

  /**
   * Begins to compile a kernel, beside others.
   * @param {string} types of its bindings, with spaces between
   * @returns {number}
   */
  kernel(label, code, types) {
    const device = this._device;
    const layout = device.createBindGroupLayout({
      label,
      entries: types.split(" ").map((type, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } })),
    });
    const module = device.createShaderModule({ label, code });
    const made = device.createComputePipelineAsync({
      label,
      layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module, entryPoint: "main" },
    });
    this._compiling.total += 1;
    const kernel = { label, layout, pipeline: null, ready: null };
    kernel.ready = made.then(
      (pipeline) => {
        kernel.pipeline = pipeline;
        this._compiling.done += 1;
        this._hooks.onCompiled?.(this._compiling.done, this._compiling.total);
      },
      (error) => {
        this._compiling.done += 1;
        kernel.failure = new DeviceFault("DeviceError", `${label}: ${error.message}`);
      },
    );
    return this._kernels.push(kernel) - 1;
  }

  /**
   * Records a plan, once its kernels are compiled.
   * @param {import("../pyodide/ffi").PyBuffer} record Python's array of u32, for each dispatch: kernel, grid x, y, z,
   *   number of buffers, buffers
   * @returns {Promise<number>}
   */
  async plan(record, label) {
    const view = record.getBuffer("u32");
    const words = view.data.slice();
    view.release();
    const dispatches = [];
    for (let at = 0; at < words.length; at += 5 + words[at + 4]) dispatches.push(words.subarray(at, at + 5 + words[at + 4]));
    await Promise.all(dispatches.map(([kernel]) => this._kernels[kernel].ready));
    this._check();
    const steps = dispatches.map(([number, x, y, z, , ...buffers]) => {
      const kernel = this._kernels[number];
      if (kernel.failure) throw kernel.failure;
      const group = this._device.createBindGroup({
        label: kernel.label,
        layout: kernel.layout,
        entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer: this._buffers[buffer] } })),
      });
      return { pipeline: kernel.pipeline, group, x, y, z };
    });
    return this._plans.push({ steps, label }) - 1;
  }

  /** Lets go of a plan whose Python half is gone. */
  forget(number) {
    this._plans[number] = null;
  }

  run(number) {
    this._check();
    const encoder = this._device.createCommandEncoder();
    this._replay(encoder, number);
    this._queue.submit([encoder.finish()]);
  }

  /** @returns {number} a ticket for `receive`; the bytes are as this replay leaves them */
  runAndRead(number, buffer, offset, size) {
    this._check();
    const encoder = this._device.createCommandEncoder();
    this._replay(encoder, number);
    return this._submitRead(encoder, buffer, offset, size);
  }

  /** @returns {number} a ticket for `receive` */
  read(buffer, offset, size) {
    this._check();
    return this._submitRead(this._device.createCommandEncoder(), buffer, offset, size);
  }

  _replay(encoder, number) {
    const pass = encoder.beginComputePass();
    let last = null;
    for (const { pipeline, group, x, y, z } of this._plans[number].steps) {
      if (pipeline !== last) pass.setPipeline((last = pipeline));
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(x, y, z);
    }
    pass.end();
  }

  _submitRead(encoder, buffer, offset, size) {
    const spare = this._staging.get(size);
    const staging =
      spare?.pop() ??
      this._device.createBuffer({ label: "read", size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    encoder.copyBufferToBuffer(this._buffers[buffer], offset, staging, 0, size);
    this._queue.submit([encoder.finish()]);
    const ticket = this._nextTicket++;
    const mapped = staging.mapAsync(GPUMapMode.READ);
    // whoever waits for it hears of a failure; it may come before anybody does
    mapped.catch(() => {});
    this._tickets.set(ticket, { staging, size, mapped });
    return ticket;
  }

  /** @returns {Promise<Uint8Array>} the bytes that a ticket stands for */
  async receive(ticket) {
    const { staging, size, mapped } = this._tickets.get(ticket);
    this._tickets.delete(ticket);
    try {
      await mapped;
    } catch (error) {
      this._check();
      if (this._lost === null) await Promise.race([this._device.lost, new Promise((resolve) => setTimeout(resolve, 200))]);
      this._check();
      throw new DeviceFault("DeviceError", error.message);
    }
    const data = new Uint8Array(staging.getMappedRange()).slice();
    staging.unmap();
    if (size <= KEPT_BYTES) {
      const spare = this._staging.get(size) ?? [];
      spare.push(staging);
      this._staging.set(size, spare);
    } else {
      staging.destroy();
    }
    this._check();
    return data;
  }

  /**
   * What replays cost this thread, for measurements: µs a replay to encode and submit, one after the other. Waiting for
   * the device in between would count what waking up costs on a processor that plays the GPU itself.
   * @returns {Promise<number>}
   */
  async replayCost(number, replays) {
    const start = performance.now();
    for (let i = 0; i < replays; i++) this.run(number);
    const spent = performance.now() - start;
    await this.flush();
    return (1000 * spent) / replays;
  }

  close() {
    this._closed = true;
    this._device.destroy();
  }
}
