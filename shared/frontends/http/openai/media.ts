import { isRecord } from '../../../records/index.ts';
import type { Inference } from '../serve-inference.ts';
import { WholeSink } from '../sinks/dialect-sink.ts';
import { sendObject } from '../sinks/send.ts';
import type { WireNames } from './wire.ts';

type Body = Readonly<Record<string, unknown>>;

/** Gathers what a media worker sends, which takes bodies untouched, and sends one object. */
export class MediaObject extends WholeSink {
  readonly #fold: (parts: readonly Body[]) => object;
  readonly #parts: Body[] = [];

  /** @param fold makes the object of the worker's parts; there is at least one */
  constructor(inference: Inference, fold: (parts: readonly Body[]) => object) {
    super(inference);
    this.#fold = fold;
  }

  override body(body: unknown): void {
    if (isRecord(body)) this.#parts.push(body);
  }

  protected get hasOutput(): boolean {
    return this.#parts.length > 0;
  }

  protected write(): Promise<void> | undefined {
    return sendObject(this.inference, this.#fold(this.#parts));
  }
}

/** The images object of what a worker sent, in one piece or several. */
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

/** One videos object as a worker sent it, complete and under the names of this response. */
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

/** All that a worker sent as one videos object: the last one, with the data of each. */
export function foldedVideoBody(parts: readonly Body[], names: WireNames): Body {
  return { ...videoBody(parts.at(-1) ?? {}, names), data: parts.flatMap(dataOf) };
}

/** The pictures or clips of a part. */
export function dataOf({ data }: Body): readonly Body[] {
  return Array.isArray(data) ? data.filter(isRecord) : [];
}
