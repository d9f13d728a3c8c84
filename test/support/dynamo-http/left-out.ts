import type { RecordedRow } from './records.ts';

interface LeftOut {
  readonly reason: string;
  matches(row: RecordedRow): boolean;
}

const id = (pattern: RegExp) => (row: RecordedRow) => pattern.test(row.id);

/** Rows that are not played yet, with the reason. Everything else in `test/fixtures/dynamo-http` is. */
export const LEFT_OUT: readonly LeftOut[] = [
  { reason: 'realtime, audio, classify, rerank and pooling have no routes', matches: id(/^route\.(37|39|56|57|58)\./) },
  { reason: 'overload and drain are set up by their own tests', matches: (row) => row.server === 'mocker' },
];

export function reasonLeftOut(row: RecordedRow): string | undefined {
  return LEFT_OUT.find((entry) => entry.matches(row))?.reason;
}
