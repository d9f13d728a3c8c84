import { type Body, byId, chunksOf, type Difference, type Expectation, isChat } from './expectation.ts';
import { foldChat } from './fold-chat.ts';
import { oneOf } from './match.ts';
import type { RecordedRow } from './records.ts';

/** Chat streams of models with a parser: where their chunks are cut is not compared, what they fold to is. */
export const foldsChunks = (row: RecordedRow): boolean =>
  (/^(tool|reason)\./.test(row.id) || row.id === 'e2.dispatch') && row.frames !== undefined;

/** Every `function` of a call in the answer, streamed or not. */
function calledFunctions(expected: Expectation): Body[] {
  const choices = (expected.body as { choices?: Body[] } | undefined)?.choices ?? [];
  const said = [...choices.map((choice) => choice.message), ...deltasOf(expected)] as (Body | undefined)[];
  return said.flatMap((part) => (part?.tool_calls ?? []) as Body[]).map((call) => call.function as Body);
}

function deltasOf(expected: Expectation): Body[] {
  return chunksOf(expected).flatMap((chunk) => (chunk.choices ?? []).map((choice) => choice.delta as Body));
}

/** Every `usage` object of the answer. */
function usagesOf(expected: Expectation): Body[] {
  const holders = [expected.body as Body | undefined, ...(chunksOf(expected) as Body[])];
  return holders.map((holder) => holder?.usage as Body | undefined).filter((usage) => usage != null);
}

/** Where answers of models with a parser differ from the record. Applied after the differences of all chats. */
export const TOOLS_DIFFERENCES: readonly Difference[] = [
  {
    authority: 'rulings 10 and 23',
    what: 'a call that the text cuts has its arguments as they were produced; 1.6.1 closes the JSON',
    applies: byId(/^tool\.hermes\.length\./),
    rewrite: (expected) => {
      for (const called of calledFunctions(expected)) called.arguments = '{"x": "yy';
    },
  },
  {
    authority: 'parsers.md 2 (the markers of DeepSeek are special tokens as well), http-api.md 14.1',
    what: 'the worker is asked for special tokens for DeepSeek too, whose markers 1.6.1 would lose',
    applies: (row) => /^(tool\.deepseek|reason\.r1)\.[us]$/.test(row.id),
    rewrite: (expected) => {
      for (const seen of expected.worker ?? []) seen.output_options = { skip_special_tokens: false };
    },
  },
  {
    authority: 'parsers.md 2.4 (analysis is reasoning, final is content), ruling 47',
    what: "the recorded server lacked harmony's vocabulary and dropped the analysis (parsers.md 1.9)",
    applies: byId(/^tool\.harmony\.final\./),
    rewrite: (expected) => {
      const { choices } = (expected.body ?? { choices: [] }) as { choices: Body[] };
      for (const { message } of choices) (message as Body).reasoning_content = 'Think.';
      for (const delta of deltasOf(expected)) if (delta.content === 'Answer.') delta.reasoning_content = 'Think.';
      countReasoning(expected, 105); // the whole output; the end token comes in one of its own
    },
  },
  {
    authority: 'http-api.md 14.4 (outputs that hold reasoning count as reasoning), ruling 47',
    what: 'the end token has an output of its own, which holds none, as in the recorded rows without tools',
    applies: byId(/^(tool\.kimi|e2\.dispatch)\./),
    rewrite: (expected) => {
      for (const usage of usagesOf(expected)) countReasoning(expected, Number(usage.completion_tokens) - 1);
    },
  },
  {
    authority: 'http-api.md 3.3 (once the reasoning block ends, just before its data chunk)',
    what: 'reasoning is told before what follows it; 1.6.1 tells it a chunk later, behind the first call',
    applies: byId(/^e2\.dispatch$/),
    rewrite: (expected) => {
      const frames = expected.frames ?? [];
      const at = frames.findIndex((frame) => (frame as { event?: string }).event === 'reasoning_dispatch');
      frames.unshift(...frames.splice(at, 1));
    },
  },
  {
    authority: 'ruling 10 (id and name first, arguments as they are produced; any chunking folds to the same)',
    what: 'chunks are compared by what they fold to and by the order in which they tell it',
    applies: (row, expected) => isChat(row) && foldsChunks(row) && expected.frames !== undefined,
    rewrite: (expected) => {
      const folded = foldChat(expected.frames ?? []);
      for (const choice of folded.choices) {
        // Ruling 5: null when the first delta is a call, which is not known yet when an output had nothing to show.
        if (/^role call/.test(choice.order)) choice.roleContent = oneOf('', null);
      }
      expected.frames = [folded];
    },
  },
];

function countReasoning(expected: Expectation, tokens: number): void {
  for (const usage of usagesOf(expected)) usage.completion_tokens_details = { reasoning_tokens: tokens };
}
