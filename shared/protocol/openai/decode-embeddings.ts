import * as z from 'zod';
import { LIMITS, overLimit } from '../../errors/index.ts';
import type { GenerationRequest, PromptInput } from '../generation/generation-request.ts';
import type { JsonBody } from '../json/json-body.ts';
import type { DecodeContext } from './decode-context.ts';
import { assembleTextless, promptOf } from './decode-request.ts';
import { invalidValue, requireShape } from './field-checks.ts';
import { atMost } from './shape-check.ts';
import { modelName, u32 } from './shared-fields.ts';

const atLeastOne = { minItems: 1 };

/** Body of `POST /v1/embeddings`. Other root keys and other keys of `nvext` are ignored. */
export const embeddingsSchema = z.looseObject({
  model: modelName,
  input: z.union([
    z.string(),
    z.array(z.string()).meta(atLeastOne),
    z.array(u32).meta(atLeastOne),
    z.array(z.array(u32)).meta(atLeastOne),
  ]),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  dimensions: u32.nullish(),
  user: z.string().nullish(),
  nvext: z.looseObject({ annotations: atMost(z.array(z.string()), 'names').nullish() }).nullish(),
});

export type EmbeddingsBody = z.infer<typeof embeddingsSchema>;

/** An embeddings request: one generation request an input, all answered as one. */
export interface DecodedEmbeddings {
  /** Server id; a batch's requests are `<id>-<index>`. */
  readonly id: string;
  readonly requests: readonly GenerationRequest[];
  /** How the client wants to read the vectors. */
  readonly format: 'float' | 'base64';
}

/** Checks the types of an embeddings body. @throws ServeError 400; see `requireShape`. */
export function parseEmbeddingsBody(body: JsonBody): EmbeddingsBody {
  return requireShape(embeddingsSchema, body);
}

/**
 * Turns an embeddings body whose types are right into requests.
 * @param isPassedOn the model takes the body itself, which is then one request whatever it holds
 * @throws ServeError `invalid_value`, `headers_too_large`.
 */
export function decodeEmbeddings(body: EmbeddingsBody, isPassedOn: boolean, context: DecodeContext): DecodedEmbeddings {
  if (Array.isArray(body.input) && body.input.length === 0) throw invalidValue('`input` cannot be empty', 'input');
  const prompts = isPassedOn ? [{ kind: 'body' } as const] : decodeInputs(body.input);
  const { stream: _neverStreamed, ...passedOn } = body;
  const parts = {
    model: body.model,
    endpoint: 'embeddings',
    stream: false,
    prompt: prompts[0]!,
    body: passedOn,
  } as const;
  const request = assembleTextless(body, parts, context);
  request.embedding = body.dimensions == null ? {} : { dimensions: body.dimensions };
  const { id } = request;
  return {
    id,
    requests:
      prompts.length === 1 ? [request] : prompts.map((prompt, index) => ({ ...request, prompt, id: `${id}-${index}` })),
    format: body.encoding_format ?? 'float',
  };
}

function decodeInputs(input: EmbeddingsBody['input']): readonly PromptInput[] {
  if (typeof input === 'string') return [{ kind: 'raw', text: input }];
  if (typeof input[0] === 'number') return [{ kind: 'tokens', tokenIds: input as readonly number[] }];
  if (input.length > LIMITS.embedding_inputs.max) {
    const message = `\`input\` cannot hold more than ${LIMITS.embedding_inputs.max} entries, got ${input.length}`;
    throw overLimit('embedding_inputs', message, { param: 'input' });
  }
  return (input as readonly (string | readonly number[])[]).map(promptOf);
}
