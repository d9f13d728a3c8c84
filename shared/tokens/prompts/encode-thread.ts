import { readFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { createBpeEncode } from '../bpe/tokenizer.ts';
import { createGeneralEncode } from '../general/library.ts';
import { PatternBudgetError, TextTooLongError } from '../patterns/steps.ts';
import type { EncodeText, TokenizerRecipe } from '../types.ts';
import type { Refusal, ThreadAnswer, ThreadRequest, ThreadStart } from './encode-queue.ts';
import { SegmentEncoder } from './segments.ts';

/** Entry of a thread that encodes long prompts, one request at a time. */

const { stop } = workerData as ThreadStart;
const encodes = new Map<number, EncodeText>();

parentPort?.on('message', (request: ThreadRequest) => {
  answer(request).then(
    (reply) => parentPort?.postMessage(reply, 'ids' in reply ? [reply.ids.buffer] : []),
    (error: unknown) => {
      parentPort?.postMessage({ error: String(error), refusal: refusalOf(error) } satisfies ThreadAnswer);
    },
  );
});

async function answer(request: ThreadRequest): Promise<ThreadAnswer> {
  if (request.forgotten !== undefined) encodes.delete(request.forgotten);
  const { tokenizer, recipe } = request;
  if (recipe !== undefined) encodes.set(tokenizer, await openEncode(recipe));
  const encode = encodes.get(tokenizer);
  if (encode === undefined) throw new Error('this thread has not got this tokenizer');
  const encoder = new SegmentEncoder(encode, request);
  while (encoder.step()) if (Atomics.load(stop, 0) === 1) return { error: 'stopped' };
  return encoder.take();
}

async function openEncode(recipe: TokenizerRecipe): Promise<EncodeText> {
  if (recipe.kind === 'byte-level') return createBpeEncode(recipe);
  return createGeneralEncode(JSON.parse(readFileSync(recipe.path, 'utf8')));
}

function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof PatternBudgetError) return 'costly';
  return error instanceof TextTooLongError ? 'too-long' : undefined;
}
