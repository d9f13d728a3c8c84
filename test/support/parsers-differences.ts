import type { ExpectedCall, ParserExpectation, ParserResult, ParserRow } from './parsers-conformance.ts';

/** A text that this product parses differently from the record. Nothing else may differ. */
interface ParserDifference {
  readonly what: string;
  applies(row: ParserRow, expected: ParserExpectation, actual: ParserResult): boolean;
  rewrite(expected: ParserExpectation, actual: ParserResult): ParserExpectation;
}

/** Differences in the order of application. */
export const PARSER_DIFFERENCES: readonly ParserDifference[] = [
  {
    what: 'a committed call in which the text ends is shown with its arguments so far, neither dropped nor repaired',
    applies: (_row, expected, actual) => {
      const cut = actual.calls.at(-1);
      const missing = actual.calls.length - expected.calls.length;
      if (cut === undefined || isJson(cut.arguments) || missing < 0 || missing > 1) return false;
      return missing === 1 || expected.calls.at(-1)?.name === cut.name;
    },
    rewrite: (expected, actual) => {
      const whole = expected.calls.slice(0, actual.calls.length - 1);
      const cut = actual.calls.at(-1)!; // `applies` has checked it
      return withCalls(expected, [...whole, { name: cut.name, arguments_raw: cut.arguments }], actual);
    },
  },
  {
    what: 'text that is not a call is shown, not dropped',
    applies: (row, expected, actual) =>
      expected.calls.length === 0 && actual.calls.length === 0 && actual.content === row.text && row.kind === 'tool',
    rewrite: (expected, actual) => ({ ...expected, content: actual.content }),
  },
  {
    what: 'a call whose arguments are not in the text is not invented',
    applies: (row, expected, actual) =>
      actual.calls.length < expected.calls.length && expected.calls.slice(actual.calls.length).some(isMadeUp(row.text)),
    rewrite: (expected, actual) => withCalls(expected, expected.calls.slice(0, actual.calls.length), actual),
  },
];

/** Applies the table to an expectation. Returns the result, and the differences that applied. */
export function applyParserDifferences(
  row: ParserRow,
  recorded: ParserExpectation,
  actual: ParserResult,
): { readonly expected: ParserExpectation; readonly applied: readonly string[] } {
  let expected = recorded;
  const applied: string[] = [];
  for (const difference of PARSER_DIFFERENCES) {
    if (!difference.applies(row, expected, actual)) continue;
    const rewritten = difference.rewrite(expected, actual);
    if (JSON.stringify(rewritten) !== JSON.stringify(expected)) applied.push(difference.what);
    expected = rewritten;
  }
  return { expected, applied };
}

/**
 * Replaces the calls and adapts the finish reason: a plain stop becomes `tool_calls` with a call, and `stop` without
 * one.
 */
function withCalls(
  expected: ParserExpectation,
  calls: readonly ExpectedCall[],
  actual: ParserResult,
): ParserExpectation {
  const reason = expected.finish_reason;
  if (reason === undefined || reason === 'length') return { ...expected, calls };
  return { ...expected, calls, finish_reason: actual.calls.length > 0 ? 'tool_calls' : 'stop' };
}

function isMadeUp(text: string): (call: ExpectedCall) => boolean {
  return (call) => !text.includes(call.raw ?? JSON.stringify(call.arguments));
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false; // the text ends within the arguments
  }
}
