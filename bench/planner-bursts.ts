import { seededRandom } from '../shared/clock/index.ts';
import { toWorkload, type Workload, type WorkloadRequest } from '../shared/simulate/workload.ts';

const STRETCH_TOKENS = 512;
const HORIZON_S = 3600;
const EVEN = { baseRate: 16, everyS: [900, 900], lastS: [90, 90], rate: [64, 64] } as const;

/** Bursts over a base load. Of a pair, every burst draws one value between the two. */
export interface BurstShape {
  readonly seed: number;
  /** Requests a second between bursts, and in them. */
  readonly baseRate: number;
  readonly rate: readonly [number, number];
  /** From the start of a burst to that of the next. */
  readonly everyS: readonly [number, number];
  readonly lastS: readonly [number, number];
}

/** As the reference bursts with other arrivals; then with other lengths, gaps and heights. */
export const BURSTS = {
  'burst-again': { ...EVEN, seed: 101 },
  'burst-short': { ...EVEN, seed: 102, baseRate: 24, everyS: [600, 600], lastS: [60, 60], rate: [72, 72] },
  'burst-uneven': { ...EVEN, seed: 103, everyS: [450, 1350], lastS: [60, 120], rate: [48, 80] },
  'burst-rare': { ...EVEN, seed: 104, baseRate: 10, everyS: [1400, 1700], lastS: [60, 150], rate: [60, 60] },
  'burst-long': { ...EVEN, seed: 205, baseRate: 12, everyS: [700, 1100], lastS: [120, 240], rate: [40, 70] },
  'burst-often': { ...EVEN, seed: 206, baseRate: 20, everyS: [240, 540], lastS: [30, 60], rate: [50, 110] },
  'burst-low': { ...EVEN, seed: 207, baseRate: 40, everyS: [500, 1000], lastS: [45, 120], rate: [70, 95] },
  'burst-mixed': { ...EVEN, seed: 308, baseRate: 14, everyS: [300, 800], lastS: [45, 150], rate: [35, 75] },
  'burst-tall': { ...EVEN, seed: 409, baseRate: 10, everyS: [400, 1000], lastS: [30, 90], rate: [60, 110] },
  'burst-busy': { ...EVEN, seed: 410, baseRate: 18, everyS: [250, 600], lastS: [60, 150], rate: [35, 60] },
  'burst-wild': { ...EVEN, seed: 411, baseRate: 20, everyS: [250, 1400], lastS: [30, 170], rate: [40, 100] },
} as const satisfies Record<string, BurstShape>;

interface Burst {
  readonly fromS: number;
  readonly toS: number;
  readonly rate: number;
}

/** Lengths as in the reference workloads: about 1024 tokens in and 128 out, no two prompts alike. */
export function burstWorkload({ seed, baseRate, rate, everyS, lastS }: BurstShape): Workload {
  const random = seededRandom(seed);
  const between = ([low, high]: readonly [number, number]): number => low + random.next() * (high - low);
  const bursts: Burst[] = [];
  for (let fromS = (2 / 3) * between(everyS); fromS < HORIZON_S; fromS += between(everyS)) {
    bursts.push({ fromS, toS: fromS + between(lastS), rate: between(rate) });
  }
  const rateAt = (atS: number): number => bursts.find(({ fromS, toS }) => atS >= fromS && atS < toS)?.rate ?? baseRate;
  const peak = Math.max(baseRate, ...bursts.map((burst) => burst.rate));
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
  const tokens = (median: number, low: number, high: number): number =>
    Math.min(high, Math.max(low, Math.round(median * Math.exp(0.3 * normal()))));
  const requests: WorkloadRequest[] = [];
  let segments = 0;
  for (let atS = 0; ; ) {
    atS -= Math.log(1 - random.next()) / peak;
    if (atS >= HORIZON_S) return toWorkload(requests, STRETCH_TOKENS);
    if (random.next() * peak >= rateAt(atS)) continue;
    const inputTokens = tokens(1024, 128, 4096);
    const segmentIds = Array.from({ length: Math.ceil(inputTokens / STRETCH_TOKENS) }, () => segments++);
    requests.push({ arrivalMs: 1000 * atS, inputTokens, outputTokens: tokens(128, 16, 512), segmentIds });
  }
}
