import { isRecord } from '../../records/index.ts';

type Body = Readonly<Record<string, unknown>>;
type Part = Readonly<Record<string, unknown>>;

const MEDIA: ReadonlySet<unknown> = new Set(['image_url', 'video_url', 'audio_url']);

/** The media of a chat as one message of the user's, in their order; none where there are none. */
export function mediaAlone(body: Body): readonly object[] {
  const content = messagesOf(body).flatMap((message) => partsOf(message).filter(({ type }) => MEDIA.has(type)));
  return content.length === 0 ? [] : [{ role: 'user', content }];
}

/** The body with the template around the text of each message that names media (`--mm-prompt-template`). */
export function withPromptTemplate(body: Body, template: string | undefined): Body {
  if (template === undefined) return body;
  return { ...body, messages: messagesOf(body).map((message) => templated(message, template)) };
}

function templated(message: Part, template: string): Part {
  const parts = partsOf(message);
  if (!parts.some(({ type }) => MEDIA.has(type))) return message;
  const text = parts.map((part) => (part.type === 'text' ? String(part.text) : '')).filter((each) => each !== '');
  const prompt = template.replaceAll('<prompt>', () => text.join('\n'));
  return { ...message, content: [...parts.filter(({ type }) => type !== 'text'), { type: 'text', text: prompt }] };
}

function messagesOf({ messages }: Body): readonly Part[] {
  return Array.isArray(messages) ? messages.filter(isRecord) : [];
}

function partsOf({ content }: Part): readonly Part[] {
  return Array.isArray(content) ? content.filter(isRecord) : [];
}
