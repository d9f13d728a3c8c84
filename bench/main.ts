// npm run bench -- [--only unary,burst,...] [--dynamo FOLDER] [--model FOLDER] [--json FILE]
//
// Prints one table: CPU of the frontend process at equal load, this product beside the floor and, where given, the real
// Dynamo. `mixed` is this product's frontend before the workers of Dynamo, and `mixed floor` a bare server before them.
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { chaos } from './chaos.ts';
import { measureKvMode } from './kv-mode.ts';
import { buildLoadGenerator, type LoadReport, load } from './llmload.ts';
import { LONG_PROMPT_TOKENS, measureLoopSlices } from './long-prompts.ts';
import { residentMiB } from './processes.ts';
import { type SideName, startSide } from './sides.ts';
import { soak } from './soak.ts';
import { measureStart } from './start.ts';
import { type Figure, WORKLOADS, type Workload } from './workloads.ts';

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    dynamo: { type: 'string', default: process.env.STATOR_BENCH_DYNAMO ?? '' },
    model: { type: 'string' },
    json: { type: 'string' },
  },
});
const dynamoFolder = values.dynamo === '' ? undefined : values.dynamo;
const modelFolder = values.model ?? (dynamoFolder === undefined ? 'dist/builtin-model' : join(dynamoFolder, 'model'));
const only = values.only?.split(',');
const sides: readonly SideName[] =
  dynamoFolder === undefined ? ['stator', 'floor'] : ['stator', 'dynamo', 'mixed', 'floor', 'mixed floor'];
const model = { modelFolder, modelName: 'bench', dynamoFolder };

interface Row {
  readonly workload: string;
  readonly figure: string;
  readonly values: Readonly<Partial<Record<SideName, number>>>;
  readonly verdict: string;
}

const rows: Row[] = [];

async function measure(binary: string, workload: Workload): Promise<void> {
  const reports = new Map<SideName, LoadReport>();
  for (const name of sides) {
    const side = await startSide(name, { ...model, pace: workload.pace });
    try {
      const target = ['--url', side.url, '--model', model.modelName, '--watch', `frontend=${side.frontendPid}`];
      reports.set(name, await load(binary, [...target, ...workload.flags]));
    } finally {
      await side.stop();
    }
  }
  for (const figure of workload.figures) note(row(workload.name, figure, reports));
}

function row(workload: string, figure: Figure, reports: ReadonlyMap<SideName, LoadReport>): Row {
  const figures: Partial<Record<SideName, number>> = {};
  for (const [name, report] of reports) figures[name] = figure.of(report);
  return {
    workload,
    figure: `${figure.name} ${figure.unit}`.trim(),
    values: figures,
    verdict: verdictOf(figure, figures.stator, figures.dynamo),
  };
}

function verdictOf({ max, ratioMax }: Figure, ours: number | undefined, theirs: number | undefined): string {
  if (ours === undefined) return '';
  if (max !== undefined) return `${ours <= max ? 'holds' : 'MISSED'} (at most ${max})`;
  if (ratioMax === undefined || theirs === undefined) return '';
  const ratio = ours / theirs;
  return `${ratio.toFixed(2)} x Dynamo, ${ratio <= ratioMax ? 'holds' : 'MISSED'} (at most ${ratioMax})`;
}

function note(result: Row): void {
  rows.push(result);
  const cells = sides.map((name) => (result.values[name]?.toFixed(2) ?? '-').padStart(11)).join(' ');
  console.log(`${result.workload.padEnd(12)} ${result.figure.padEnd(20)} ${cells}  ${result.verdict}`);
}

function isWanted(name: string): boolean {
  return only === undefined || only.includes(name);
}

const { max_position_embeddings: contextTokens = 0 } = JSON.parse(
  await readFile(join(modelFolder, 'config.json'), 'utf8'),
) as { readonly max_position_embeddings?: number };

function hasContext(name: string, tokensMin: number): boolean {
  if (contextTokens >= tokensMin) return true;
  console.log(
    `${name.padEnd(12)} left out: the model's context is ${contextTokens} tokens (give another with --model)`,
  );
  return false;
}

async function measureStartAndMemory(binary: string): Promise<void> {
  const start = await measureStart(binary, model);
  note({
    workload: 'start',
    figure: 'first answer ms',
    values: { stator: start.readyMs },
    verdict: start.readyMs <= 1000 ? 'holds (at most 1000)' : 'MISSED (at most 1000)',
  });
  note({
    workload: 'start',
    figure: 'idle memory MiB',
    values: { stator: start.idleMiB },
    verdict: start.idleMiB <= 150 ? 'holds (at most 150)' : 'MISSED (at most 150)',
  });
}

async function measureSoak(binary: string): Promise<void> {
  const side = await startSide('stator', {
    ...model,
    pace: { speedup: 1, decodeSpeedup: 0.05, maxNumSeqs: 2048, msPerToken: 0 },
  });
  try {
    for (const result of await soak(binary, side, model.modelName)) note(result);
  } finally {
    await side.stop();
  }
}

/** A process of its own: it starts functions as the tests do, which this bundle is not made for. */
async function measureColdFunction(): Promise<void> {
  const { stdout } = await promisify(execFile)(process.execPath, ['bench/run.mjs', 'bench/cold-function.ts', '--json']);
  for (const result of JSON.parse(stdout.trim().split('\n').at(-1) ?? '[]') as readonly Row[]) note(result);
}

/** Takes ten minutes and needs no load generator, so it runs only on request. */
const isChaosAlone = only?.join() === 'chaos';
const binary = isChaosAlone ? '' : await buildLoadGenerator('bench/llmload');
console.log(`model ${modelFolder}; node ${process.version}; own memory ${residentMiB(process.pid).toFixed(0)} MiB`);
const heads = sides.map((name) => name.padStart(11)).join(' ');
console.log(`${'workload'.padEnd(12)} ${'figure'.padEnd(20)} ${heads}`);
for (const workload of WORKLOADS)
  if (isWanted(workload.name) && hasContext(workload.name, workload.contextTokensMin ?? 0))
    await measure(binary, workload);
if (isWanted('start')) await measureStartAndMemory(binary);
if (isWanted('cold')) await measureColdFunction();
if (isWanted('long-slices') && hasContext('long-slices', LONG_PROMPT_TOKENS))
  for (const result of await measureLoopSlices(binary, model)) note(result);
if (isWanted('kv')) for (const result of await measureKvMode(binary, model, contextTokens)) note(result);
if (isWanted('soak')) await measureSoak(binary);
if (only?.includes('chaos')) for (const result of await chaos()) note(result);
if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(rows, null, 2)}\n`);
