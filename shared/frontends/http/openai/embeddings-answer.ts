import { ServeError } from '../../../errors/index.ts';
import {
  type GenerationEvent,
  type GenerationSink,
  readEmbeddings,
  type Usage,
} from '../../../protocol/generation/index.ts';
import { type DecodedEmbeddings, LazyList } from '../../../protocol/openai/index.ts';
import { NEVER_BLOCKED, nothingSent, WholeAnswer } from '../answers/whole-answer.ts';
import { writeObject, writeParts } from '../answers/written-answer.ts';
import type { InferenceCall } from '../inference-call.ts';
import { BatchUsage } from './usage-json.ts';

/** Gathers the vectors of a batch into one list object. The first failure ends all of it. */
export class EmbeddingsAnswer extends WholeAnswer {
  readonly #decoded: DecodedEmbeddings;
  readonly #model: string;
  readonly #cancel: () => void;
  /** JSON text of each input's vector, in the order of the inputs. */
  readonly #vectors: string[] = [];
  #body: object | undefined;
  readonly #usage: BatchUsage;

  /** @param cancel ends the work of all inputs */
  constructor(call: InferenceCall, decoded: DecodedEmbeddings, model: string, cancel: () => void) {
    super(call);
    this.#decoded = decoded;
    this.#model = model;
    this.#cancel = cancel;
    this.#usage = new BatchUsage(decoded.requests.length);
  }

  /** The sink of one input. @param onDone the input's work is done and was good */
  input(index: number, onDone: () => void): GenerationSink {
    return {
      text: () => {},
      event: (event) => this.#read(index, event),
      end: (usage) => this.#inputEnded(index, usage, onDone),
      fail: (error) => this.fail(error),
      ...NEVER_BLOCKED, // a vector an input, at most 2048 of them
    };
  }

  protected override refuse(error: ServeError): void {
    super.refuse(error);
    this.#cancel();
  }

  /** A worker that took the body untouched answers with the whole object, any other with the vector of its prompt. */
  #read(index: number, event: GenerationEvent): void {
    if (this.isOver || event.kind !== 'body') return;
    const embeddings = readEmbeddings(event.body);
    if (embeddings === undefined) {
      if (isListObject(event.body)) this.#body = withFormat(event.body, this.#decoded.format);
      else this.fail(unreadable('neither vectors nor a list of embeddings'));
      return;
    }
    const vector = embeddings[0];
    const text = vector === undefined ? undefined : vectorText(vector, this.#decoded.format);
    if (text === undefined || embeddings.length !== 1) this.fail(unreadable('not one base64 vector of f32'));
    else this.#vectors[index] = text;
  }

  #inputEnded(index: number, usage: Usage, onDone: () => void): void {
    if (this.isOver) return;
    if (this.#body === undefined && this.#vectors[index] === undefined) {
      this.fail(nothingSent());
      return;
    }
    const whole = this.#usage.ended(usage);
    if (whole === undefined) onDone();
    else this.#finish(whole);
  }

  #finish(usage: Usage): void {
    this.close();
    const { deps, elapsedMs } = this.call;
    this.concludeWhen(this.#write(usage), usage);
    deps.metrics.embedded(this.#model, elapsedMs);
  }

  #write(usage: Usage): Promise<void> | undefined {
    if (this.#body === undefined) return writeParts(this.call, this.#parts(usage));
    return writeObject(this.call, { ...this.#body, model: this.#model });
  }

  *#parts({ promptTokens }: Usage): Generator<string> {
    yield `{"object":"list","model":${JSON.stringify(this.#model)},"data":[`;
    for (const [index, text] of this.#vectors.entries()) {
      yield `${index === 0 ? '' : ','}{"index":${index},"object":"embedding","embedding":${text}}`;
    }
    yield `],"usage":${JSON.stringify({ prompt_tokens: promptTokens, total_tokens: promptTokens })}}`;
  }
}

/** The JSON text of one vector; undefined when it is not base64 of little-endian f32. */
function vectorText(base64: string, format: DecodedEmbeddings['format']): string | undefined {
  const floats = floatsOf(base64);
  if (floats === undefined) return undefined;
  return format === 'base64' ? `"${base64}"` : JSON.stringify(floats); // a value that is not finite becomes null
}

/** Undefined when it is not base64 of little-endian f32. */
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

/** The list with its vectors as the client wants to read them; what is no vector of one is its worker's to answer for. */
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
