import type { WireNames } from './wire-names.ts';

type Body = Readonly<Record<string, unknown>>;

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

/** One videos object as a worker sent it, complete and under the names of this answer. */
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
  return Array.isArray(data) ? data.filter(isBody) : [];
}

export function isBody(value: unknown): value is Body {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
