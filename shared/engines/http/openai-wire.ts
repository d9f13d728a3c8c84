import { faultInAnswer, isFault, workerError } from '../../errors/index.ts';
import {
  type EmbeddingRecord,
  type EngineFinishReason,
  type EngineOutput,
  type EngineRequest,
  enginePathOf,
  readUsage,
  textFinishOf,
} from '../../protocol/index.ts';
import { asRecord, isRecord, type UnknownRecord } from '../../records/index.ts';
import type { EngineSink } from '../types.ts';
import { type AnswerReader, type Plan, readEvent } from './exchange.ts';
import { asText, jsonOrText } from './upstream.ts';

/**
 * Passes on every chunk or object of an OpenAI-compatible server unchanged: the frontend puts it into the client's
 * shape.
 */
export class BodyReader implements AnswerReader {
  readonly #sink: EngineSink;
  /** Choices whose finish has not come. */
  readonly #unfinished: Set<number>;
  #hasFinish = false;

  /** @param choices number of requested choices. @default 1 */
  constructor(sink: EngineSink, choices = 1) {
    this.#sink = sink;
    this.#unfinished = new Set(Array.from({ length: choices }, (_, index) => index));
  }

  get isFinished(): boolean {
    return this.#unfinished.size === 0;
  }

  event(data: string, name: string): void {
    const body = readEvent(data, name);
    if (body === undefined) return;
    refuseFailedChoice(body);
    this.pass(body);
  }

  whole(body: object): void {
    refuseFailedChoice(body);
    this.pass(body);
  }

  finish(isSaid: boolean): void {
    // Servers that leave out `[DONE]` send a finish reason; a stream without either was cut off.
    if (!isSaid && !this.#hasFinish) {
      throw workerError('StreamIncomplete', 'the engine ended its stream without a finish reason');
    }
  }

  protected pass(body: object): void {
    const output = outputOf(body);
    if (output.finish_reason !== undefined) this.#noteFinish(body);
    this.#sink.output(output);
  }

  #noteFinish(body: { readonly choices?: unknown }): void {
    this.#hasFinish = true;
    for (const [at, choice] of choicesOf(body).entries()) {
      if (finishOf(choice) === undefined) continue;
      this.#unfinished.delete(isRecord(choice) && typeof choice.index === 'number' ? choice.index : at);
    }
  }
}

/** Reads an answer of text, which has choices. */
class TextBodyReader extends BodyReader {
  #hasChoices = false;

  override finish(isSaid: boolean): void {
    super.finish(isSaid);
    this.#requireChoices();
  }

  override whole(body: object): void {
    super.whole(body);
    this.#requireChoices();
  }

  protected override pass(body: object): void {
    this.#hasChoices ||= choicesOf(body).length > 0;
    super.pass(body);
  }

  #requireChoices(): void {
    if (!this.#hasChoices) throw workerError('BackendProtocol', 'the engine answered without a choice');
  }
}

function choicesOf(body: { readonly choices?: unknown }): readonly unknown[] {
  return Array.isArray(body.choices) ? body.choices : [];
}

/** Refuses a failure inside a choice, where some servers report it. @throws ServeError of that choice */
function refuseFailedChoice(body: { readonly choices?: unknown }): void {
  for (const choice of choicesOf(body)) {
    if (isRecord(choice) && isRecord(choice.error) && isFault(choice)) throw faultInAnswer({ error: choice.error });
  }
}

/** Reads the answer of `/v1/embeddings` as one `EmbeddingRecord`. */
export class EmbeddingReader implements AnswerReader {
  readonly #sink: EngineSink;

  constructor(sink: EngineSink) {
    this.#sink = sink;
  }

  event(): void {
    throw workerError('BackendProtocol', 'the engine streams an embedding');
  }

  whole(body: object): void {
    const { data, usage } = body as { readonly data?: unknown; readonly usage?: unknown };
    const rows: readonly unknown[] = Array.isArray(data) ? data : [];
    const embeddings = rows.map((row) => base64Vector(isRecord(row) ? row.embedding : undefined));
    if (embeddings.length === 0) throw workerError('BackendProtocol', 'the engine answered without an embedding');
    const record: EmbeddingRecord = {
      embeddings,
      ...(isRecord(usage) && typeof usage.prompt_tokens === 'number' ? { prompt_tokens: usage.prompt_tokens } : {}),
      ...(isRecord(usage) && typeof usage.total_tokens === 'number' ? { total_tokens: usage.total_tokens } : {}),
    };
    this.#sink.output({ body: record, finish_reason: 'stop' });
  }

  finish(): void {
    // one object, complete by itself
  }
}

/** Returns base64 of little-endian f32, unchanged or from a list of numbers. */
function base64Vector(vector: unknown): string {
  if (typeof vector === 'string') return vector;
  if (!Array.isArray(vector) || !vector.every((value) => typeof value === 'number')) {
    throw workerError('BackendProtocol', 'an embedding of the engine is not a list of numbers');
  }
  const bytes = Buffer.alloc(4 * vector.length);
  vector.forEach((value, at) => {
    bytes.writeFloatLE(value, 4 * at);
  });
  return bytes.toString('base64');
}

