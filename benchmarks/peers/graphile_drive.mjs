// Graphile Worker: a hundred at once; tuned: a local queue of 500, completions in batches.
import { openSync, writeSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(process.env.BENCH_NODE + "/");
const { makeWorkerUtils, run } = require("graphile-worker");

const url = process.env.BENCH_URL;
const tuned = process.env.BENCH_TUNED === "1";
const marks = openSync(process.env.BENCH_MARKS, "a");
const CHUNK = 1000;

if (process.argv[2] === "fill") {
  const utils = await makeWorkerUtils({ connectionString: url });
  await utils.migrate();
  const payload = { payload: process.env.BENCH_PAYLOAD ?? "{}" };
  for (let done = 0; done < Number(process.argv[3]); done += CHUNK) {
    await utils.addJobs(Array.from({ length: CHUNK }, () => ({ identifier: "noop", payload })));
  }
  await utils.release();
} else {
  const runner = await run({
    connectionString: url,
    concurrency: 100,
    noHandleSignals: true,
    taskList: { noop: async () => { writeSync(marks, "."); } },
    logger: undefined,
    ...(tuned
      ? { preset: { worker: { concurrentJobs: 100, maxPoolSize: 12, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } } }
      : {}),
  });
  await runner.promise;
}
