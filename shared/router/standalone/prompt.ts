import { type BlockHashes, hashBlocks } from '../../tokens/index.ts';
import type { BodyFields } from './body-fields.ts';
import { ServiceError } from './service-error.ts';

/** A prompt as far as routing needs it. */
export interface Prompt {
  readonly hashes: BlockHashes;
  readonly tokens: number;
}

/**
 * The prompt of a body: its tokens, or the hashes of its blocks with its length.
 * @throws ServiceError 400, 422
 */
export function promptOf(body: BodyFields, blockSizeTokens: number): Prompt {
  if (body.has('token_ids')) {
    const tokens = body.tokens('token_ids');
    const [loraName, cacheSalt] = [body.optionalText('lora_name'), body.optionalText('cache_salt')];
    return { hashes: hashBlocks(tokens, { blockSizeTokens, loraName, cacheSalt }), tokens: tokens.length };
  }
  const local = body.hashes('block_hashes');
  const sequence = body.hashes('sequence_hashes');
  const tokens = body.count('isl_tokens');
  if (local.length !== sequence.length)
    throw new ServiceError(400, 'block_hashes and sequence_hashes differ in length');
  return { hashes: { local, sequence }, tokens };
}
