import type { RecordedRow } from './records.ts';

interface LeftOut {
  readonly reason: string;
  matches(row: RecordedRow): boolean;
}

/** Rows that are not played yet, with the reason. Everything else in `test/fixtures/dynamo-http` is. */
export const LEFT_OUT: readonly LeftOut[] = [
  { reason: 'overload and drain are set up by their own tests', matches: (row) => row.server === 'mocker' },
];

export function reasonLeftOut(row: RecordedRow): string | undefined {
  return LEFT_OUT.find((entry) => entry.matches(row))?.reason;
}
