import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { ReasoningRequest } from '../../../../shared/parsers/reasoning/split-rules.ts';
import { cut, formatOf, runParser, type Split } from './run-parser.ts';

interface Row {
  readonly id: string;
  readonly parser: string;
  readonly text: string;
  readonly chunks?: readonly string[];
  readonly prefill?: boolean;
  readonly reasoning_effort?: string;
  readonly chat_template_args?: Readonly<Record<string, unknown>>;
  readonly expect: Split;
}

const rows = readFileSync(new URL('../../../fixtures/parsers/reasoning.jsonl', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => JSON.parse(line) as Row);

function requestOf(row: Row): ReasoningRequest {
  const effort = row.reasoning_effort === undefined ? {} : { reasoning_effort: row.reasoning_effort };
  const opener = row.prefill === true ? formatOf(row.parser).promptOpeners[0]! : '';
  return { templateArgs: { ...row.chat_template_args, ...effort }, promptText: `hi\n${opener}` };
}

describe.each(rows.map((row) => [row.id, row.parser, row] as const))('%s, %s', (_id, name, row) => {
  const request = requestOf(row);

  it('gives the recorded result in one piece and in the recorded ones', () => {
    expect(runParser(name, [row.text], request)).toEqual(row.expect);
    if (row.chunks !== undefined) expect(runParser(name, row.chunks, request)).toEqual(row.expect);
  });

  it('gives it in pieces of any one size and cut at any one or two places', () => {
    const { text } = row;
    for (let units = 1; units < text.length; units++) {
      expect(runParser(name, cut(text, units), request)).toEqual(row.expect);
    }
    for (let first = 0; first < text.length; first++) {
      for (let second = first; second < text.length; second++) {
        const pieces = [text.slice(0, first), text.slice(first, second), text.slice(second)];
        expect(runParser(name, pieces, request)).toEqual(row.expect);
      }
    }
  });
});
