import fc from 'fast-check';
import { createReasoningParser, findReasoningFormat, planReasoning } from '../../../../shared/parsers/index.ts';
import type { ReasoningFormat } from '../../../../shared/parsers/reasoning/formats.ts';
import type { ReasoningRequest } from '../../../../shared/parsers/reasoning/split-rules.ts';

/** A text taken apart; both parts joined over the whole stream. */
export interface Split {
  readonly reasoning: string;
  readonly content: string;
}

/** Arguments under which every format splits. */
export const THINKING_ARGS = { thinking: true, enable_thinking: true, reasoning_effort: 'high' } as const;

export function formatOf(name: string): ReasoningFormat {
  return findReasoningFormat(name).format;
}

/** Returns what has come out of a parser after each piece, and at the end. */
export function runSteps(name: string, pieces: readonly string[], request: Partial<ReasoningRequest> = {}): Split[] {
  const plan = planReasoning(formatOf(name), { templateArgs: THINKING_ARGS, promptText: '', ...request });
  let reasoning = '';
  let content = '';
  const out = {
    reasoning: (text: string): void => {
      if (text === '') throw new Error('empty reasoning');
      reasoning += text;
    },
    content: (text: string): void => {
      if (text === '') throw new Error('empty content');
      content += text;
    },
  };
  if (plan === undefined) return [{ reasoning, content: pieces.join('') }];
  const parser = createReasoningParser(plan);
  const steps = pieces.map((piece) => {
    parser.push(piece, out);
    return { reasoning, content };
  });
  parser.end(out);
  return [...steps, { reasoning, content }];
}

export function runParser(name: string, pieces: readonly string[], request: Partial<ReasoningRequest> = {}): Split {
  return runSteps(name, pieces, request).at(-1)!;
}

/** `text` in pieces of `units` UTF-16 units. */
export function cut(text: string, units: number): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; at += units) pieces.push(text.slice(at, at + units));
  return pieces;
}

/** `text` cut at random places; empty pieces occur. */
export function anySplit(text: string): fc.Arbitrary<string[]> {
  return fc.array(fc.nat(text.length), { maxLength: 12 }).map((places) => {
    const ends = [...places.sort((a, b) => a - b), text.length];
    return ends.map((end, index) => text.slice(ends[index - 1] ?? 0, end));
  });
}
