import type { NamedLogprob, TokenLogprob } from '../../../protocol/index.ts';
import { isRecord, type UnknownRecord } from '../../../records/index.ts';

/** Id of a token in the bodies of workers, which name tokens only by their text. */
const NO_TOKEN_ID = -1;

const NONE: readonly TokenLogprob[] = Object.freeze([]);

/** Returns the tokens of a chat choice's `logprobs`. Entries without a text or a log probability are left out. */
export function readLogprobs(logprobs: unknown): readonly TokenLogprob[] {
  if (!isRecord(logprobs) || !Array.isArray(logprobs.content)) return NONE;
  return logprobs.content.filter(isRecord).flatMap((entry) => {
    const { top_logprobs: top } = entry;
    const alternatives = Array.isArray(top) ? top.filter(isRecord).flatMap(readNamed) : [];
    return readNamed(entry).map((token) => ({ ...token, top: alternatives }));
  });
}

/** Returns a list of one token; empty if `token` is malformed. */
function readNamed({ token, logprob, bytes }: UnknownRecord): readonly NamedLogprob[] {
  if (typeof token !== 'string' || typeof logprob !== 'number') return [];
  const isBytes = Array.isArray(bytes) && bytes.every((byte) => typeof byte === 'number');
  return [{ tokenId: NO_TOKEN_ID, token, logprob, bytes: isBytes ? bytes : [...Buffer.from(token)] }];
}
