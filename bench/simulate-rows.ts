import type { KvRouterConfig } from '../shared/scheduler/index.ts';

/** Hit %, then TTFT mean, p50, p90 and p99 in ms. */
export type Figures = readonly [hits: number, mean: number, p50: number, p90: number, p99: number];

/** One row of the reference replays: Dynamo 1.6.1, its own offline replay. */
export interface ReferenceRow {
  readonly trace: 'conversation' | 'synthetic';
  /** Divides the arrival times. */
  readonly speedup: number;
  readonly workers: number;
  readonly roundRobin: Figures;
  readonly kvDefault: Figures;
  readonly kvBest: Figures;
  /** Setting with the lowest mean TTFT. */
  readonly bestSetting: Partial<KvRouterConfig>;
}

export const ROWS: readonly ReferenceRow[] = [
  {
    trace: 'conversation',
    speedup: 1,
    workers: 4,
    roundRobin: [8.3, 515, 355, 1093, 2577],
    kvDefault: [13.5, 463, 354, 887, 2007],
    kvBest: [17.9, 334, 210, 725, 1946],
    bestSetting: { prefillLoadScale: 32, overlapScoreCredit: 4, queueThreshold: 0, queuePolicy: 'wspt' },
  },
  {
    trace: 'conversation',
    speedup: 3,
    workers: 4,
    roundRobin: [8.7, 3492, 1686, 9998, 16733],
    kvDefault: [13.6, 788, 612, 1617, 2888],
    kvBest: [17.2, 507, 345, 1035, 2672],
    bestSetting: { prefillLoadScale: 32, overlapScoreCredit: 4, queueThreshold: 0, queuePolicy: 'wspt' },
  },
  {
    trace: 'conversation',
    speedup: 2,
    workers: 8,
    roundRobin: [8.2, 347, 207, 765, 2147],
    kvDefault: [18.2, 329, 207, 625, 1771],
    kvBest: [26.3, 246, 154, 524, 1704],
    bestSetting: { prefillLoadScale: 32, overlapScoreCredit: 4, queueThreshold: 0, queuePolicy: 'wspt' },
  },
  {
    trace: 'conversation',
    speedup: 6,
    workers: 8,
    roundRobin: [8.5, 3846, 1754, 10753, 21939],
    kvDefault: [18, 547, 410, 1091, 2302],
    kvBest: [24.8, 337, 212, 680, 1982],
    bestSetting: { prefillLoadScale: 32, overlapScoreCredit: 4, queueThreshold: 0, queuePolicy: 'wspt' },
  },
  {
    trace: 'conversation',
    speedup: 4,
    workers: 16,
    roundRobin: [7.4, 281, 147, 640, 2030],
    kvDefault: [21.9, 274, 179, 528, 1672],
    kvBest: [32.4, 203, 104, 451, 1622],
    bestSetting: { prefillLoadScale: 32, overlapScoreCredit: 2 },
  },
  {
    trace: 'conversation',
    speedup: 12,
    workers: 16,
    roundRobin: [8.2, 2592, 977, 8189, 14282],
    kvDefault: [21.6, 439, 303, 896, 2043],
    kvBest: [30.9, 276, 173, 561, 1840],
    bestSetting: { prefillLoadScale: 32, overlapScoreCredit: 4, queueThreshold: 0, queuePolicy: 'wspt' },
  },
  {
    trace: 'synthetic',
    speedup: 1,
    workers: 4,
    roundRobin: [12.1, 364, 233, 881, 1990],
    kvDefault: [31.7, 240, 47, 703, 1210],
    kvBest: [38.3, 221, 36, 668, 1188],
    bestSetting: { prefillLoadScale: 32, overlapScoreCredit: 2, queueThreshold: 0.5, queuePolicy: 'wspt' },
  },
  {
    trace: 'synthetic',
    speedup: 3,
    workers: 4,
    roundRobin: [10.7, 6345, 1841, 22463, 31365],
    kvDefault: [23.2, 839, 579, 2017, 3813],
    kvBest: [35.8, 334, 164, 837, 1878],
    bestSetting: { prefillLoadScale: 32, overlapScoreCredit: 4, queueThreshold: 0, queuePolicy: 'wspt' },
  },
  {
    trace: 'synthetic',
    speedup: 2,
    workers: 8,
    roundRobin: [11.2, 345, 217, 846, 1840],
    kvDefault: [45.6, 191, 32, 590, 1152],
    kvBest: [53.9, 169, 31, 524, 1157],
    bestSetting: { prefillLoadScale: 32, overlapScoreCredit: 2, queueThreshold: 0.5, queuePolicy: 'wspt' },
  },
  {
    trace: 'synthetic',
    speedup: 6,
    workers: 8,
    roundRobin: [9.7, 3908, 1505, 13127, 19648],
    kvDefault: [30.9, 391, 311, 922, 1591],
    kvBest: [52.5, 215, 47, 626, 1215],
    bestSetting: { prefillLoadScale: 32, overlapScoreCredit: 4, queueThreshold: 0, queuePolicy: 'wspt' },
  },
  {
    trace: 'synthetic',
    speedup: 4,
    workers: 16,
    roundRobin: [9.4, 343, 228, 833, 1717],
    kvDefault: [56.2, 157, 30, 473, 1102],
    kvBest: [64, 138, 29, 427, 1089],
    bestSetting: { prefillLoadScale: 32, overlapScoreCredit: 4, queueThreshold: 0, queuePolicy: 'wspt' },
  },
  {
    trace: 'conversation',
    speedup: 1,
    workers: 8,
    roundRobin: [8.2, 321, 184, 702, 2048],
    kvDefault: [20.4, 277, 169, 556, 1687],
    kvBest: [26.4, 231, 131, 512, 1676],
    bestSetting: { prefillLoadScale: 32, overlapScoreCredit: 4, queueThreshold: 0, queuePolicy: 'wspt' },
  },
  {
    trace: 'conversation',
    speedup: 1,
    workers: 16,
    roundRobin: [7.3, 241, 128, 561, 1756],
    kvDefault: [28.8, 192, 94, 442, 1559],
    kvBest: [32.5, 183, 84, 426, 1553],
    bestSetting: { prefillLoadScale: 32 },
  },
  {
    trace: 'synthetic',
    speedup: 12,
    workers: 16,
    roundRobin: [8.6, 2476, 1193, 7429, 11597],
    kvDefault: [40.3, 275, 149, 697, 1244],
    kvBest: [63.3, 167, 38, 481, 1138],
    bestSetting: { prefillLoadScale: 32, overlapScoreCredit: 4, queueThreshold: 0, queuePolicy: 'wspt' },
  },
];

