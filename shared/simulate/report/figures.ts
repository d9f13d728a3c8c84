import type { Summary } from '../summary.ts';

/** Figures by which routers are compared. */
export const FIGURES = {
  ttftMean: ({ ttftMs }: Summary): number => ttftMs.mean,
  ttftP99: ({ ttftMs }: Summary): number => ttftMs.p99,
  e2eMean: ({ e2eMs }: Summary): number => e2eMs.mean,
} as const;

export type Figure = keyof typeof FIGURES;

/** Names of the figures in reports. */
export const FIGURE_TITLES: Readonly<Record<Figure, string>> = {
  ttftMean: 'TTFT mean ms',
  ttftP99: 'TTFT p99 ms',
  e2eMean: 'E2E mean ms',
};

/** Differences between the seeds of a run. */
export interface SeedSpread {
  readonly count: number;
  /** Largest less smallest value over the seeds, as a share of their mean. */
  readonly range: Readonly<Record<Figure, number>>;
}
