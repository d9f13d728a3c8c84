import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export interface Spread {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

export interface LoadProcess {
  readonly name: string;
  readonly cpu_s: number;
  readonly cpu_ms_per_request: number;
  readonly cpu_us_per_token: number;
  readonly rss_start_mib: number;
  readonly rss_peak_mib: number;
}

/** Report of llmload on one run (bench/llmload/README.md). */
export interface LoadReport {
  readonly requests: number;
  readonly errors: number;
  readonly error_kinds?: Readonly<Record<string, number>>;
  readonly ready_ms?: number;
  readonly seconds: number;
  readonly output_tokens_per_s: number;
  readonly ttft_ms: Spread;
  readonly itl_ms: Spread;
  readonly processes: readonly LoadProcess[];
}

const run = promisify(execFile);

/** Builds the load generator once per user and returns its path. Needs Go. */
export async function buildLoadGenerator(sourceFolder: string): Promise<string> {
  const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'stator', 'llmload');
  await mkdir(cache, { recursive: true });
  const binary = join(cache, 'llmload');
  try {
    await run('go', ['build', '-o', binary, '.'], { cwd: sourceFolder });
  } catch (cause) {
    if (existsSync(binary)) return binary;
    throw new Error('the benchmark needs Go to build its load generator (bench/llmload)', { cause });
  }
  return binary;
}

/** Runs the load generator with `flags` and returns its report; a run with failed requests still reports. */
export async function load(binary: string, flags: readonly string[]): Promise<LoadReport> {
  const child = spawn(binary, ['--json', ...flags], { stdio: ['ignore', 'pipe', 'inherit'] });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    out += chunk;
  });
  await new Promise((resolve, reject) => child.once('close', resolve).once('error', reject));
  if (out === '') throw new Error(`llmload ${flags.join(' ')} reported nothing`);
  return JSON.parse(out) as LoadReport;
}