/** Results of the cost model `stator` in an independent simulator. */
export const STATOR_ROWS: ReadonlyMap<ReferenceRow, Figures> = new Map(
  [
    ['conversation', 1, 4, [18.2, 322, 197, 724, 1958]] as const,
    ['conversation', 3, 4, [17.9, 485, 323, 1039, 2586]] as const,
    ['conversation', 2, 8, [26.7, 236, 124, 538, 1733]] as const,
    ['conversation', 6, 8, [26.4, 321, 196, 687, 1989]] as const,
    ['conversation', 4, 16, [32.8, 205, 98, 471, 1650]] as const,
    ['conversation', 12, 16, [32.5, 262, 142, 568, 1836]] as const,
    ['synthetic', 1, 4, [38.7, 225, 36, 681, 1204]] as const,
    ['synthetic', 3, 4, [37.1, 328, 165, 833, 1792]] as const,
    ['synthetic', 2, 8, [54.6, 171, 31, 536, 1151]] as const,
    ['synthetic', 6, 8, [53.6, 213, 45, 616, 1232]] as const,
    ['synthetic', 4, 16, [64.1, 139, 30, 428, 1078]] as const,
    ['synthetic', 12, 16, [63.4, 168, 38, 482, 1149]] as const,
  ].map(([trace, speedup, workers, figures]) => {
    const row = ROWS.find((each) => each.trace === trace && each.speedup === speedup && each.workers === workers);
    if (row === undefined) throw new Error(`no reference row ${trace} x${speedup}, ${workers} workers`);
    return [row, figures] as const;
  }),
);
