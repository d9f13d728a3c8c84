import assert from 'node:assert';
import { isRecord } from '../../records/index.ts';
import type { Summary } from '../summary.ts';
import { FIGURES } from './figures.ts';
import type { RunReport } from './run-report.ts';

/** Returns one report with the means of several seeds. Its curves are those of the first one. */
export function meanReport(reports: readonly RunReport[]): RunReport {
  const [first] = reports;
  assert(first !== undefined, 'a run has a seed');
  if (reports.length === 1) return first;
  const summaries = reports.map(({ summary }) => summary);
  return {
    ...first,
    summary: meanOf(summaries) as Summary, // records of one form
    wallMs: reports.reduce((sum, { wallMs }) => sum + wallMs, 0),
    seeds: {
      count: reports.length,
      range: {
        ttftMean: rangeOf(summaries.map(FIGURES.ttftMean)),
        ttftP99: rangeOf(summaries.map(FIGURES.ttftP99)),
        e2eMean: rangeOf(summaries.map(FIGURES.e2eMean)),
      },
    },
  };
}

/** Returns the mean of numbers, or of each number in records of one form. */
function meanOf(values: readonly unknown[]): unknown {
  const [first] = values;
  if (typeof first === 'number') return sumOf(values as readonly number[]) / values.length;
  if (!isRecord(first)) return first;
  const records = values as readonly Readonly<Record<string, unknown>>[];
  const entries = Object.keys(first).map((key) => [key, meanOf(records.map((record) => record[key]))] as const);
  return Object.fromEntries(entries);
}

function rangeOf(values: readonly number[]): number {
  const mean = sumOf(values) / values.length;
  return mean > 0 ? (Math.max(...values) - Math.min(...values)) / mean : 0;
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
