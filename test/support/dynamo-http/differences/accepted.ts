import { type Difference, type Expectation, isRecordedError } from '../expectation.ts';
import {
  type Body,
  isChat,
  isCompletions,
  isMessages,
  isResponses,
  nvextOf,
  requestBody,
  tokensOf,
} from '../fields.ts';
import type { RecordedRow } from '../records.ts';
import { succeed } from '../usual-answer.ts';

/** Keys of the published chat schema that do not change an answer. */
const HARMLESS: ReadonlySet<string> = new Set([
  'safety_identifier',
  'verbosity',
  'prompt_cache_retention',
  'prompt_cache_options',
]);
const SESSION_KEYS: ReadonlySet<string> = new Set(['session_control', 'agent_context']);
const SAMPLING_KEYS: ReadonlySet<string> = new Set([
  'ignore_eos',
  'top_k',
  'repetition_penalty',
  'guided_json',
  'guided_regex',
  'guided_grammar',
  'guided_choice',
  'guided_decoding_backend',
]);

/** Returns the message with which 1.6.1 refuses a body, or an empty text if it accepts the body. */
function refusal({ body, status }: RecordedRow): string {
  return status === 400 && isRecordedError(body) ? body.message.replace(/^Validation: /, '') : '';
}

/** Returns that message from Anthropic's envelope. */
function messagesRefusal({ body, status }: RecordedRow): string {
  const { error } = (body ?? {}) as { readonly error?: { readonly message?: unknown } };
  return status === 400 ? String(error?.message ?? '') : '';
}