/** Converts a chunk or object to an engine output: the unchanged body, with the fields that other parts read. */
function outputOf(body: object): EngineOutput {
  const { choices } = body as { choices?: unknown };
  const first: unknown = Array.isArray(choices)
    ? (choices.find((choice) => finishOf(choice) !== undefined) ?? choices[0])
    : undefined;
  const reason = finishOf(first);
  const index =
    isRecord(first) && Number.isSafeInteger(first.index) && Number(first.index) >= 0 ? Number(first.index) : undefined;
  const usage = readUsage(body as UnknownRecord);
  return {
    body,
    ...(index === undefined ? {} : { index }),
    ...(reason === undefined ? {} : { finish_reason: reason }),
    ...(usage === undefined ? {} : { completion_usage: usage }),
  };
}

function finishOf(choice: unknown): EngineFinishReason | undefined {
  const reason = isRecord(choice) ? choice.finish_reason : undefined;
  if (typeof reason !== 'string' || reason === '') return undefined;
  return textFinishOf(reason) ?? 'stop'; // the body has its own word
}

/** Fields in which a server may give the longest sequence: those of vLLM and SGLang, then others. */
const CONTEXT_FIELDS = ['max_model_len', 'context_length', 'context_window', 'max_context_length'];

/** Row of `/v1/models`. */
export interface ListedModel {
  readonly id: string;
  readonly contextLength: number | undefined;
  /** Folder or repository of the weights. */
  readonly root: string | undefined;
  /** Model that an adapter belongs to; set only on adapters. */
  readonly parent: string | undefined;
  /** Owner, which for vLLM and SGLang is their own name. */
  readonly owner: string | undefined;
}

/** Returns the models in an answer of `/v1/models`; none when it is not such an answer. */
export function readModels(text: string): readonly ListedModel[] {
  const body = jsonOrText(text) as { data?: unknown } | null;
  const rows: unknown[] = Array.isArray(body?.data) ? body.data : [];
  return rows.flatMap((row) => {
    const fields = (row ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof fields.id !== 'string') return [];
    const lengths = CONTEXT_FIELDS.map((name) => fields[name]);
    const contextLength = lengths.find((value) => typeof value === 'number' && Number.isInteger(value) && value > 0);
    return [
      {
        id: fields.id,
        contextLength: contextLength as number | undefined,
        root: asText(fields.root),
        parent: asText(fields.parent),
        owner: asText(fields.owned_by),
      },
    ];
  });
}

/**
 * Creates the error for an engine that does not list the model.
 * @param wanted undefined = any
 * @param hint advice if it lists none
 */
export function noSuchModel(
  models: readonly ListedModel[],
  wanted: string | undefined,
  { at = '', hint }: { readonly at?: string; readonly hint?: string } = {},
): Error {
  const known = models.map(({ id }) => id).join(', ') || 'none';
  const none = `lists no model${hint === undefined ? '' : `: ${hint}`}`;
  return new Error(
    `the engine${at} ${wanted === undefined ? none : `does not serve \`${wanted}\``} (it lists: ${known})`,
  );
}

/**
 * Parses `http://host:8000`, with or without `/v1` after it.
 * @throws TypeError when it is not an HTTP URL
 */
export function baseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new TypeError(`the engine's URL must start with http:// or https://, got \`${text}\``);
  }
  url.pathname = url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
  return url;
}

const STREAMED_TEXT: ReadonlySet<string> = new Set(['chat_completions', 'completions']);

/**
 * Plans a request with the client's own body, for an engine that renders and tokenizes itself. A stream of text always
 * ends with its usage: the frontend counts by it, and shows it only to clients that asked.
 *
 * @param engine name of the engine in messages
 * @param model name of the model in the engine; undefined = the client's word
 * @param fields those of the engine's own words, which replace the client's. @default none
 * @throws ServeError `NotImplemented` for a request without text, or for a route that such an engine lacks
 */
export function planText(
  { input }: EngineRequest,
  sink: EngineSink,
  engine: string,
  model: string | undefined,
  headers: Readonly<Record<string, string>>,
  fields: Readonly<Record<string, unknown>> = {},
): Plan {
  const path = input.kind === 'text' ? enginePathOf(input.endpoint) : undefined;
  if (input.kind !== 'text' || path === undefined) {
    const what = input.kind === 'text' ? `requests to ${input.endpoint}` : `${input.kind} input`;
    throw workerError('NotImplemented', `${engine} does not take ${what}`);
  }
  const { stream_options: options } = input.body;
  const counts = input.body.stream === true && STREAMED_TEXT.has(input.endpoint);
  const usage = counts ? { stream_options: { ...asRecord(options), include_usage: true } } : {};
  const body = JSON.stringify({ ...input.body, ...fields, ...usage, model: model ?? input.body.model });
  const isText = STREAMED_TEXT.has(input.endpoint);
  const n = isText && Number.isInteger(input.body.n) ? Number(input.body.n) : 1;
  return { message: { path, body, headers }, reader: isText ? new TextBodyReader(sink, n) : new BodyReader(sink) };
}
