import { fromWire, type ServeError, workerError } from '../../errors/index.ts';
import {
  type EngineOutput,
  type FinishReason,
  type NamedLogprob,
  type TokenLogprob,
  type TopLogprob,
  textFinishOf,
} from '../../protocol/index.ts';
import type { Tokenizer } from '../../tokens/index.ts';

const GIVEN_UP: ReadonlySet<string> = new Set(['cancelled', 'abort']);

/** Whether a finish reason means that the worker gave the choice up. The choice then ends with the text so far. */
export function isGivenUp(reason: EngineOutput['finish_reason']): boolean {
  return typeof reason === 'string' && GIVEN_UP.has(reason);
}

/** Returns the client's form of a reason that is not a failure (`failureInFinish`); `stop` for any unknown reason. */
export function toldReason(reason: EngineOutput['finish_reason']): FinishReason {
  return (typeof reason === 'string' ? textFinishOf(reason) : undefined) ?? 'stop';
}

/**
 * Returns the failure that a finish reason reports: one with an error message, or one whose name is unknown here, such
 * as `error`. Returns undefined for other reasons.
 */
export function failureInFinish(reason: EngineOutput['finish_reason']): ServeError | undefined {
  if (reason === undefined || reason === null) return undefined;
  if (typeof reason === 'object') return fromWire({ kind: 'Internal', message: reason.error });
  if (isGivenUp(reason) || textFinishOf(reason) !== undefined) return undefined;
  return workerError('Internal', `the worker ended a choice with the finish reason ${JSON.stringify(reason)}`);
}

export interface LogprobStyle {
  readonly tokenizer: Tokenizer;
  /** Whether tokens appear as `token_id:<id>`. */
  readonly asIds: boolean;
  readonly skipSpecialTokens: boolean;
  /** Largest number of alternatives to show, without the sampled token; 0 = none. */
  readonly alternatives: number;
}

const UTF8 = new TextEncoder();

/** Returns the log probabilities of one engine output with the tokens' texts; undefined if the worker sent none. */
export function namedLogprobs(output: EngineOutput, style: LogprobStyle): TokenLogprob[] | undefined {
  const { token_ids: ids, log_probs: logprobs, top_logprobs: tops } = output;
  if (ids === undefined || logprobs === undefined || logprobs === null) return undefined;
  return ids.flatMap((id, at) => {
    const logprob = logprobs[at];
    return logprob === undefined ? [] : [oneToken(id, logprob, tops?.[at] ?? [], style)];
  });
}

/**
 * Returns the sampled token with its alternatives. It is itself one of them, and is appended if the worker left it out.
 */
function oneToken(id: number, logprob: number, alternatives: readonly TopLogprob[], style: LogprobStyle): TokenLogprob {
  const own =
    style.skipSpecialTokens && style.tokenizer.isSpecial(id) && !style.asIds
      ? unseen(id, logprob)
      : named(id, logprob, style);
  if (style.alternatives === 0) return { ...own, top: [] };
  const given = alternatives.slice(0, style.alternatives + 1);
  const hasOwn = given.some((alternative) => alternative.token_id === id);
  const shown = hasOwn ? given : given.slice(0, style.alternatives);
  const top = shown.map((alternative) => named(alternative.token_id, alternative.logprob, style));
  return { ...own, top: hasOwn || top.length === 0 ? top : [...top, own] };
}

/**
 * Returns a skipped special token, whose text is empty in the answer. As an alternative of another token it has text.
 */
function unseen(tokenId: number, logprob: number): NamedLogprob {
  return { tokenId, token: '', bytes: null, logprob };
}

function named(tokenId: number, logprob: number, { tokenizer, asIds }: LogprobStyle): NamedLogprob {
  if (asIds) {
    const token = `token_id:${tokenId}`;
    return { tokenId, token, bytes: [...UTF8.encode(token)], logprob };
  }
  const token = tokenizer.decode([tokenId], { skipSpecialTokens: false });
  const bytes = tokenizer.tokenBytes(tokenId);
  return { tokenId, token, bytes: bytes.length === 0 ? null : [...bytes], logprob };
}
