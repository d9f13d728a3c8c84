import type { LoadReport } from './llmload.ts';
import { LONG_PROMPT_TOKENS, longPromptFlags } from './long-prompts.ts';
import type { Pace } from './sides.ts';

/** One figure of a workload, lower is better. */
export interface Figure {
  readonly name: string;
  readonly unit: string;
  readonly of: (report: LoadReport) => number;
  /** Largest allowed ratio to Dynamo in the same run. */
  readonly ratioMax?: number;
  /** Largest allowed value. */
  readonly max?: number;
}

export interface Workload {
  readonly name: string;
  readonly about: string;
  readonly pace: Pace;
  readonly flags: readonly string[];
  readonly figures: readonly Figure[];
  /** Context that the model must have. @default any */
  readonly contextTokensMin?: number;
}

const FULL_SPEED: Pace = { speedup: 1_000_000, decodeSpeedup: 1, maxNumSeqs: 256, msPerToken: 0 };
const REAL_PACE: Pace = { speedup: 1, decodeSpeedup: 1, maxNumSeqs: 256, msPerToken: 5.8 };
/** About 75 ms a token with 500 sequences a worker. */
const SLOW_PACE: Pace = { speedup: 1, decodeSpeedup: 0.125, maxNumSeqs: 1024, msPerToken: 75 };

const frontend = (report: LoadReport) => report.processes.find(({ name }) => name === 'frontend');
const usPerToken = (ratioMax: number): Figure => ({
  name: 'CPU a token',
  unit: 'us',
  of: (report) => frontend(report)?.cpu_us_per_token ?? Number.NaN,
  ratioMax,
});
const itlP99: Figure = { name: 'ITL p99', unit: 'ms', of: (report) => report.itl_ms.p99 };
const errors: Figure = { name: 'errors', unit: '', of: (report) => report.errors, max: 0 };

const msPerRequest = (ratioMax: number): Figure => ({
  name: 'CPU a request',
  unit: 'ms',
  of: (report) => frontend(report)?.cpu_ms_per_request ?? Number.NaN,
  ratioMax,
});

export const WORKLOADS: readonly Workload[] = [
  {
    name: 'unary',
    about: '64 chats at once, 64 words in, 8 tokens out, not streamed',
    pace: FULL_SPEED,
    flags: words('--concurrency 64 --isl 64 --osl 8 --ignore-eos --unique-prompts --duration 8s --warmup 20000'),
    figures: [msPerRequest(0.8), errors],
  },
  {
    name: 'burst',
    about: '32 streams of 256 tokens, tokens as fast as they come',
    pace: FULL_SPEED,
    flags: words('--stream --concurrency 32 --isl 64 --osl 256 --ignore-eos --duration 8s --warmup 200'),
    figures: [usPerToken(0.45), errors],
  },
  {
    name: 'paced',
    about: '32 streams of 256 tokens at 5.8 ms a token',
    pace: REAL_PACE,
    flags: words('--stream --concurrency 32 --isl 64 --osl 256 --ignore-eos --duration 8s --warmup 256'),
    figures: [usPerToken(0.45), itlP99, errors],
  },
  {
    name: 'slow',
    about: '1,000 streams at about 75 ms a token',
    pace: SLOW_PACE,
    flags: words('--stream --concurrency 1000 --isl 64 --osl 128 --ignore-eos --duration 20s --ramp 3s'),
    figures: [
      usPerToken(0.5),
      { name: 'memory a stream', unit: 'KiB', of: (report) => memoryPerStreamKiB(report, 1000), max: 60 },
      { ...itlP99, max: 110 },
      errors,
    ],
  },
  {
    name: 'first-token',
    about: 'one client: time to the first token that the server adds',
    pace: FULL_SPEED,
    flags: words('--stream --concurrency 1 --isl 64 --osl 4 --ignore-eos --requests 2000 --warmup 300'),
    figures: [
      { name: 'TTFT p50', unit: 'ms', of: (report) => report.ttft_ms.p50, max: 1 },
      { name: 'TTFT p99', unit: 'ms', of: (report) => report.ttft_ms.p99, max: 5 },
      errors,
    ],
  },
  {
    name: 'long-unique',
    about: 'prompts of 60,000 words, each new',
    pace: FULL_SPEED,
    flags: [...words('--stream --concurrency 2 --requests 80 --warmup 20'), ...longPromptFlags(0)],
    figures: [msPerRequest(0.3), errors],
    contextTokensMin: LONG_PROMPT_TOKENS,
  },
  {
    name: 'long-shared',
    about: 'prompts of 60,000 words, the first 54,000 always the same',
    pace: FULL_SPEED,
    flags: [...words('--stream --concurrency 2 --requests 80 --warmup 20'), ...longPromptFlags(0.9)],
    figures: [msPerRequest(0.1), errors],
    contextTokensMin: LONG_PROMPT_TOKENS,
  },
];

function words(text: string): readonly string[] {
  return text.split(' ');
}

function memoryPerStreamKiB(report: LoadReport, streams: number): number {
  const process = frontend(report);
  return process === undefined ? Number.NaN : ((process.rss_peak_mib - process.rss_start_mib) * 1024) / streams;
}
