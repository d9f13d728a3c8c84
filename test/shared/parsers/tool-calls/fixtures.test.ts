import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import {
  compareResult,
  type ParserRow,
  playParserRow,
  readParserRows,
  readPieces,
} from '../../../support/parsers-conformance.ts';
import { applyParserDifferences } from '../../../support/parsers-differences.ts';
import { same } from '../../../support/same.ts';

const FILES = ['tool.jsonl', 'tool-choice.jsonl', 'tool-cases.jsonl', 'tool-choice-cases.jsonl'];
const rows = FILES.flatMap((file) =>
  readParserRows(fileURLToPath(new URL(`../../../fixtures/parsers/${file}`, import.meta.url))),
);
/** The only rows that may differ from the record, with the next: their last call is cut off, and shown as far as it goes. */
const CUT_OFF: ReadonlySet<string> = new Set(['T20', 'T29', 'T44']);
/** Recorded as dropped. */
const SHOWN: ReadonlySet<string> = new Set(['N011']);

describe.each(rows.map((row) => [row.id, row.parser ?? '', row] as const))('%s %s', (_id, _name, row) => {
  it('is read as recorded, except for a call that is cut off, in the usual cuts', () => {
    const { failures, applied } = playParserRow(row);
    expect(failures).toEqual([]);
    expect(applied).toEqual([
      ...(CUT_OFF.has(row.id) ? [expect.stringMatching('a committed call in which the text ends')] : []),
      ...(SHOWN.has(row.id) ? [expect.stringMatching('is shown, not dropped')] : []),
    ]);
  });

  it('is read the same when cut at any one or two places', () => {
    const whole = readPieces(row, [row.text]);
    expect(compareResult(applyParserDifferences(row, row.expect, whole).expected, whole)).toEqual([]);
    const step = Math.max(1, Math.floor(row.text.length / 40));
    for (let first = 0; first <= row.text.length; first++) {
      for (let second = first; second <= row.text.length; second += step) {
        same(readPieces(row, cutAt(row, first, second)), whole);
      }
    }
  });

  it('shows, wherever the text ends, nothing that the whole text takes back', () => {
    const whole = readPieces(row, [row.text]);
    for (let end = 0; end < row.text.length; end++) {
      const cut = readPieces({ ...row, engine_finish: 'length' }, [row.text.slice(0, end)]);
      same(cut.finish_reason, 'length');
      // Fewer calls, of the same names, with the beginnings of the same arguments.
      const shown = whole.calls.slice(0, cut.calls.length);
      same(
        cut.calls.map(({ name, arguments: text }) => [name, text]),
        shown.map(({ name, arguments: text }, at) => [name, text.slice(0, cut.calls[at]?.arguments.length)]),
      );
    }
  });
});

function cutAt(row: ParserRow, first: number, second: number): readonly string[] {
  return [row.text.slice(0, first), row.text.slice(first, second), row.text.slice(second)];
}
