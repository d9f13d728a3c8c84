import { chunksOf, type Difference, type Expectation } from '../expectation.ts';
import { type Body, type Chunk, isBatch, isChat, isCompletions, requestBody } from '../fields.ts';
import { hasIdleTime, isComment } from '../idle-comments.ts';
import { byPrompt } from '../join-chunks.ts';
import { Matcher } from '../match.ts';
import type { Frame, RecordedRow } from '../records.ts';
import { stopText } from '../stop-text.ts';

function includesUsage(row: RecordedRow): boolean {
  const options = requestBody(row).stream_options as { include_usage?: boolean } | undefined;
  return row.server === 'env1' || options?.include_usage === true;
}

/** Differences of chat and completions answers from the record, for every model. */
export const CHATS: readonly Difference[] = [
  {
    why: 'chat chunks say `usage: null` when usage comes at the end, as published',
    applies: (row, expected) => isChat(row) && expected.frames !== undefined && includesUsage(row),
    rewrite: (expected) => {
      for (const chunk of chunksOf(expected)) if (chunk.usage === undefined) chunk.usage = null;
    },
  },
  {
    why: 'choices of completions without log probabilities say `logprobs: null`, and `system_fingerprint` is absent, not null',
    applies: (row, expected) => isCompletions(row) && expected.status === 200,
    rewrite: (expected) => {
      for (const body of [expected.body as Body | undefined, ...chunksOf(expected)]) {
        if (body === undefined || body === null) continue;
        if (body.system_fingerprint === null) delete body.system_fingerprint;
        for (const choice of (body.choices ?? []) as Body[]) choice.logprobs ??= null;
      }
    },
  },
  {
    why: 'stop strings are searched token by token, so an output that passes min_tokens is searched from there',
    applies: (row, expected) =>
      stopText(row) !== undefined && (isChat(row) || isCompletions(row)) && expected.status === 200,
    rewrite: (expected, row) => stopInside(expected, row),
  },
  {
    why: 'each choice begins with a chunk that contains only the role',
    applies: (row, expected) => isChat(row) && chunksOf(expected).length > 0,
    rewrite: (expected) => {
      expected.frames = (expected.frames ?? []).flatMap((frame) => splitRole(frame));
    },
  },
  {
    why: 'log probabilities contain the true bytes of a token that is part of a character; 1.6.1 shows those of U+FFFD',
    applies: (row) => isChat(row) && requestBody(row).logprobs === true,
    rewrite: (expected) => {
      expected.body = withTrueBytes(expected.body);
      if (expected.frames !== undefined) expected.frames = expected.frames.map(withTrueBytes);
    },
  },
  {
    why: 'the order in which the prompts of a batch answer depends on timing',
    applies: (row, expected) => isBatch(row) && expected.frames !== undefined,
    rewrite: (expected) => {
      expected.frames = byPrompt(expected.frames ?? []);
    },
  },
  {
    why: 'the number of comments in a silence depends on timing',
    applies: (row) => hasIdleTime(row),
    rewrite: (expected) => {
      expected.frames = (expected.frames ?? []).filter((frame) => !isComment(frame as Frame));
    },
  },
];

/** Sends the role ahead in a chunk of its own, without the fields that come with tokens. */
function splitRole(frame: unknown): unknown[] {
  const { data } = frame as { data?: Chunk };
  const choice = data?.choices?.[0] as { delta?: Body; finish_reason?: unknown; logprobs?: unknown } | undefined;
  if (data === undefined || choice?.delta?.role === undefined) return [frame];
  const { role, ...rest } = choice.delta;
  const first = { ...choice, delta: { role, content: '' }, finish_reason: null, logprobs: null };
  const isRoleOnly = Object.keys(rest).length === 0 && choice.finish_reason === null && choice.logprobs === null;
  const { nvext, ...common } = data as Chunk & { nvext?: Body };
  const workerId = nvext?.worker_id;
  const roleChunk: Body = {
    ...common,
    choices: [first],
    ...(workerId === undefined ? {} : { nvext: { worker_id: workerId } }),
  };
  if (data.usage != null) roleChunk.usage = withoutAnswer(data.usage as Body);
  return isRoleOnly
    ? [{ data: roleChunk }]
    : [{ data: roleChunk }, { data: { ...data, choices: [{ ...choice, delta: rest }] } }];
}

/**
 * Matches the usage of an answer that is still empty: no token yet, or those of the first words. The server counts
 * tokens before it sends them.
 */
function withoutAnswer({ prompt_tokens: prompt, completion_tokens: most }: Body): Matcher {
  return new Matcher(`usage of ${prompt} and at most ${most} tokens`, (value) => {
    const { prompt_tokens, completion_tokens, total_tokens } = (value ?? {}) as Record<string, number>;
    const isInside = Number(completion_tokens) >= 0 && Number(completion_tokens) <= Number(most);
    return prompt_tokens === prompt && isInside && total_tokens === Number(prompt) + Number(completion_tokens);
  });
}

function withTrueBytes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withTrueBytes);
  if (typeof value !== 'object' || value === null || value instanceof Matcher) return value;
  const record = Object.fromEntries(Object.entries(value).map(([key, nested]) => [key, withTrueBytes(nested)]));
  if (record.token === '\ufffd') record.bytes = ONE_BYTE;
  return record;
}

const ONE_BYTE = new Matcher(
  'one byte of a character',
  (bytes) => Array.isArray(bytes) && bytes.length === 1 && bytes[0] >= 128 && bytes[0] < 256,
);

/** Ends the answer at the position from `stopText`. */
function stopInside(expected: Expectation, row: RecordedRow): void {
  const stopped = stopText(row)!; // the difference applies
  const { choices, usage } = (expected.body ?? {}) as { choices?: Body[]; usage?: Body };
  const own = usage ?? (chunksOf(expected).findLast((chunk) => chunk.usage != null)?.usage as Body | undefined);
  if (own !== undefined) {
    own.completion_tokens = stopped.tokens;
    own.total_tokens = Number(own.prompt_tokens) + stopped.tokens;
  }
  for (const choice of choices ?? []) {
    if (isChat(row)) (choice.message as Body).content = stopped.pieces.join('');
    else choice.text = stopped.pieces.join('');
    choice.finish_reason = 'stop';
  }
  if (expected.frames !== undefined) expected.frames = [...streamOf(expected, row, stopped.pieces)];
}

/**
 * Yields the chunks of the text as `pieces`, the last of which is the finish. Frames that are not chunks of text keep
 * their place behind them.
 */
function* streamOf(expected: Expectation, row: RecordedRow, pieces: readonly string[]): Iterable<unknown> {
  const frames = expected.frames as { data?: Chunk }[];
  const first = frames[0]?.data;
  for (const [at, text] of pieces.entries()) {
    const isLast = at === pieces.length - 1;
    const role = at === 0 ? { role: 'assistant' } : {};
    const said = isChat(row)
      ? { delta: { ...role, ...(text === '' ? {} : { content: text }) }, logprobs: null }
      : { text };
    const reason = isChat(row) || isLast ? { finish_reason: isLast ? 'stop' : null } : {};
    yield { data: { ...first, choices: [{ index: 0, ...said, ...reason }] } };
  }
  yield* frames.filter(({ data }) => (data?.choices?.length ?? 0) === 0);
}
