import type { ChatMessage, EngineRequest, PromptInput } from '../../protocol/generation/index.ts';

type MediaKind = 'image_url' | 'video_url' | 'audio_url';
type MediaData = NonNullable<EngineRequest['multiModalData']>;
type Part = Readonly<Record<string, unknown>>;

/**
 * The pictures, clips and sounds of a chat, by kind and in the order of the prompt: the template leaves a placeholder for
 * each, and the worker fetches what stands there. Undefined when there are
 * none. Whether a model can see or hear is its worker's to say.
 */
export function mediaParts(prompt: PromptInput): MediaData | undefined {
  if (prompt.kind !== 'chat') return undefined;
  let found: Partial<Record<MediaKind, { readonly Url: string }[]>> | undefined;
  for (const part of partsOf(prompt.messages)) {
    const media = mediaOf(part);
    if (media === undefined) continue;
    found ??= {};
    found[media.kind] ??= [];
    found[media.kind]?.push({ Url: media.url });
  }
  return found;
}

function* partsOf(messages: readonly ChatMessage[]): Generator<Part> {
  for (const { content } of messages) if (Array.isArray(content)) yield* content;
}

/** `input_audio` has no place on the request plane (1.6.1). */
function mediaOf(part: Part): { readonly kind: MediaKind; readonly url: string } | undefined {
  const { type } = part;
  if (type !== 'image_url' && type !== 'video_url' && type !== 'audio_url') return undefined;
  return { kind: type, url: (part[type] as { readonly url: string }).url }; // shapes of parts were checked with the body
}
