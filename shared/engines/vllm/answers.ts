import { workerError } from '../../errors/index.ts';
import type { CompletionUsage, TopLogprob } from '../../protocol/generation/index.ts';
import { asRecord } from '../../records/index.ts';
import type { TokenAnswer, TokenDelta } from '../server/token-reader.ts';

type JsonRecord = Readonly<Record<string, unknown>>;

/** Reads an event or a whole answer of either way of vLLM: they differ in their log probabilities alone. */
export function readVllmAnswer(body: JsonRecord): TokenAnswer {
  const choices: readonly unknown[] = Array.isArray(body.choices) ? body.choices : [];
  return {
    deltas: choices.map((choice) => readChoice(asRecord(choice) ?? {})),
    usage: readUsage(body.usage),
    kvTransferParams: body.kv_transfer_params ?? undefined,
    promptLogprobs: body.prompt_logprobs ?? asRecord(choices[0])?.prompt_logprobs ?? undefined,
  };
}

function readChoice(choice: JsonRecord): TokenDelta {
  const { index, token_ids: ids, finish_reason: finish, stop_reason: stopReason } = choice;
  if (ids !== null && ids !== undefined && !Array.isArray(ids)) {
    throw workerError('BackendProtocol', 'the engine answered without token ids');
  }
  return {
    index: typeof index === 'number' ? index : 0,
    tokenIds: (ids ?? []) as readonly number[], // checked by the reader
    finish: typeof finish === 'string' ? finish : undefined,
    stopReason: typeof stopReason === 'string' || typeof stopReason === 'number' ? stopReason : undefined,
    ...readLogprobs(asRecord(choice.logprobs)),
  };
}

function readLogprobs(logprobs: JsonRecord | undefined): Pick<TokenDelta, 'logprobs' | 'topLogprobs'> {
  if (logprobs === undefined) return { logprobs: undefined, topLogprobs: undefined };
  return Array.isArray(logprobs.content) ? ofGenerate(logprobs.content) : ofCompletions(logprobs);
}

/** `content`: one entry a token, with its id, its log probability and the alternatives. */
function ofGenerate(content: readonly unknown[]): Pick<TokenDelta, 'logprobs' | 'topLogprobs'> {
  const entries = content.map((entry) => asRecord(entry) ?? {});
  return {
    logprobs: entries.map(({ logprob }) => numberOf(logprob)),
    topLogprobs: entries.map(({ top_logprobs: top }) =>
      (Array.isArray(top) ? top : []).map((each, at) => {
        const { token_id, token, logprob, rank } = asRecord(each) ?? {};
        return alternative(typeof token_id === 'number' ? token_id : idOf(token), logprob, rank, at);
      }),
    ),
  };
}

/** `token_logprobs` and `top_logprobs`, whose tokens read `token_id:42`. */
function ofCompletions(logprobs: JsonRecord): Pick<TokenDelta, 'logprobs' | 'topLogprobs'> {
  const { token_logprobs: values, top_logprobs: tops } = logprobs;
  if (!Array.isArray(values)) return { logprobs: undefined, topLogprobs: undefined };
  const rows: readonly unknown[] = Array.isArray(tops) ? tops : [];
  return {
    logprobs: values.map(numberOf),
    topLogprobs: rows.map((row) =>
      Object.entries(asRecord(row) ?? {}).map(([token, logprob], at) =>
        alternative(idOf(token), logprob, undefined, at),
      ),
    ),
  };
}

function alternative(tokenId: number, logprob: unknown, rank: unknown, at: number): TopLogprob {
  return { token_id: tokenId, logprob: numberOf(logprob), rank: typeof rank === 'number' ? rank : at + 1 };
}

function idOf(token: unknown): number {
  const [, digits] = /^token_id:(\d+)$/.exec(String(token)) ?? [];
  if (digits === undefined) throw workerError('BackendProtocol', 'the engine names tokens by their text');
  return Number(digits);
}

/** Minus infinity is no JSON number; engines use -9999 or null for it. */
function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : -9999;
}

function readUsage(value: unknown): CompletionUsage | undefined {
  const usage = asRecord(value);
  if (typeof usage?.prompt_tokens !== 'number') return undefined;
  const { prompt_tokens, completion_tokens, total_tokens } = usage;
  const cached = asRecord(usage.prompt_tokens_details)?.cached_tokens;
  return {
    prompt_tokens,
    completion_tokens: typeof completion_tokens === 'number' ? completion_tokens : 0,
    ...(typeof total_tokens === 'number' ? { total_tokens } : {}),
    ...(typeof cached === 'number' ? { prompt_tokens_details: { cached_tokens: cached } } : {}),
  };
}
