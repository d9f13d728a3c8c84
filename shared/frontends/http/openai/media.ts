import { assembleTextless, type DecodeContext, type GenerationRequest } from '../../../protocol/index.ts';
import { isRecord } from '../../../records/index.ts';
import type { Inference } from '../serve-inference.ts';
import { WholeSink } from '../sinks/dialect-sink.ts';
import type { WireNames } from '../sinks/response-names.ts';
import { sendObject } from '../sinks/send.ts';

type Body = Readonly<Record<string, unknown>>;

type MediaBody = Parameters<typeof assembleTextless>[0] & Body & { readonly model: string };

/** Collects the parts that a media worker sends, and sends one object. Media workers take bodies untouched. */
export class WholeMedia extends WholeSink {
  readonly #collect: (parts: readonly Body[]) => object;
  readonly #parts: Body[] = [];

  /** @param collect makes the object of the worker's parts, of which there is at least one */
  constructor(inference: Inference, collect: (parts: readonly Body[]) => object) {
    super(inference);
    this.#collect = collect;
  }

  override body(body: unknown): void {
    if (isRecord(body)) this.#parts.push(body);
  }

  protected get hasOutput(): boolean {
    return this.#parts.length > 0;
  }

  protected write(): Promise<void> | undefined {
    return sendObject(this.inference, this.#collect(this.#parts));
  }
}

/** Returns the images object of what a worker sent, in one part or several. */
export function imagesBody(parts: readonly Body[], names: WireNames): Body {
  const last = parts.at(-1) ?? {};
  return {
    created: typeof last.created === 'number' ? last.created : names.created,
    data: parts.flatMap(dataOf).map(({ url, b64_json: base64, revised_prompt: revised }) => ({
      ...(url == null ? {} : { url }),
      ...(base64 == null ? {} : { b64_json: base64 }),
      revised_prompt: revised ?? null,
    })),
    background: last.background ?? null,
    output_format: last.output_format ?? null,
    size: last.size ?? null,
    quality: last.quality ?? null,
    usage: last.usage ?? null,
  };
}

/** Returns one videos object of a worker, with every field and the names of this response. */
export function videoBody(part: Body, names: WireNames): Body {
  const said = Object.fromEntries(Object.entries(part).filter(([, value]) => value !== null));
  return {
    ...names,
    object: 'video',
    status: 'completed',
    progress: 100,
    ...said,
    model: names.model,
    data: dataOf(part),
  };
}

/** Returns one videos object of all parts that a worker sent: the last part, with the data of all. */
export function wholeVideoBody(parts: readonly Body[], names: WireNames): Body {
  return { ...videoBody(parts.at(-1) ?? {}, names), data: parts.flatMap(dataOf) };
}

/** Returns the pictures or clips of a part. */
export function dataOf({ data }: Body): readonly Body[] {
  return Array.isArray(data) ? data.filter(isRecord) : [];
}

/** Returns a request for a media worker, which takes the body itself. @param known keys of the schema */
export function mediaRequest(
  endpoint: 'images' | 'videos',
  body: MediaBody,
  known: Body,
  context: DecodeContext,
): GenerationRequest {
  const stream = endpoint === 'videos' && body.stream === true;
  const parts = {
    model: body.model,
    endpoint,
    stream,
    prompt: { kind: 'body' },
    body: forWorker(body, known),
  } as const;
  return assembleTextless(body, parts, context);
}

/**
 * Returns the body as media workers read it. They get keys that the schema lacks under a key of their own, and judge
 * them.
 */
function forWorker(body: Body, known: Body): Body {
  const named: Record<string, unknown> = {};
  const unknown: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(body)) {
    if (value === null) continue;
    if (Object.hasOwn(known, key)) named[key] = value;
    else unknown[key] = value;
  }
  return Object.keys(unknown).length === 0 ? named : { ...named, extra_args: { media_passthrough: unknown } };
}