function unsupportedKeys(row: RecordedRow): readonly string[] {
  const named = /^Unsupported parameter\(s\): (.*)/.exec(refusal(row))?.[1] ?? '';
  return [...named.matchAll(/`([^`]+)`/g)].map(([, key]) => String(key));
}

/** Returns the key of `nvext` that 1.6.1 does not know. */
function unknownNvextKey(row: RecordedRow): string {
  const key = /unknown field `([^`]+)`/.exec(refusal(row))?.[1] ?? '';
  return key in nvextOf(row) ? key : '';
}

const samplingSeen = (expected: Expectation): Body[] => expected.worker.map((seen) => seen.sampling_options as Body);
const PASSED_ON = ['detokenize', 'allowed_token_ids', 'bad_words_token_ids'] as const;

/** Returns a turn as the template of the recorded models writes it. */
function shownTurn({ role, content, tool_calls: calls }: Body): string {
  const called = ((calls ?? []) as readonly { readonly function: Body }[]).map(
    ({ function: { name, arguments: text } }) => `<call>${String(name)} ${String(text)}</call>`,
  );
  return `<|im_start|>${String(role)}\n${String(content ?? '')}${called.join('')}<|im_end|>\n`;
}

/** Does the same as `succeed`, for a prompt that depends on the row. */
function succeedWith(expected: Expectation, row: RecordedRow, turns: string): void {
  succeed(expected, row);
  const prompt = `${turns}<|im_start|>assistant\n`;
  for (const seen of expected.worker) seen.prompt = prompt;
  const { usage } = expected.body as { readonly usage: Body };
  if (isMessages(row)) usage.input_tokens = tokensOf(prompt);
  else
    Object.assign(usage, {
      prompt_tokens: tokensOf(prompt),
      total_tokens: tokensOf(prompt) + Number(usage.completion_tokens),
    });
}

/** Requests that 1.6.1 refuses or partly ignores, and that this product serves. */
export const ACCEPTED: readonly Difference[] = [
  {
    why: 'a number without a fraction is a whole number, however it is written',
    applies: (row) => /invalid type: floating point `\d+\.0`/.test(refusal(row)),
    rewrite: (expected, row) => {
      succeed(expected, row);
      const bound = Number(requestBody(row).max_tokens);
      const { choices, usage } = expected.body as { readonly choices: readonly Body[]; readonly usage: Body };
      for (const choice of choices) Object.assign(choice, { finish_reason: 'length' });
      for (const choice of choices) Object.assign(choice.message as Body, { content: 'Hello world!'.slice(0, bound) });
      const total = Number(usage.prompt_tokens) + bound;
      Object.assign(usage, { completion_tokens: bound, total_tokens: total });
    },
  },
  {
    why: 'half of a surrogate pair is read as U+FFFD, because a 400 would fail every later turn as well',
    applies: (row) => /hex escape/.test(refusal(row)),
    rewrite: (expected, row) => {
      const text = JSON.stringify(requestBody(row)).replaceAll('\\ud800', '\\ufffd');
      succeed(expected, { ...row, asked: JSON.parse(text) as Body } as RecordedRow);
    },
  },
  {
    why: 'top_p 0 means greedy, which every engine supports',
    applies: (row) => /^Top_p must be/.test(refusal(row)) && requestBody(row).top_p === 0,
    rewrite: succeed,
  },
  {
    why: 'several greedy choices are allowed, although they are equal',
    applies: (row) => /^When n > 1, temperature must be/.test(refusal(row)),
    rewrite: succeed,
  },
  {
    why: 'published keys that do not change the answer are accepted',
    applies: (row) => {
      const keys = unsupportedKeys(row);
      return isChat(row) && keys.length > 0 && keys.every((key) => HARMLESS.has(key));
    },
    rewrite: succeed,
  },
  {
    why: 'session and agent keys of nvext are known',
    applies: (row) => SESSION_KEYS.has(unknownNvextKey(row)),
    rewrite: succeed,
  },
  {
    why: 'sampling fields are still read in nvext, where older clients write them',
    applies: (row) => SAMPLING_KEYS.has(unknownNvextKey(row)),
    rewrite: succeed,
  },
  {
    why: 'every dialect leaves hosted tools out, and names them in a header',
    applies: (row) =>
      (isResponses(row) && /Unsupported Responses tools type/.test(refusal(row))) ||
      (isMessages(row) && /server tool type/.test(messagesRefusal(row))),
    rewrite: (expected, row) => {
      const { tools: _hosted, ...body } = requestBody(row);
      succeed(expected, isMessages(row) ? ({ ...row, asked: body } as RecordedRow) : row);
    },
  },
  {
    why: 'a history is rendered as the model wrote it, even if a result belongs to no call',
    applies: (row) => isChat(row) && /valid JSON object string|missing field `tool_call_id`/.test(refusal(row)),
    rewrite: (expected, row) => {
      const turns = (requestBody(row).messages as Body[]).map(shownTurn);
      succeedWith(expected, row, turns.join(''));
    },
  },
  {
    why: 'text documents are read',
    applies: (row) => isMessages(row) && /content block type "document"/.test(messagesRefusal(row)),
    rewrite: (expected, row) => {
      const [message] = requestBody(row).messages as readonly { readonly content: readonly Body[] }[];
      const data = (message?.content[0]?.source as Body | undefined)?.data;
      succeedWith(expected, row, shownTurn({ role: 'user', content: data }));
    },
  },
  {
    why: 'greed_sampling sends temperature 0; 1.6.1 only drops the temperature',
    applies: (row) => nvextOf(row).greed_sampling === true,
    rewrite: (expected) => {
      for (const sampling of samplingSeen(expected)) sampling.temperature = 0;
    },
  },
  {
    why: 'logit_bias is a published field, which we honour; 1.6.1 checks and drops it',
    applies: (row) => Object.keys((requestBody(row).logit_bias ?? {}) as Body).length > 0,
    rewrite: (expected, row) => {
      for (const sampling of samplingSeen(expected)) sampling.logit_bias = requestBody(row).logit_bias;
    },
  },
  {
    why: 'detokenize and lists of token ids are in the sampling options instead of the extra arguments',
    applies: (row) => (isChat(row) || isCompletions(row)) && PASSED_ON.some((key) => key in requestBody(row)),
    rewrite: (expected, row) => {
      const body = requestBody(row);
      const given = Object.fromEntries(PASSED_ON.filter((key) => key in body).map((key) => [key, body[key]]));
      for (const sampling of samplingSeen(expected)) Object.assign(sampling, given);
    },
  },
  {
    why: 'the `_ENV` names of path variables set the paths; 1.6.1 ignores them',
    applies: (row) => row.server === 'env1' && row.request.path.startsWith('/a/') && row.status === 404,
    rewrite: (expected, row) => {
      if (row.twin === undefined) return succeed(expected, row);
      Object.assign(expected, { status: 200, headers: { ...row.twin.headers }, body: structuredClone(row.twin.body) });
      const { data } = expected.body as { data?: Body[] };
      for (const model of data ?? []) Object.assign(model, { context_window: 777, max_output_tokens: 55 });
    },
  },
];
