import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../test/support/free-port.ts';
import { load } from './llmload.ts';
import { ProcessGroup, residentMiB } from './processes.ts';

export interface StartFigures {
  /** From the frontend's spawn to its first good answer, workers already running; median of five starts. */
  readonly readyMs: number;
  /** Resident memory of the frontend after its first answer and two idle seconds; median of five starts. */
  readonly idleMiB: number;
}

/** Starts the frontend five times beside two running mock workers. */
export async function measureStart(
  binary: string,
  model: { readonly modelFolder: string; readonly modelName: string },
): Promise<StartFigures> {
  const folder = await mkdtemp(join(tmpdir(), 'stator-bench-start-'));
  const workers = new ProcessGroup(folder);
  const env = { DYN_FILE_KV: join(folder, 'kv'), DYN_LOG: 'warn' };
  const planes = ['--discovery-backend', 'file', '--event-plane', 'zmq'];
  const flags = [
    '--engine',
    'mocker',
    '--model-path',
    model.modelFolder,
    '--model-name',
    model.modelName,
    '--speedup-ratio',
    '1000000',
    ...planes,
  ];
  for (const at of [0, 1]) workers.start(`worker-${at}`, 'dist/stator.js', ['worker', ...flags], env);
  const ready: number[] = [];
  const idle: number[] = [];
  try {
    for (let round = 0; round < 6; round++) {
      const frontend = new ProcessGroup(folder);
      const port = await freePort();
      const args = ['frontend', '--http-host', '127.0.0.1', '--http-port', String(port), ...planes];
      const { pid } = frontend.start('frontend', 'dist/stator.js', args, env);
      const target = ['--url', `http://127.0.0.1:${port}`, '--model', model.modelName, '--watch', `frontend=${pid}`];
      const report = await load(binary, [...target, '--ready', '60s', '--requests', '1', '--osl', '1']);
      await new Promise((resolve) => setTimeout(resolve, 2000));
      if (round > 0) ready.push(report.ready_ms ?? Number.NaN); // the first round also waited for the workers
      if (round > 0) idle.push(residentMiB(pid));
      await frontend.stop();
    }
  } finally {
    await workers.stop();
    await rm(folder, { recursive: true, force: true });
  }
  return { readyMs: median(ready), idleMiB: median(idle) };
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
