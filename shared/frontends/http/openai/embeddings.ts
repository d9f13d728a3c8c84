import * as z from 'zod';
import { LIMITS, overLimit, ServeError } from '../../../errors/index.ts';
import {
  assembleTextless,
  atMost,
  type DecodeContext,
  ForwardingSink,
  type GenerationRequest,
  invalidValue,
  LazyList,
  modelName,
  type PromptInput,
  promptOf,
  readEmbeddings,
  requireShape,
  type Usage,
  u32,
} from '../../../protocol/index.ts';
import type { RequestMeter } from '../../../telemetry/index.ts';
import { decodeContext, requireServed } from '../../inference/dialect.ts';
import type { BodyRoute } from '../route.ts';
import { type Inference, serveInference } from '../serve-inference.ts';
import { BatchUsage, nothingSent, WholeSink } from '../sinks/dialect-sink.ts';
import { sendObject, sendParts } from '../sinks/send.ts';

const atLeastOne = { minItems: 1 };

/** Body of `POST /v1/embeddings`. The schema ignores other root keys and other keys of `nvext`. */
const embeddingsSchema = z.looseObject({
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

type EmbeddingsBody = z.infer<typeof embeddingsSchema>;

/** An embeddings request as one generation request for each input. One response answers all of them. */
interface DecodedEmbeddings {
  /** Requests of the batch. If there are several, their ids are `<server id>-<index>`. */
  readonly requests: readonly GenerationRequest[];
  /** Format in which the client wants to read the vectors. */
  readonly format: 'float' | 'base64';
}

/**
 * Turns an embeddings body whose types are right into requests.
 * @param isPassedOn whether the model takes the body itself, which then is one request whatever it holds
 * @throws ServeError `invalid_value`, `headers_too_large`.
 */
function decodeEmbeddings(body: EmbeddingsBody, isPassedOn: boolean, context: DecodeContext): DecodedEmbeddings {
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

/** Inputs of one batch that workers have at the same time. Each of the others waits until one of them ends. */
const IN_FLIGHT_MAX = 64;

/** `POST /v1/embeddings`. */
const serveEmbeddings = serveInference({
  endpoint: 'embeddings',
  parse: (json) => requireShape(embeddingsSchema, json),
  start: (inference, body, { meter, primaryName }) => {
    const isPassedOn = inference.deps.pipeline.requestable.find(body.model)?.card.model_input === 'Text';
    const decoded = decodeEmbeddings(body, isPassedOn, decodeContext(inference));
    inference.identify(decoded.requests[0]!); // a batch has at least one input
    requireServed(inference, body.model, 'embeddings');
    embedAll(inference, decoded, primaryName, meter);
  },
});

export const embeddings: BodyRoute = {
  serve: serveEmbeddings,
  body: {
    name: 'EmbeddingRequest',
    schema: embeddingsSchema,
    example: ({ Embedding: model }) => ({ model, input: 'A sentence to compare with others' }),
  },
};

/** Starts the inputs of the batch under one signal, each as soon as there is room for it. */
function embedAll(inference: Inference, decoded: DecodedEmbeddings, model: string, meter: RequestMeter): void {
  let next = 0;
  const startNext = (): void => {
    const index = next++;
    const request = decoded.requests[index];
    if (request === undefined || signal.aborted) return;
    const sink = inference.kept(new EmbeddingInput(batch, index, startNext));
    inference.deps.pipeline.generate(request, inference.shown(request, sink), { signal, meter });
  };
  const batch = new EmbeddingsList(inference, decoded, model);
  const signal = inference.watch(batch);
  for (let started = 0; started < IN_FLIGHT_MAX; started++) startNext();
}

/** Collects the vectors of a batch in one list object. The first failure ends the batch. */
class EmbeddingsList extends WholeSink {
  readonly #decoded: DecodedEmbeddings;
  readonly #model: string;
  /** JSON text of each input's vector, in the order of the inputs. */
  readonly #vectors: string[] = [];
  #body: object | undefined;
  readonly #usage: BatchUsage;

  constructor(inference: Inference, decoded: DecodedEmbeddings, model: string) {
    super(inference);
    this.#decoded = decoded;
    this.#model = model;
    this.#usage = new BatchUsage(decoded.requests.length);
  }

  /**
   * Reads a worker's body: the whole object if the worker took the body untouched, otherwise the vector of one prompt.
   */
  read(index: number, body: unknown): void {
    if (this.isOver) return;
    const embeddings = readEmbeddings(body);
    if (embeddings === undefined) {
      if (isListObject(body)) this.#body = withFormat(body, this.#decoded.format);
      else this.fail(unreadable('neither vectors nor a list of embeddings'));
      return;
    }
    const vector = embeddings[0];
    const text = vector === undefined ? undefined : vectorText(vector, this.#decoded.format);
    if (text === undefined || embeddings.length !== 1) this.fail(unreadable('not one base64 vector of f32'));
    else this.#vectors[index] = text;
  }

  /** Counts an input as ended. @param startNext starts the next input; runs if inputs are left */
  inputEnded(index: number, usage: Usage, startNext: () => void): void {
    if (this.isOver) return;
    if (this.#body === undefined && this.#vectors[index] === undefined) {
      this.fail(nothingSent());
      return;
    }
    const whole = this.#usage.ended(usage);
    if (whole === undefined) startNext();
    else this.end(whole, true);
  }

  protected readonly hasOutput = true; // each input checks its own

  protected write(usage: Usage): Promise<void> | undefined {
    const { deps, elapsedMs } = this.inference;
    const written =
      this.#body === undefined
        ? sendParts(this.inference, this.#parts(usage))
        : sendObject(this.inference, { ...this.#body, model: this.#model });
    deps.metrics.embedded(this.#model, elapsedMs);
    return written;
  }

  *#parts({ promptTokens }: Usage): Generator<string> {
    yield `{"object":"list","model":${JSON.stringify(this.#model)},"data":[`;
    for (const [index, text] of this.#vectors.entries()) {
      yield `${index === 0 ? '' : ','}{"index":${index},"object":"embedding","embedding":${text}}`;
    }
    yield `],"usage":${JSON.stringify({ prompt_tokens: promptTokens, total_tokens: promptTokens })}}`;
  }
}

/** Receives one input's vector, of at most 2048 dimensions. The first failure of an input fails the whole batch. */
class EmbeddingInput extends ForwardingSink {
  readonly #batch: EmbeddingsList;
  readonly #index: number;
  readonly #startNext: () => void;

  constructor(batch: EmbeddingsList, index: number, startNext: () => void) {
    super(batch);
    this.#batch = batch;
    this.#index = index;
    this.#startNext = startNext;
  }

  override body(body: unknown): void {
    this.#batch.read(this.#index, body);
  }

  override end(usage: Usage): void {
    this.#batch.inputEnded(this.#index, usage, this.#startNext);
  }
}

/** Returns the JSON text of one vector; undefined when it is not base64 of little-endian f32. */
function vectorText(base64: string, format: DecodedEmbeddings['format']): string | undefined {
  const floats = floatsOf(base64);
  if (floats === undefined) return undefined;
  return format === 'base64' ? `"${base64}"` : JSON.stringify(floats); // JSON writes a value that is not finite as null
}

/** Returns the numbers of a vector; undefined when it is not base64 of little-endian f32. */
function floatsOf(base64: string): readonly number[] | undefined {
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.length % Float32Array.BYTES_PER_ELEMENT !== 0 || bytes.toString('base64') !== base64) return undefined;
  return Array.from({ length: bytes.length / Float32Array.BYTES_PER_ELEMENT }, (_, at) =>
    bytes.readFloatLE(at * Float32Array.BYTES_PER_ELEMENT),
  );
}

interface ListObject {
  readonly data: readonly unknown[];
}

function isListObject(body: unknown): body is ListObject {
  return typeof body === 'object' && body !== null && 'data' in body && Array.isArray(body.data);
}

/**
 * Returns the list with its vectors in the format that the client wants. It leaves an entry without a valid vector as
 * the worker sent it.
 */
function withFormat(list: ListObject, format: DecodedEmbeddings['format']): object {
  const write = format === 'base64' ? asBase64 : asFloats;
  const data = new LazyList(list.data, (entry) => {
    if (typeof entry !== 'object' || entry === null || !('embedding' in entry)) return entry;
    return { ...entry, embedding: write(entry.embedding) };
  });
  return { ...list, data };
}

function asBase64(embedding: unknown): unknown {
  if (!isNumbers(embedding)) return embedding;
  const bytes = Buffer.alloc(embedding.length * Float32Array.BYTES_PER_ELEMENT);
  for (const [at, value] of embedding.entries()) bytes.writeFloatLE(value, at * Float32Array.BYTES_PER_ELEMENT);
  return bytes.toString('base64');
}

function asFloats(embedding: unknown): unknown {
  return typeof embedding === 'string' ? (floatsOf(embedding) ?? embedding) : embedding;
}

function isNumbers(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'number');
}

function unreadable(cause: string): ServeError {
  return new ServeError('internal_error', 'Internal server error', { cause });
}
