import { readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load } from './llmload.ts';
import type { LoopReport } from './loop-probe.ts';
import { waitUntil } from './processes.ts';
import { type SideOptions, startSide } from './sides.ts';

/** Streams that run all the time, at about 20 tokens a second each. */
const STREAMS = 100;
/** Each phase, after a warm-up that has the code compiled. */
const PHASE_S = 8;
const LONG_WORDS = 60_000;
/** No slice of work on the event loop may take more CPU. */
const SLICE_MS_MAX = 20;

/** Context that a model needs for them: about a token a word. */
export const LONG_PROMPT_TOKENS = 65_536;

/** Prompts of 60,000 words of which `sharedPart` (0 to 1) is the same in all. */
export function longPromptFlags(sharedPart: number): readonly string[] {
  const prompt = ['--isl', String(LONG_WORDS), '--osl', '8', '--ignore-eos', '--seed', String(seedOfRun())];
  return [...prompt, ...(sharedPart > 0 ? ['--shared-prefix', String(LONG_WORDS * sharedPart)] : ['--unique-prompts'])];
}

/** A new one each run: servers remember texts. */
function seedOfRun(): number {
  return Math.trunc(Math.random() * 2 ** 31);
}

/**
 * The longest slices of the frontend's event loop while streams run: first by themselves, as a control, then with
 * 60,000-word prompts arriving.
 */
export async function measureLoopSlices(
  binary: string,
  model: Pick<SideOptions, 'modelFolder' | 'modelName' | 'dynamoFolder'>,
) {
  const file = join(tmpdir(), `stator-bench-loop-${process.pid}.json`);
  const side = await startSide('stator', {
    ...model,
    pace: { speedup: 1, decodeSpeedup: 0.15, maxNumSeqs: 256, msPerToken: 0 },
    frontendEnv: {
      NODE_OPTIONS: `--import=${fileURLToPath(new URL('./bench-loop-probe.js', import.meta.url))}`,
      STATOR_BENCH_PROBE: file,
    },
  });
  const ask = (flags: readonly string[]) => load(binary, ['--url', side.url, '--model', model.modelName, ...flags]);
  const long = (seconds: number) =>
    ask([...longPromptFlags(0), '--stream', '--rate', '4', '--duration', `${seconds}s`]);
  const streams = ['--stream', '--concurrency', String(STREAMS), '--isl', '64', '--osl', '128', '--ignore-eos'];
  try {
    const running = ask([...streams, '--duration', `${3 * PHASE_S}s`]);
    await long(PHASE_S - 2);
    await takeReport(side.frontendPid, file);
    await new Promise((resolve) => setTimeout(resolve, PHASE_S * 1000));
    const control = await takeReport(side.frontendPid, file);
    const prompts = await long(PHASE_S - 2);
    const loaded = await takeReport(side.frontendPid, file);
    const errors = prompts.errors + (await running).errors;
    return rowsOf(control, loaded, errors);
  } finally {
    await side.stop();
    await rm(file, { force: true });
  }
}

function rowsOf(control: LoopReport, loaded: LoopReport, errors: number) {
  const row = (figure: string, value: number, verdict: string) => ({
    workload: 'long-slices',
    figure,
    values: { stator: value },
    verdict,
  });
  const holds = (isGood: boolean) => (isGood ? 'holds' : 'MISSED');
  return [
    row('slice, control ms', control.sliceCpuMs, `gap ${control.gapMs.toFixed(1)} ms`),
    row(
      'slice, prompts ms',
      loaded.sliceCpuMs,
      `${holds(loaded.sliceCpuMs <= SLICE_MS_MAX)} (at most ${SLICE_MS_MAX}), gap ${loaded.gapMs.toFixed(1)} ms`,
    ),
    row('errors', errors, holds(errors === 0)),
  ];
}

async function takeReport(pid: number, file: string): Promise<LoopReport> {
  await rm(file, { force: true });
  process.kill(pid, 'SIGUSR2');
  let report: LoopReport | undefined;
  await waitUntil('the report of the event loop', 5000, async () => {
    report = await readFile(file, 'utf8').then(
      (text) => JSON.parse(text) as LoopReport,
      () => undefined, // not written yet
    );
    return report !== undefined;
  });
  return report as unknown as LoopReport;
}
