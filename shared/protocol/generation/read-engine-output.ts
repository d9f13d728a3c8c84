import { isRecord } from '../../records/index.ts';
import type { EngineOutput } from './engine-output.ts';

type Check = (value: unknown) => boolean;

const U32_MAX = 0xffff_ffff;
/** Of one output, UTF-16 units: what is looked through at once for stops, calls and reasoning. Workers cut longer ones. */
const TEXT_LENGTH_MAX = 32_768;
/** Of one output: what is detokenized at once. */
const TOKENS_MAX = 16_384;

const isText: Check = (value) => typeof value === 'string';
const isNumber: Check = (value) => typeof value === 'number' && !Number.isNaN(value); // -Infinity is a log probability
const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isTokenId: Check = (value) => isCount(value) && (value as number) <= U32_MAX;
const isByte: Check = (value) => isCount(value) && (value as number) <= 0xff;
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const listOf =
  (check: Check, lengthMax = Number.POSITIVE_INFINITY): Check =>
  (value) =>
    Array.isArray(value) && value.length <= lengthMax && value.every(check);

const isBytes = listOf(isByte);

const isTopLogprob: Check = (value) =>
  isRecord(value) &&
  isCount(value.rank) &&
  isTokenId(value.token_id) &&
  isNumber(value.logprob) &&
  (value.token == null || isText(value.token)) &&
  (value.bytes == null || isBytes(value.bytes));

const isUsage: Check = (value) =>
  isRecord(value) &&
  isCount(value.prompt_tokens) &&
  isCount(value.completion_tokens) &&
  (value.total_tokens == null || isCount(value.total_tokens)) &&
  (value.prompt_tokens_details == null || isDetails(value.prompt_tokens_details));

const isDetails: Check = (value) => isRecord(value) && Object.values(value).every(orNull(isCount));

/** The fields that this process reads, each with what it may hold when it is there and not null. */
const FIELDS: readonly (readonly [name: keyof EngineOutput, check: Check, allowed: string])[] = [
  ['token_ids', listOf(isTokenId, TOKENS_MAX), `a list of at most ${TOKENS_MAX} token ids`],
  [
    'text',
    (value) => isText(value) && (value as string).length <= TEXT_LENGTH_MAX,
    `at most ${TEXT_LENGTH_MAX} letters`,
  ],
  ['tokens', listOf(orNull(isText)), 'a list of texts'],
  ['content_parts', Array.isArray, 'a list'],
  ['cum_log_probs', isNumber, 'a number'],
  ['log_probs', listOf(isNumber), 'a list of numbers'],
  ['top_logprobs', listOf(listOf(isTopLogprob)), 'a list of lists of alternatives'],
  ['finish_reason', (value) => isText(value) || (isRecord(value) && isText(value.error)), 'a reason'],
  ['stop_reason', (value) => isText(value) || isTokenId(value), 'a text or a token id'],
  ['index', isTokenId, 'the index of a choice'],
  ['completion_usage', isUsage, 'counts of tokens'],
  ['engine_data', isRecord, 'an object'],
];

/**
 * One output as it came off a wire: what a worker says is looked at before anything counts with it, since a worker may be
 * another program, of another release, or no friend. Unknown fields are kept. Costs a look at each value of its lists.
 *
 * @returns the output, or what is wrong with it in words for operators' logs
 */
export function readEngineOutput(data: unknown): EngineOutput | string {
  if (!isRecord(data)) return 'an output that is no object';
  for (const [name, check, allowed] of FIELDS) {
    const value = data[name];
    if (value === undefined || value === null || check(value)) continue;
    return `an output whose ${name} is not ${allowed}`;
  }
  // `token_ids` alone has no null in its type, and engines send one.
  return data.token_ids === null ? { ...data, token_ids: [] } : data;
}

/** What has an entry for each token of an output. */
const BY_TOKEN = ['token_ids', 'tokens', 'log_probs', 'top_logprobs'] as const;

/**
 * An output as those that carry it: one of too much text as several, each with its share of the tokens, where they are told;
 * the last has everything else. Characters stay whole.
 */
export function cutLongText(output: EngineOutput): readonly EngineOutput[] {
  const { text, index } = output;
  if (text == null || text.length <= TEXT_LENGTH_MAX) return [output];
  const pieces: EngineOutput[] = [];
  let from = 0;
  while (text.length - from > TEXT_LENGTH_MAX) {
    const end = from + TEXT_LENGTH_MAX;
    const to = isHighSurrogate(text.charCodeAt(end - 1)) ? end - 1 : end;
    const place = index === undefined ? {} : { index };
    pieces.push({
      ...place,
      text: text.slice(from, to),
      ...tokensBetween(output, from / text.length, to / text.length),
    });
    from = to;
  }
  return [...pieces, { ...output, text: text.slice(from), ...tokensBetween(output, from / text.length, 1) }];
}

/** The entries of `output`'s tokens from one share of them up to another. */
function tokensBetween(output: EngineOutput, from: number, to: number): EngineOutput {
  const parts = BY_TOKEN.flatMap((name) => {
    const list = output[name];
    return list == null ? [] : [[name, list.slice(Math.floor(from * list.length), Math.floor(to * list.length))]];
  });
  return Object.fromEntries(parts);
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
