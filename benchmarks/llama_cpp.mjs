// Times llama.cpp through node-llama-cpp for llama_cpp_peer.py: node llama_cpp.mjs FOLDER REQUEST, both written there.
// FOLDER holds node_modules; REQUEST is JSON. Prints one line of JSON; without a model only the devices that it sees.
import {join, resolve} from "node:path";
import {pathToFileURL} from "node:url";

process.on("uncaughtException", (error) => {
    console.error(error.message);
    process.exit(1);
});

const [folder, request] = process.argv.slice(2);
const {backend, threads, model, prompts, newTokens} = JSON.parse(request);
const onGpu = backend === "vulkan";
const entry = join(resolve(folder), "node_modules/node-llama-cpp/dist/index.js");
const {getLlama} = await import(pathToFileURL(entry).href);

const llama = await getLlama({
    gpu: onGpu ? "vulkan" : false,
    build: "never",
    skipDownload: true,
    logger: (level, message) => (level === "error" || level === "fatal") && console.error(message.trim()),
    ...(onGpu ? {} : {maxThreads: threads})
});
const devices = onGpu ? await llama.getGpuDeviceNames() : [];

// Seconds up to the first token after `ids`, and from there to the last of `count`: the engine's own bench cuts there too.
async function timed(sequence, ids, count) {
    await sequence.clearHistory();
    const start = performance.now();
    const tokens = sequence.evaluate(ids, {temperature: 0, yieldEogToken: true});
    await tokens.next();
    const first = performance.now();
    for (let made = 1; made < count; made++)
        await tokens.next();
    const end = performance.now();
    await tokens.return();
    return {prefill: (first - start) / 1000, decode: (end - first) / 1000};
}

async function speeds() {
    const loaded = await llama.loadModel({modelPath: model, gpuLayers: onGpu ? "max" : 0, ignoreMemorySafetyChecks: true});
    const context = await loaded.createContext({
        contextSize: Math.max(512, prompts[0].length + newTokens),
        batchSize: 512, // llama.cpp's own default for what runs at once
        ignoreMemorySafetyChecks: true,
        ...(onGpu ? {} : {threads: {ideal: threads, min: threads}})
    });
    const sequence = context.getSequence();
    const result = {};
    for (const ids of prompts) // all but the last only warm up
        result.prefill_per_s = ids.length / (await timed(sequence, ids, 1)).prefill;
    for (const ids of prompts)
        result.decode_per_s = (newTokens - 1) / (await timed(sequence, ids.slice(0, 1), newTokens)).decode;
    return result;
}

console.log(JSON.stringify({devices, ...(prompts ? await speeds() : {})}));
process.exit(0);
