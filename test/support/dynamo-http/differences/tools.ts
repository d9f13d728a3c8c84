import { choicesOf, chunksOf, type Difference, type Expectation } from '../expectation.ts';
import { type Body, isChat, isMessages, isResponses, requestBody, scriptText } from '../fields.ts';
import type { RecordedRow } from '../records.ts';
import { cutCall } from '../script-text.ts';

/** Collects the messages or deltas of every choice. */
function saidOf(expected: Expectation): Body[] {
  return choicesOf(expected).map(({ message, delta }) => (message ?? delta ?? {}) as Body);
}

/** Collects every `usage` object of the answer. */
function usagesOf(expected: Expectation): Body[] {
  const holders = [expected.body as Body | undefined, ...(chunksOf(expected) as Body[])];
  return holders.map((holder) => holder?.usage as Body | undefined).filter((usage) => usage != null);
}

function reasoningTokens({ completion_tokens_details: details }: Body): unknown {
  return (details as Body | undefined)?.reasoning_tokens;
}

const isWhole = (usage: Body): boolean =>
  typeof usage.completion_tokens === 'number' && reasoningTokens(usage) === usage.completion_tokens;

/** Tokens of the whole script: one for each byte, and one for the end. */
const wholeTokens = (row: RecordedRow): number => Buffer.byteLength(scriptText(row) ?? '') + 1;

/** Whether the request turns thinking off. */
function thinksNot(row: RecordedRow): boolean {
  const { chat_template_args: args, chat_template_kwargs: more, thinking, reasoning_effort: effort } = requestBody(row);
  const told = { ...(args as Body), ...(more as Body) };
  const isOff = (value: unknown): boolean => value === false || (value as Body | null)?.type === 'disabled';
  return [told.thinking, told.enable_thinking, thinking].some(isOff) || effort === 'none';
}

const usesTools = (row: RecordedRow): boolean => Array.isArray(requestBody(row).tools);
const isDeepSeek = (row: RecordedRow): boolean =>
  (/^deepseek/.test(row.served?.reasoning_parser ?? '') && !thinksNot(row)) ||
  (usesTools(row) && /^deepseek/.test(row.served?.tool_call_parser ?? ''));

/** Whether a constraint forces calls, so that the text becomes calls for every model. */
function forcesCall(row: RecordedRow): boolean {
  const { tool_choice: choice } = requestBody(row);
  return usesTools(row) && (choice === 'required' || (typeof choice === 'object' && choice !== null));
}

/** Returns the text of harmony's analysis channel, or undefined if no parser reads it. */
function analysisOf(row: RecordedRow): string | undefined {
  if (row.served?.reasoning_parser !== 'gpt_oss') return undefined;
  return /<\|channel\|>analysis<\|message\|>([^<]*)/.exec(scriptText(row) ?? '')?.[1];
}

/** Differences of answers of models with a parser from the record. They apply after the differences of all chats. */
export const TOOLS: readonly Difference[] = [
  {
    why: 'a call that the end of the text cuts has its arguments as produced; 1.6.1 closes the JSON',
    applies: (row) => isChat(row) && cutCall(row) !== undefined,
    rewrite: (expected, row) => {
      for (const { tool_calls: calls } of saidOf(expected)) {
        for (const { function: called } of (calls ?? []) as Body[]) (called as Body).arguments = cutCall(row);
      }
    },
  },
  {
    why: 'the frontend also asks the worker for special tokens for DeepSeek, whose markers are special tokens that 1.6.1 would lose',
    applies: (row) => isDeepSeek(row) && (isChat(row) || isMessages(row) || isResponses(row)),
    rewrite: (expected, row) => {
      for (const seen of expected.worker) {
        seen.output_options = { skip_special_tokens: requestBody(row).skip_special_tokens ?? false };
      }
    },
  },
  {
    why: 'the text of the analysis channel of harmony is reasoning; the recorded server lacked its vocabulary and dropped it',
    applies: (row, expected) =>
      isChat(row) &&
      analysisOf(row) !== undefined &&
      saidOf(expected).every((said) => said.reasoning_content === undefined),
    rewrite: (expected, row) => {
      const steps = row.script?.steps ?? [];
      const first = saidOf(expected).find(({ content }) => typeof content === 'string' && content !== '');
      if (first !== undefined) first.reasoning_content = analysisOf(row);
      const until = steps.findIndex((_, at) =>
        /<\|end\|>/.test(
          steps
            .slice(0, at + 1)
            .map(({ t }) => t ?? '')
            .join(''),
        ),
      );
      const thought = steps
        .slice(0, until + 1)
        .map(({ t }) => t ?? '')
        .join('');
      for (const usage of usagesOf(expected)) countReasoning(usage, Buffer.byteLength(thought));
    },
  },
  {
    why: 'the end token has an output of its own, without reasoning',
    applies: (row, expected) =>
      isChat(row) &&
      row.script?.finish === 'eos' &&
      usagesOf(expected).some((usage) => isWhole(usage) && usage.completion_tokens === wholeTokens(row)),
    rewrite: (expected) => {
      for (const usage of usagesOf(expected)) countReasoning(usage, Number(usage.completion_tokens) - 1);
    },
  },
  {
    why: 'reasoning precedes the text that follows it; 1.6.1 sends it a chunk later, behind the first call',
    applies: (row, expected) => isChat(row) && dispatchesOf(expected).length > 1,
    rewrite: (expected) => {
      const frames = expected.frames ?? [];
      const at = frames.findIndex((frame) => (frame as { event?: string }).event === 'reasoning_dispatch');
      if (at >= 0) frames.unshift(...frames.splice(at, 1));
    },
  },
  {
    why: 'our own parsers decide the borders of parsed chunks: id and name first, arguments as produced',
    applies: (row, expected) =>
      isChat(row) &&
      expected.frames !== undefined &&
      ((row.served?.tool_call_parser ?? row.served?.reasoning_parser) !== undefined || forcesCall(row)),
    rewrite: (expected) => {
      expected.isJoined = true;
    },
  },
];

function dispatchesOf(expected: Expectation): unknown[] {
  return (expected.frames ?? []).filter((frame) => /_dispatch$/.test((frame as { event?: string }).event ?? ''));
}

function countReasoning(usage: Body, tokens: number): void {
  usage.completion_tokens_details = { reasoning_tokens: tokens };
}
